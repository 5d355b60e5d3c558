//! The Messages API.

mod client;
mod protocol;

pub use client::Anthropic;
