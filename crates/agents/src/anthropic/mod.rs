//! Anthropic's Messages API.

mod client;
#[cfg(feature = "probe")]
pub mod probe;
mod protocol;

pub use client::Anthropic;
