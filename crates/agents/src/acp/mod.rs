//! Agents that speak the Agent Client Protocol over their stdin and stdout: one line of JSON for
//! each message, in both directions.
//!
//! A [`Connection`] is a program below a process guard ([`guard`](crate::command::process_guard)):
//! nothing that it started outlives it. Its owner sends one request at a time, and receives the
//! agent's updates while it works: a [`Turn`] is a running prompt, a [`Replay`] an earlier session
//! that is being loaded. No task runs in the background, so an agent that sends faster than its
//! owner reads has to wait, and memory is bounded. Cancelling the future of `next` loses nothing.
//!
//! The agent's own requests are answered on the way: permission requests by a [`Policy`] that
//! denies by default and never answers "always", files only where [`Files`] offers them and inside
//! the session's folder, everything else by "method not found".
//!
//! An agent's output is untrusted. Known messages are parsed strictly; unknown updates are kept as
//! they came ([`Update::Raw`]); a line that cannot be a message ends the connection with an error
//! that says why. Responses without a request are skipped.
//!
//! [`Acp`] is the driver for the engine: it runs a process for each request and reports the updates
//! as entries of a conversation.

mod connection;
mod driver;
mod error;
mod files;
mod fold;
mod permissions;
#[cfg(feature = "probe")]
pub mod probe;
mod transport;
mod turn;
mod update;

use std::sync::Arc;
use std::time::Duration;

use segno_core::ports::Clock;

use crate::command::{AgentEnvironment, Launch};
pub use connection::{Agent, Connection, Session};
pub use driver::Acp;
pub use error::AcpError;
pub use permissions::Policy;
pub use turn::{Event, Outcome, Replay, Replayed, Stop, Tokens, Turn};
pub use update::{
    Chunk, FileOperation, Location, Money, PlanEntry, Status, Tool, ToolKind, Update,
};

/// Timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For the response to a request that the agent can answer at once. While a session is loaded,
    /// it limits the time between two messages; after a cancel, the time until the end of the turn.
    pub answer: Duration,
    /// How long it may send nothing at all while it works on a prompt: a tool may run for long.
    pub silence: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            answer: Duration::from_mins(2),
            silence: Duration::from_mins(30),
        }
    }
}

/// Which files an agent may access through the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Files {
    /// None: it reads and writes them itself.
    #[default]
    Closed,
    /// Files in its session's folder, read only.
    Read,
    /// Files in its session's folder.
    ReadAndWrite,
}

/// What a connection needs from its owner.
#[derive(Clone)]
pub struct ConnectionConfig {
    /// Starts the process guard.
    pub guard: Launch,
    /// Which environment variables the program gets.
    pub environment: AgentEnvironment,
    /// Names of variables that the spec passes to the program.
    pub pass_env: Vec<String>,
    /// Measures the timeouts.
    pub clock: Arc<dyn Clock>,
    pub limits: Limits,
    /// Answers permission requests.
    pub policy: Policy,
    /// Answers file requests.
    pub files: Files,
}
