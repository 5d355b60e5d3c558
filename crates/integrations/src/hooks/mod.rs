//! Hooks: CLI agents report sessions that Segno did not start.
//!
//! A hook is an entry in the settings of the CLI agent. [`entries`] adds Segno's hooks to the text
//! of a settings file and removes them, without changing another byte. [`settings`] changes the
//! file. [`receipt`] records what was added, so that it can be removed exactly. [`event`] is the
//! hook itself: it writes a notification to the [`spool`] and nothing else.

pub mod agent;
pub mod entries;
pub mod error;
pub mod event;
mod json_text;
pub mod receipt;
pub mod settings;
pub mod shell;
pub mod spool;

pub use agent::Agent;
pub use error::Error;

/// The hidden subcommand that runs the hook.
pub const HOOK: &str = "__hook";
