//! Claude Code as a CLI agent: runs without a terminal, reports line by line as JSON, and is
//! resumed by the id of its session.

mod driver;
#[cfg(feature = "probe")]
pub mod probe;
mod stream;
mod window;

pub use driver::ClaudeCode;
pub use window::default_for_family;
