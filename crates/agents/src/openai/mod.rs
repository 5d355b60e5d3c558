//! Chat completions: OpenAI, Ollama, vLLM and many others.

mod client;
mod protocol;

pub use client::OpenAi;
