//! Agents that speak the Agent Client Protocol over their stdin and stdout: a line of JSON for each
//! message, both ways.
//!
//! A [`Connection`] is a program below a [`warden`](crate::command::warden): nothing that it started
//! outlives it. Its owner asks one thing at a time, and hears what the agent reports while it works:
//! a [`Turn`] is a prompt under way, a [`Replay`] an earlier session that is brought back. Nothing
//! runs beside them, so an agent that says more than is heard has to wait, and memory is bounded.
//! Giving up waiting for `next` loses nothing.
//!
//! The agent's own questions are answered on the way: leave to use a tool by a [`Policy`] that
//! denies unless told otherwise and never says "always", files only where [`Files`] offers them
//! and inside the session's folder, everything else by "there is no such method".
//!
//! What an agent says is data from a stranger. What is known is read strictly; what is not is kept
//! as it came ([`Update::Raw`]); what cannot be a message ends the conversation with an error that
//! says why. Answers to what was never asked are passed over.
//!
//! [`Acp`] asks such an agent for the engine: a process for each question, and what it reports as
//! entries of a conversation.

mod connection;
mod driver;
mod error;
mod files;
mod fold;
mod leave;
mod link;
#[cfg(feature = "probe")]
pub mod probe;
mod rpc;
mod turn;
mod update;

use std::sync::Arc;
use std::time::Duration;

use segno_core::ports::{Clock, Disk};

use crate::Launch;
pub use connection::{Agent, Connection, Session};
pub use driver::Acp;
pub use error::AcpError;
pub use leave::Policy;
pub use turn::{Event, Outcome, Replay, Replayed, Stop, Tokens, Turn};
pub use update::{Deed, Location, Money, Piece, PlanEntry, Status, Tool, ToolKind, Update};

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Until the agent has answered what it should know at once. While a session is brought back,
    /// and after a cancel, it is the time between two messages, or until the end.
    pub answer: Duration,
    /// How long it may say nothing at all while it works on a prompt: a tool may run for long.
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

/// Which files an agent may ask us for.
#[derive(Clone, Default)]
pub enum Files {
    /// None: it reads and writes itself.
    #[default]
    Closed,
    /// Those in its session's folder, to read.
    Read(Arc<dyn Disk>),
    /// Those in its session's folder.
    ReadAndWrite(Arc<dyn Disk>),
}

/// What is needed to speak to agents.
#[derive(Clone)]
pub struct Means {
    /// How a program's warden is started.
    pub warden: Launch,
    /// Measures the limits.
    pub clock: Arc<dyn Clock>,
    /// How long things may take.
    pub limits: Limits,
    /// Which tools it may use.
    pub policy: Policy,
    /// Which files it may ask for.
    pub files: Files,
}
