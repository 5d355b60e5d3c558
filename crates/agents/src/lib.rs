//! Drivers: how each sort of agent is spoken to. One folder each.
//!
//! - [`scripted`] answers from a file: offline, free and the same every time.
//! - [`command`] asks any program: prompt on its stdin, answer from its stdout.
//!
//! Both implement [`segno_core::agent::Driver`]. [`acp`] speaks to agents that have sessions of their
//! own, over the Agent Client Protocol. Models behind an API implement
//! [`segno_core::model::Model`]:
//!
//! - [`anthropic`] speaks the Messages API.
//! - [`bedrock`] speaks the Converse API of Amazon Bedrock.
//! - [`openai`] speaks chat completions: OpenAI, Ollama, vLLM and many others.
//!
//! None keeps anything between two requests. Retries, timeouts, the conversation with a model and
//! the journal are the engine's. [`tools`] is what models may ask for, and [`mcp`] what they may ask of
//! others. [`otlp`] tells a collector what runs do. [`transcript`] reads and writes what agents keep of a
//! session themselves.

pub mod acp;
pub mod anthropic;
pub mod bedrock;
pub mod claude_code;
pub mod codex;
pub mod command;
pub mod http;
pub mod mcp;
pub mod openai;
pub mod otlp;
#[cfg(feature = "probe")]
mod probe;
pub mod program;
mod record;
mod reset;
pub mod scripted;
mod service;
pub mod tools;
pub mod transcript;

pub use acp::Acp;
pub use anthropic::Anthropic;
pub use bedrock::Bedrock;
pub use claude_code::ClaudeCode;
pub use codex::Codex;
pub use command::{Command, Launch};
pub use http::{Client, Endpoint, Inference};
pub use mcp::{Mcp, McpError, McpServer};
pub use openai::{KeyHeader, OpenAi};
pub use otlp::Collector;
pub use scripted::{Ledger, Script, ScriptError, Scripted};
pub use service::Service;
pub use tools::{Executor, Executors, Gear, NativeTools, NotAHost, Reach, Search, Skills, Web};
