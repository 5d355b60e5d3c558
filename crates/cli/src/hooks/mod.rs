//! Hooks: what agent programs are asked to tell of sessions that Segno did not start.
//!
//! A hook is an entry in the program's own settings. [`entries`] puts ours into the text of such a
//! file and takes them out again, without touching another byte; [`settings`] changes the file;
//! [`receipt`] remembers what was put in, so that it can be undone exactly. [`event`] is what the
//! program starts: it leaves a note in the [`spool`](crate::spool) and nothing else.

pub(crate) mod agent;
pub(crate) mod entries;
pub(crate) mod error;
pub(crate) mod event;
mod places;
pub(crate) mod receipt;
pub(crate) mod settings;
pub(crate) mod shell;

pub(crate) use agent::Agent;
pub(crate) use error::Error;

/// The hidden word that turns this program into a hook.
pub(crate) const HOOK: &str = "__hook";
