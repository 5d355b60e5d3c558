//! Claude Code's transcript: a tree of records, one to a line.
//!
//! A record follows another by `parentUuid`. Two resumes at once make two branches; the program goes
//! on with the branch that ends in the newest leaf, and so does what reads here ([`tree`]).

mod made;
mod mend;
mod place;
mod record;
mod tree;
mod write;

pub(crate) use mend::Mender;
pub(crate) use place::{below, find, place, sub_agents, ways};
pub(crate) use tree::{Newest, Tree};
pub(crate) use write::{DIALECT, records};

use segno_core::conversation::Entry;

use crate::transcript::{Adapter, Facts, Object};

/// What reads which version, oldest first.
pub(crate) const ADAPTERS: &[Adapter] = &[Adapter {
    versions: &["2.1.325"],
    read: record::read,
}];

/// What a record says, wherever it was read.
pub(super) fn entries(record: &Object, facts: &mut Facts) -> Vec<Entry> {
    record::read(record, facts).entries
}
