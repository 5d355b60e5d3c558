//! Claude Code: asked without a terminal, heard line by line, gone on with by the name of its
//! conversation.

mod driver;
#[cfg(feature = "probe")]
pub mod probe;
mod stream;
pub mod transcript;
mod window;

pub use driver::ClaudeCode;
