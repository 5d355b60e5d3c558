//! Reads and writes `manifest.json`: a description of the folder in the published layout, and under
//! `segno` the data that an import uses.

use std::collections::BTreeMap;
use std::path::Path;

use segno_core::checkpoint::{self, Manifest};
use segno_core::digest::Digest;
use segno_core::snapshot::archive::WrittenArchive;
use segno_core::store::Error as StoreError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::conversation::Conversation;
use super::{Error, VERSION, names, refuse};

/// The prefix of this program's checksums.
const CHECKSUM_PREFIX: &str = "blake3:";

/// A file of the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    pub(super) bytes: u64,
    pub(super) digest: Digest,
}

/// The data that an import uses.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SegnoSection {
    format: u32,
    pub(super) checkpoint: Manifest,
    pub(super) files: BTreeMap<String, Part>,
}

/// The fields in their order. The checksum is appended last.
#[derive(Serialize)]
struct ManifestJson<'a> {
    version: &'static str,
    id: String,
    session_id: String,
    created_at: String,
    trigger: checkpoint::Trigger,
    conversation: Value,
    workspace: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    git: Option<Value>,
    metrics: Value,
    segno: &'a SegnoSection,
}

pub(super) fn write(
    manifest: &Manifest,
    conversation: &Conversation,
    archive: WrittenArchive,
    files: BTreeMap<String, Part>,
) -> String {
    let section = SegnoSection {
        format: VERSION,
        checkpoint: manifest.clone(),
        files,
    };
    let manifest_json = ManifestJson {
        version: "1.0",
        id: manifest.id.to_string(),
        session_id: manifest.session.to_string(),
        created_at: manifest.at.to_string(),
        trigger: manifest.trigger,
        conversation: json!({
            "turn_count": conversation.turn_count,
            "last_message_id": conversation.last_message_id,
            "tokens_used": manifest.usage.tokens(),
            "has_resume_token": false,
        }),
        workspace: json!({
            "path": names::WORKSPACE,
            "size_bytes": archive.bytes,
            "file_count": manifest.files.files,
        }),
        git: git(manifest),
        metrics: json!({
            "cost_estimate_usd": manifest.usage.cost.usd(),
            "tools_invoked": conversation.tools,
        }),
        segno: &section,
    };
    let text = serde_json::to_string_pretty(&manifest_json).expect("a manifest serializes to JSON");
    let open = text
        .strip_suffix("\n}")
        .expect("serialized objects end with a brace");
    format!("{open}{}", tail(&Digest::of(open.as_bytes())))
}

/// The text after everything that the checksum covers.
fn tail(digest: &Digest) -> String {
    format!(",\n  \"checksum\": \"{CHECKSUM_PREFIX}{digest}\"\n}}\n")
}

fn git(manifest: &Manifest) -> Option<Value> {
    let first = manifest.repositories.first()?;
    Some(json!({
        "branch": first.branch,
        "head": first.commit,
        "has_stash": first.stashes > 0,
        "dirty": first.staged + first.modified + first.untracked + first.conflicted > 0,
    }))
}

pub(super) enum Read {
    /// Written by this program.
    Ours(Box<SegnoSection>),
    /// Written by another program.
    Foreign(Value),
}

/// Parses a `manifest.json`, and verifies it if this program wrote it.
pub(super) fn read(place: &Path, bytes: &[u8]) -> Result<Read, Error> {
    let refuse = |reason: String| refuse(place, format!("{}: {reason}", names::MANIFEST));
    let value: Value = serde_json::from_slice(bytes).map_err(|error| refuse(error.to_string()))?;
    let sum = value["checksum"].as_str().unwrap_or_default();
    // Either mark is enough, so that a damaged manifest of ours is not mistaken for another
    // program's.
    if value.get("segno").is_none() && !sum.starts_with(CHECKSUM_PREFIX) {
        return Ok(Read::Foreign(value));
    }
    let newer = |found: u64, known: u32| {
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        let place = place.join(names::MANIFEST).display().to_string();
        (found > known).then_some(Error::Store(StoreError::Newer {
            place,
            found,
            known,
        }))
    };
    let formats = [
        (&value["segno"]["format"], VERSION),
        (
            &value["segno"]["checkpoint"]["segno_checkpoint"],
            checkpoint::VERSION,
        ),
    ];
    for (found, known) in formats {
        if let Some(error) = newer(found.as_u64().unwrap_or(0), known) {
            return Err(error);
        }
    }
    let end = bytes.len().checked_sub(tail(&Digest::of(b"")).len());
    let (open, rest) = bytes.split_at(end.unwrap_or(0));
    if rest != tail(&Digest::of(open)).as_bytes() {
        let reason = "it was changed after it was written: its checksum does not match";
        return Err(refuse(reason.to_owned()));
    }
    let section: SegnoSection = serde_json::from_value(value["segno"].clone())
        .map_err(|error| refuse(error.to_string()))?;
    match section.files.keys().find(|name| !is_known(name)) {
        Some(name) => Err(refuse(format!("`{name}` is not a file of a checkpoint"))),
        None => Ok(Read::Ours(Box::new(section))),
    }
}

/// Whether a folder may contain this file.
fn is_known(name: &str) -> bool {
    match name.split_once('/') {
        Some((names::MCP, server)) => names::is_server(server),
        Some(_) => names::conversation(name).is_some(),
        None => [
            names::CONVERSATION,
            names::STATE,
            names::ENVIRONMENT,
            names::WORKSPACE,
            names::SESSION,
            names::TERMINAL,
        ]
        .contains(&name),
    }
}
