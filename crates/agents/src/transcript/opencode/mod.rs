//! opencode's conversations, which it keeps in one SQLite database:
//! `~/.local/share/opencode/opencode.db`.
//!
//! [`database`] reads the database and never writes to it, also while opencode runs. The messages of
//! a conversation become the lines of an [`extract`], with what does not change later: so it grows
//! like the transcripts of other programs, and is read like them.

mod database;
mod extract;
mod record;
mod transcripts;

pub use database::{Conversation, Database};
pub use transcripts::OpenCodeTranscripts;

use crate::transcript::Adapter;

/// Which adapter reads which version of the extract. opencode 1.18.33 was tested.
pub(crate) const ADAPTERS: &[Adapter] = &[Adapter {
    versions: &["1"],
    read: record::read,
}];

/// Whether a text has the form of opencode's session ids.
pub fn is_session_id(text: &str) -> bool {
    let rest = text.strip_prefix("ses_");
    rest.is_some_and(|rest| {
        (1..=64).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}
