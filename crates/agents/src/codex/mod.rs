//! Codex as a CLI agent: runs without a terminal, reports line by line as JSON, and is resumed by
//! the id of its thread.

mod driver;
#[cfg(feature = "probe")]
pub mod probe;
mod stream;
mod tail;

pub use driver::Codex;
