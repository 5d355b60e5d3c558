//! Gemini's transcripts: `~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl`.
//!
//! A file begins with a line about the session. Each message is a line. A message of the model that
//! has grown, by its tool calls and their results, is written again as a whole. `$set` changes what
//! is known about the session.

mod paths;
mod record;

pub use paths::is_transcript;
pub(crate) use paths::{PROJECTS, find, has_name, project_root};

use crate::transcript::Adapter;

/// Which adapter reads which version, oldest first. Transcripts do not say their version.
pub(crate) const ADAPTERS: &[Adapter] = &[Adapter {
    versions: &["0.61.0"],
    read: record::read,
}];
