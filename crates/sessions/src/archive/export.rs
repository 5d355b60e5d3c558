//! Exports a checkpoint as a folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use segno_core::bundle::Bundle;
use segno_core::checkpoint::{Manifest, attachments};
use segno_core::cli_agent::CliAgentKind;
use segno_core::digest::Digest;
use segno_core::journal::Head;
use segno_core::session::Status;
use segno_core::snapshot::{self, Progress};
use segno_core::state::NativeConversation;
use segno_core::store::Error as StoreError;
use segno_engine::{Env, export as session};
use serde::Serialize;

use super::conversation::{Conversation, conversation};
use super::draft::Draft;
use super::manifest_json::{self, Part};
use super::{Error, names, session_state};
use crate::import;

#[derive(Debug)]
pub struct Exported {
    pub folder: PathBuf,
    /// The files and their sizes in bytes.
    pub files: BTreeMap<String, u64>,
    /// Whether the folder has the session; otherwise it has only its files.
    pub has_session: bool,
    /// Open conversations without a transcript in the checkpoint: on another machine, a new
    /// conversation continues with the resume context.
    pub without_transcript: Vec<(CliAgentKind, String)>,
    /// Git folders that the workspace needs, that are outside of it, and that are not exported.
    pub excluded_git_folders: Vec<String>,
}

/// Exports a checkpoint to the new folder `to`. After a kill, nothing exists under that name.
pub async fn export(
    env: &Env,
    manifest: &Manifest,
    to: &Path,
    progress: &Progress,
) -> Result<Exported, Error> {
    let draft = Draft::begin(env, to)?;
    let mut parts = attachments(env, manifest).await?;
    if !parts.contains_key(names::SESSION)
        && let Some(session) = journal(env, manifest).await?
    {
        parts.insert(names::SESSION.to_owned(), session);
    }
    let bundle = match parts.get(names::SESSION) {
        Some(bytes) => Some(import::read(names::SESSION, bytes)?),
        None => None,
    };
    let messages = bundle.as_ref().map(conversation).unwrap_or_default();
    add_derived(manifest, bundle.as_ref(), &messages, &mut parts);
    let place = draft.folder.join(names::WORKSPACE);
    let archive = env
        .snapshots()?
        .write_archive(manifest.files.snapshot, &place, progress)
        .await?;
    let mut files = BTreeMap::from([(
        names::WORKSPACE.to_owned(),
        Part {
            bytes: archive.bytes,
            digest: archive.digest,
        },
    )]);
    for (name, bytes) in &parts {
        draft.add(name, bytes)?;
        let part = Part {
            bytes: bytes.len() as u64,
            digest: Digest::of(bytes),
        };
        files.insert(name.clone(), part);
    }
    let mut lengths: BTreeMap<String, u64> = files
        .iter()
        .map(|(name, part)| (name.clone(), part.bytes))
        .collect();
    let manifest_json = manifest_json::write(manifest, &messages, archive, files);
    draft.add(names::MANIFEST, manifest_json.as_bytes())?;
    lengths.insert(names::MANIFEST.to_owned(), manifest_json.len() as u64);
    draft.publish()?;
    Ok(Exported {
        folder: to.to_owned(),
        files: lengths,
        without_transcript: unrecorded(bundle.as_ref(), &parts),
        has_session: bundle.is_some(),
        excluded_git_folders: outside(manifest),
    })
}

fn unrecorded(
    bundle: Option<&Bundle>,
    parts: &BTreeMap<String, Vec<u8>>,
) -> Vec<(CliAgentKind, String)> {
    let open = bundle
        .iter()
        .flat_map(|bundle| bundle.state.open_steps.values());
    let natives = open.filter_map(|open| open.native.as_ref());
    let is_missing = |native: &&NativeConversation| {
        let paper = attachments::conversation(native.program, &native.id);
        let name = names::of_conversation(&paper);
        name.is_none_or(|name| !parts.contains_key(&name))
    };
    natives
        .filter(is_missing)
        .map(|native| (native.program, native.id.clone()))
        .collect()
}

fn outside(manifest: &Manifest) -> Vec<String> {
    let repositories = manifest.repositories.iter();
    let outside = repositories.filter_map(|repository| repository.external_git_dir.as_ref());
    outside.map(|outside| outside.folder.clone()).collect()
}

/// The attachments of the checkpoint, by their file names in the folder.
async fn attachments(
    env: &Env,
    manifest: &Manifest,
) -> Result<BTreeMap<String, Vec<u8>>, snapshot::Error> {
    let mut parts = BTreeMap::new();
    let Some(snapshot) = manifest.attachments else {
        return Ok(parts);
    };
    for (paper, bytes) in env.snapshots()?.attachments(snapshot).await? {
        let server = paper.strip_prefix(attachments::MCP);
        let server = server.and_then(|rest| rest.strip_prefix('/'));
        let name = match (&*paper, server) {
            (attachments::SESSION, _) => names::SESSION.to_owned(),
            (attachments::TERMINAL, _) => names::TERMINAL.to_owned(),
            (names::CONVERSATION | names::STATE, _) => paper.clone(),
            (_, Some(server)) => format!("{}/{server}", names::MCP),
            _ => match names::of_conversation(&paper) {
                Some(name) => name,
                None => continue,
            },
        };
        parts.insert(name, bytes);
    }
    Ok(parts)
}

/// The journal up to the checkpoint, if the session is here.
async fn journal(env: &Env, manifest: &Manifest) -> Result<Option<Vec<u8>>, session::Error> {
    let summary = match env.store.summary(manifest.session).await {
        Err(StoreError::NoSession(_)) => return Ok(None),
        other => other?,
    };
    let end = Head {
        seq: manifest.journal.seq,
        hash: manifest.journal.hash,
    };
    let running = manifest.status == Status::Running;
    let export = session::up_to(env, &summary, end, running, |_, _| {}).await?;
    Ok(Some(export.bytes))
}

/// Adds the derived files for humans and other programs. Without a session to derive them from, the
/// files that came with the checkpoint stay.
fn add_derived(
    manifest: &Manifest,
    bundle: Option<&Bundle>,
    messages: &Conversation,
    parts: &mut BTreeMap<String, Vec<u8>>,
) {
    if bundle.is_some() || !parts.contains_key(names::CONVERSATION) {
        parts.insert(names::CONVERSATION.to_owned(), pretty(messages));
    }
    if bundle.is_some() || !parts.contains_key(names::STATE) {
        let state = session_state::state(manifest, bundle);
        parts.insert(names::STATE.to_owned(), pretty(&state));
    }
    let environment = pretty(&manifest.environment);
    parts.insert(names::ENVIRONMENT.to_owned(), environment);
}

fn pretty(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("the value serializes to JSON");
    text.push(b'\n');
    text
}
