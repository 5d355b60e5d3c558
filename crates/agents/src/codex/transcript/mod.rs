//! Codex's transcript, which it calls a rollout: records in one line, none of them linked.

mod record;

use crate::transcript::Adapter;

/// What reads which version, oldest first.
pub(crate) const ADAPTERS: &[Adapter] = &[Adapter {
    versions: &["0.166.0"],
    read: record::read,
}];
