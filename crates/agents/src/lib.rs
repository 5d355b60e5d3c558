//! Drivers: how each sort of agent is spoken to. One folder each.
//!
//! - [`scripted`] answers from a file: offline, free and the same every time.
//! - [`command`] asks any program: prompt on its stdin, answer from its stdout.
//!
//! Every driver implements [`segno_core::agent::Driver`] and keeps nothing between two requests.
//! Retries, timeouts and the journal are the engine's.

pub mod command;
pub mod scripted;

pub use command::{Command, Launch};
pub use scripted::{Ledger, Script, ScriptError, Scripted};
