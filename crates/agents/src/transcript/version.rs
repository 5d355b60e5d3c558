//! Selects the adapter for a transcript's version.

use segno_core::conversation::ConversationItem;
use serde::Serialize;

use super::{Facts, Object};

/// Reads the records of some versions of a CLI agent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Adapter {
    /// The versions that it was tested with.
    pub(crate) versions: &'static [&'static str],
    /// Parses a record, and updates the facts about the session.
    pub(crate) read: fn(&Object, &mut Facts) -> ParsedRecord,
}

/// A parsed record.
#[derive(Debug)]
pub(crate) struct ParsedRecord {
    /// A record of unexpected shape is one raw entry.
    pub(crate) entries: Vec<ConversationItem>,
    /// The field with an unexpected value.
    pub(crate) shape: Option<&'static str>,
}

/// How well a transcript's version is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VersionSupport {
    /// Segno was tested with transcripts of this version.
    Known(String),
    /// It was not; the transcript is read like the newest known version.
    #[serde(rename = "unseen")]
    Untested(String),
    /// The transcript does not report its version.
    #[serde(rename = "unsaid")]
    Unreported,
}

/// The adapter for a version, or the newest one.
pub(crate) fn choose_adapter(
    adapters: &'static [Adapter],
    version: Option<&str>,
) -> (&'static Adapter, VersionSupport) {
    let newest = adapters.last().expect("every agent has an adapter");
    let Some(version) = version else {
        return (newest, VersionSupport::Unreported);
    };
    let known = adapters
        .iter()
        .find(|adapter| adapter.versions.contains(&version));
    match known {
        Some(adapter) => (adapter, VersionSupport::Known(version.to_owned())),
        None => (newest, VersionSupport::Untested(version.to_owned())),
    }
}
