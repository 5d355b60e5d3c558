//! Which version of a transcript is read by what.

use segno_core::conversation::Entry;
use serde::Serialize;

use super::{Facts, Object};

/// Reads the records of some versions of an agent's program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Adapter {
    /// The versions that it was seen to read.
    pub(crate) versions: &'static [&'static str],
    /// Says what a record says, and learns from it about the session.
    pub(crate) read: fn(&Object, &mut Facts) -> Reading,
}

/// What a record says.
#[derive(Debug)]
pub(crate) struct Reading {
    /// Its entries; a record that is not as it should be is one raw entry.
    pub(crate) entries: Vec<Entry>,
    /// The field that is not as it should be.
    pub(crate) shape: Option<&'static str>,
}

/// How well a transcript's version is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Adapted {
    /// Transcripts of this version were seen.
    Known(String),
    /// None was seen; it is read as the newest that is known.
    Unseen(String),
    /// The transcript does not say.
    Unsaid,
}

/// The adapter for a version, or the newest one.
pub(crate) fn choose(
    adapters: &'static [Adapter],
    version: Option<&str>,
) -> (&'static Adapter, Adapted) {
    let newest = adapters.last().expect("every agent has an adapter");
    let Some(version) = version else {
        return (newest, Adapted::Unsaid);
    };
    let known = adapters
        .iter()
        .find(|adapter| adapter.versions.contains(&version));
    match known {
        Some(adapter) => (adapter, Adapted::Known(version.to_owned())),
        None => (newest, Adapted::Unseen(version.to_owned())),
    }
}
