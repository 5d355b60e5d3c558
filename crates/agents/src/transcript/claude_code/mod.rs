//! Claude Code's transcript: a tree of records, one to a line.
//!
//! `parentUuid` links a record to its predecessor. Two resumes at once make two branches; Claude
//! Code resumes the branch that ends in the newest leaf, and so does [`tree`].

mod encode;
mod paths;
mod record;
mod repair;
mod tree;
mod write;

pub(crate) use paths::{field_paths, find, sub_agent_folder, sub_agents, transcript_path};
pub(crate) use repair::ClaudeCodeRepairer;
pub(crate) use tree::{LatestResultTime, Tree};
pub(crate) use write::{TOOL_CALL_FORMAT, records};

use segno_core::conversation::ConversationItem;

use crate::transcript::{Adapter, Facts, Object};

/// Which adapter reads which version, oldest first.
pub(crate) const ADAPTERS: &[Adapter] = &[Adapter {
    versions: &["2.1.325"],
    read: record::read,
}];

/// The entries of a record from any source (transcript or stream).
pub(crate) fn entries(record: &Object, facts: &mut Facts) -> Vec<ConversationItem> {
    record::read(record, facts).entries
}
