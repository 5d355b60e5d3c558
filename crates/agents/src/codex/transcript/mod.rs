//! Codex's transcript, which it calls a rollout: records in one line, none of them linked.

mod mend;
mod place;
mod record;
mod write;

pub(crate) use mend::Mender;
pub(crate) use place::{find, place, ways};
pub(crate) use write::{DIALECT, records};

use crate::transcript::Adapter;

/// What reads which version, oldest first.
pub(crate) const ADAPTERS: &[Adapter] = &[Adapter {
    versions: &["0.166.0"],
    read: record::read,
}];
