//! Chat completions: OpenAI, Azure, Gemini, Ollama, vLLM and many others.

mod client;
mod protocol;

pub use client::{KeyHeader, OpenAi};
