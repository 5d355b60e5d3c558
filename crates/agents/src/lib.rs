//! Drivers: one folder for each kind of agent.
//!
//! - [`scripted`] answers from a file: offline, free and deterministic.
//! - [`command`] runs any program: prompt on its stdin, answer from its stdout.
//!
//! Both implement [`segno_core::agent::Driver`]. [`acp`] talks to agents that have sessions of
//! their own, over the Agent Client Protocol; [`claude_code`] and [`codex`] run the CLI agents of
//! these names. Models behind an API implement [`segno_core::model::Model`]:
//!
//! - [`anthropic`] speaks the Messages API.
//! - [`bedrock`] speaks the Converse API of Amazon Bedrock.
//! - [`openai`] speaks chat completions: OpenAI, Ollama, vLLM and many others.
//!
//! No driver keeps state between two requests. The engine owns retries, timeouts, the conversation
//! with a model and the journal. [`tools`] holds the built-in tools that models may call, and
//! [`mcp`] the tools of MCP servers. [`otlp`] exports traces to a collector. [`transcript`] reads
//! and writes the transcripts that CLI agents keep of their sessions.

pub mod acp;
pub mod anthropic;
pub mod bedrock;
pub mod claude_code;
pub mod codex;
pub mod command;
mod holders;
pub mod http;
mod json_rpc;
pub mod mcp;
pub mod openai;
pub mod otlp;
#[cfg(feature = "probe")]
mod probe;
pub mod process;
pub mod program;
mod reset;
mod sanitize;
pub mod scripted;
mod service;
pub mod tools;
pub mod transcript;
mod transcript_files;

pub use acp::Acp;
pub use anthropic::Anthropic;
pub use bedrock::Bedrock;
pub use claude_code::ClaudeCode;
pub use codex::Codex;
pub use command::{AgentEnvironment, Command, Launch};
pub use http::{Client, Endpoint, Inference};
pub use mcp::{Mcp, McpError, McpServer};
pub use openai::{KeyHeader, OpenAi};
pub use otlp::Collector;
pub use scripted::{Ledger, Script, ScriptError, Scripted};
pub use service::SegnoMcpServer;
pub use tools::{
    BuiltinTools, Executor, Executors, NetworkPolicy, NotAHost, Search, Skills, ToolDeps, Web,
    WritePolicy,
};
