//! Codex's transcript, which it calls a rollout: a sequence of records, none of them linked.

mod contents;
mod paths;
mod record;
mod repair;
mod shell;
mod write;

pub(crate) use contents::{read as read_contents, reported as reported_contents};
pub(crate) use paths::{field_paths, find, transcript_path};
pub(crate) use repair::CodexRepairer;
pub(crate) use write::{TOOL_CALL_FORMAT, records};

use crate::transcript::Adapter;

/// Which adapter reads which version, oldest first.
pub(crate) const ADAPTERS: &[Adapter] = &[Adapter {
    versions: &["0.166.0"],
    read: record::read,
}];
