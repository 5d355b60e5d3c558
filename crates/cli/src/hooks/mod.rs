//! Hooks: CLI agents report sessions that Segno did not start.
//!
//! A hook is an entry in the settings of the CLI agent. [`entries`] adds Segno's hooks to the text
//! of a settings file and removes them, without changing another byte. [`settings`] changes the
//! file. [`receipt`] records what was added, so that it can be removed exactly. [`event`] is the
//! hook itself: it writes a notification to the [`spool`] and nothing else.

pub(crate) mod agent;
pub(crate) mod entries;
pub(crate) mod error;
pub(crate) mod event;
mod json_text;
pub(crate) mod receipt;
pub(crate) mod settings;
pub(crate) mod shell;
pub(crate) mod spool;

pub(crate) use agent::Agent;
pub(crate) use error::Error;

/// The hidden subcommand that runs the hook.
pub(crate) const HOOK: &str = "__hook";
