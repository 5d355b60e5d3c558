//! Tools of MCP servers: programs that speak the Model Context Protocol over their stdin and
//! stdout, and servers that speak it over HTTP.
//!
//! [`Mcp::connect`] connects to a server and lists its tools; the list does not change afterwards.
//! A call is sent once and never repeated: it is not known whether a call that failed half-way had
//! an effect, and its error says so. The next call reconnects to a server that went away.
//!
//! A program runs below a process guard ([`guard`](crate::command::process_guard)), like an agent:
//! nothing that it started outlives the [`Mcp`], nor a Segno that is killed. From Segno's
//! environment it has only variables that are no keys (`PATH`, `HOME`, locale and the like), and in
//! addition the variables of the spec.
//!
//! A server's output is untrusted. Descriptions are sanitized and limited in length, results are
//! limited in length, and the server's requests are refused: it can neither use the model nor ask
//! the user. Only the annotations of its tools are trusted, because nothing else says which calls
//! may be repeated.

mod client_handler;
mod error;
mod http_transport;
mod message;
#[cfg(feature = "probe")]
pub mod probe;
mod server;
mod stdio_transport;
mod tool_result;
mod tools;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use segno_core::ports::Clock;

use crate::command::Launch;
use crate::http::Client;
pub use error::McpError;
pub use tools::Mcp;

/// A server of a spec.
#[derive(Clone)]
pub struct McpServer {
    /// Its name in the spec.
    pub id: String,
    pub transport: Transport,
}

/// How a server is reached. It may contain secrets, so it cannot be printed.
#[derive(Clone)]
pub enum Transport {
    /// A program that Segno starts.
    Stdio {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Added to its environment.
        env: Vec<(String, String)>,
        /// Its working folder.
        folder: PathBuf,
    },
    /// Over HTTP.
    Http {
        url: String,
        /// Sent with every request.
        headers: Vec<(String, String)>,
    },
}

/// Timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For starting a server and listing its tools.
    pub connect: Duration,
    /// For the result of a call.
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

/// What a connection needs from its owner.
#[derive(Clone)]
pub struct ConnectionConfig {
    /// Starts the process guard.
    pub guard: Launch,
    pub client: Client,
    /// Measures the timeouts.
    pub clock: Arc<dyn Clock>,
    pub limits: Limits,
}
