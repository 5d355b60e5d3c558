//! Codex's transcript, which it calls a rollout: records in one line, none of them linked.

mod mend;
mod place;
mod record;

pub(crate) use mend::Mender;
pub(crate) use place::{find, place, ways};

use crate::transcript::Adapter;

/// What reads which version, oldest first.
pub(crate) const ADAPTERS: &[Adapter] = &[Adapter {
    versions: &["0.166.0"],
    read: record::read,
}];
