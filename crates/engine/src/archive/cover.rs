//! `manifest.json`: what a folder is about, in the words of the seed's layout, and under `segno` what
//! counts when it is read back.

use std::collections::BTreeMap;
use std::path::Path;

use segno_core::archive::Written;
use segno_core::checkpoint::{self, Manifest};
use segno_core::digest::Digest;
use segno_core::store::Error as StoreError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::conversation::Conversation;
use super::{VERSION, names, refuse};
use crate::error::Error;

/// What the checksum of this program begins with.
const SUM: &str = "blake3:";

/// A file of the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    pub(super) bytes: u64,
    pub(super) digest: Digest,
}

/// What counts.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Inside {
    format: u32,
    pub(super) checkpoint: Manifest,
    pub(super) files: BTreeMap<String, Part>,
}

/// The fields in their order; the checksum is added as the last.
#[derive(Serialize)]
struct Cover<'a> {
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
    segno: &'a Inside,
}

/// The text of `manifest.json`.
pub(super) fn write(
    manifest: &Manifest,
    said: &Conversation,
    archive: Written,
    files: BTreeMap<String, Part>,
) -> String {
    let inside = Inside {
        format: VERSION,
        checkpoint: manifest.clone(),
        files,
    };
    let cover = Cover {
        version: "1.0",
        id: manifest.id.to_string(),
        session_id: manifest.session.to_string(),
        created_at: manifest.at.to_string(),
        trigger: manifest.trigger,
        conversation: json!({
            "turn_count": said.turn_count,
            "last_message_id": said.last_message_id,
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
            "tools_invoked": said.tools,
        }),
        segno: &inside,
    };
    let text = serde_json::to_string_pretty(&cover).expect("a cover is plain data");
    let open = text.strip_suffix("\n}").expect("it ends as objects do");
    format!("{open}{}", tail(&Digest::of(open.as_bytes())))
}

/// What follows after all that the checksum is about.
fn tail(digest: &Digest) -> String {
    format!(",\n  \"checksum\": \"{SUM}{digest}\"\n}}\n")
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

/// What a `manifest.json` turned out to be.
pub(super) enum Read {
    /// One that this program wrote.
    Ours(Box<Inside>),
    /// Somebody else's.
    Foreign(Value),
}

/// Reads a `manifest.json`, and verifies it if it is one of ours.
pub(super) fn read(place: &Path, bytes: &[u8]) -> Result<Read, Error> {
    let refuse = |reason: String| refuse(place, format!("{}: {reason}", names::MANIFEST));
    let value: Value = serde_json::from_slice(bytes).map_err(|error| refuse(error.to_string()))?;
    let sum = value["checksum"].as_str().unwrap_or_default();
    // Either sign is enough, so that one that was damaged is not taken for somebody else's.
    if value.get("segno").is_none() && !sum.starts_with(SUM) {
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
    let inside: Inside = serde_json::from_value(value["segno"].clone())
        .map_err(|error| refuse(error.to_string()))?;
    match inside.files.keys().find(|name| !is_known(name)) {
        Some(name) => Err(refuse(format!("`{name}` is no file of a checkpoint"))),
        None => Ok(Read::Ours(Box::new(inside))),
    }
}

/// Whether a folder may have such a file.
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
