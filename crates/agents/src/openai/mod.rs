//! Chat completions: OpenAI, Azure, Gemini, Ollama, vLLM and many others.

mod client;
#[cfg(feature = "probe")]
pub mod probe;
mod protocol;

pub use client::{KeyHeader, OpenAi};
