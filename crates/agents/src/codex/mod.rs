//! Codex: asked without a terminal, heard line by line, gone on with by the name of its thread.

mod driver;
#[cfg(feature = "probe")]
pub mod probe;
mod stream;
mod tail;
pub mod transcript;

pub use driver::Codex;
