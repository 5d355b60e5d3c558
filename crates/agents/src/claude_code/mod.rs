//! Claude Code: asked without a terminal, heard line by line, gone on with by the name of its
//! conversation.

mod driver;
mod stream;
pub mod transcript;

pub use driver::ClaudeCode;
