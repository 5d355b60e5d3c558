//! Tools of MCP servers: programs that speak the Model Context Protocol over their stdin and stdout,
//! and addresses that speak it over HTTP.
//!
//! [`Mcp::connect`] starts or calls a server, and asks what it offers. What it offers then is what is
//! offered for good. A call is sent once and never again: whether one that failed half-way
//! had an effect is not known, and its error says so. A server that went away is started or called
//! again for the next call.
//!
//! A program stands below a [`warden`](crate::command::warden), like an agent: nothing that it
//! started outlives the [`Mcp`], nor a Segno that is killed. It has Segno's environment and what the
//! spec adds to it.
//!
//! What a server says is data from a stranger. Descriptions are bounded and cleaned, answers are
//! bounded, and its requests are refused: it can neither use the model nor ask the
//! person. Only the hints about its tools are believed, because nothing else tells what may be
//! repeated.

mod address;
mod answer;
mod error;
mod host;
#[cfg(feature = "probe")]
pub mod probe;
pub(crate) mod program;
mod server;
mod tools;
mod wire;
pub(crate) mod words;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use segno_core::ports::Clock;

use crate::{Client, Launch};
pub use error::McpError;
pub use tools::Mcp;

/// A server, as a spec has it.
#[derive(Clone)]
pub struct McpServer {
    /// Its name in the spec.
    pub id: String,
    /// How it is spoken to.
    pub transport: Transport,
}

/// How a server is spoken to. What may be secret is in it, so it cannot be printed.
#[derive(Clone)]
pub enum Transport {
    /// Through a program that is started.
    Program {
        /// The program and its arguments.
        argv: Vec<String>,
        /// What is added to its environment.
        env: Vec<(String, String)>,
        /// The folder that it starts in.
        folder: PathBuf,
    },
    /// Over HTTP.
    Address {
        /// Where it is.
        url: String,
        /// What every request carries.
        headers: Vec<(String, String)>,
    },
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Until a server was started and has said what it offers.
    pub connect: Duration,
    /// Until a call is answered.
    pub call: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            call: Duration::from_mins(2),
        }
    }
}

/// What is needed to speak to servers.
#[derive(Clone)]
pub struct Means {
    /// How a program's warden is started.
    pub warden: Launch,
    /// Speaks HTTP.
    pub client: Client,
    /// Measures the limits.
    pub clock: Arc<dyn Clock>,
    /// How long things may take.
    pub limits: Limits,
}
