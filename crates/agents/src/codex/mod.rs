//! Codex: asked without a terminal, heard line by line, gone on with by the name of its thread.

mod driver;
mod stream;
pub mod transcript;

pub use driver::Codex;
