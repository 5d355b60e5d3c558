//! Reads and verifies a folder for import, except for the archive.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use segno_core::bundle::{self, Bundle};
use segno_core::checkpoint::{Manifest, attachments};
use segno_core::cli_agent::TranscriptCopy;
use segno_core::digest::Digest;
use segno_core::journal::{Head, Record};
use segno_engine::Env;
use segno_engine::checkpoint::is_plain_variable;

use super::manifest_json::{self, Part, Read, SegnoSection};
use super::{Error, foreign, names, refuse};
use crate::import;

/// The limit of `manifest.json`, in bytes (P10).
const MAX_MANIFEST: u64 = 16 * 1024 * 1024;

/// The limit of transcript files in a folder (P10).
const MAX_TRANSCRIPTS: usize = 10_000;

/// A checkpoint from another machine.
pub(super) struct Incoming {
    pub(super) manifest: Manifest,
    pub(super) bundle: Option<Bundle>,
    pub(super) attachments: Vec<(String, Vec<u8>)>,
    /// The archive of the files, its digest, and the digest of the snapshot that it must contain.
    pub(super) archive: PathBuf,
    pub(super) digest: Option<Digest>,
    pub(super) snapshot: Option<Digest>,
    /// Files of the layout that are absent.
    pub(super) missing: Vec<&'static str>,
}

/// Reads a folder, or an archive without a folder.
pub(super) fn read(env: &Env, from: &Path) -> Result<Incoming, Error> {
    if from.is_file() {
        return foreign::archive(env, from);
    }
    let archive = from.join(names::WORKSPACE);
    if !archive.is_file() {
        return Err(refuse(from, format!("it has no {}", names::WORKSPACE)));
    }
    match part(env, from, names::MANIFEST, MAX_MANIFEST)? {
        Some(bytes) => match manifest_json::read(from, &bytes)? {
            Read::Ours(section) => read_own(env, from, *section),
            Read::Foreign(value) => foreign::folder(env, from, Some(&value)),
        },
        // A writer of the session also writes a manifest.
        None if from.join(names::SESSION).symlink_metadata().is_ok() => {
            Err(refuse(from, format!("it has no {}", names::MANIFEST)))
        }
        None => foreign::folder(env, from, None),
    }
}

/// Reads a file of the folder; `None` if it is absent. Does not follow links, because their targets
/// are not part of the folder.
pub(super) fn part(
    env: &Env,
    from: &Path,
    name: &str,
    longest: u64,
) -> Result<Option<Vec<u8>>, Error> {
    let path = from.join(name);
    let unreadable = |error: &io::Error| refuse(from, format!("{name}: {error}"));
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(&error)),
        Ok(facts) if !facts.is_file() => {
            return Err(refuse(from, format!("{name} is not a regular file")));
        }
        Ok(_) => {}
    }
    let bytes = env.disk.read(&path, longest);
    bytes.map(Some).map_err(|error| unreadable(&error))
}

fn read_own(env: &Env, from: &Path, section: SegnoSection) -> Result<Incoming, Error> {
    let SegnoSection {
        checkpoint: mut manifest,
        files,
        ..
    } = section;
    manifest
        .environment
        .retain(|name, _| is_plain_variable(name));
    let Some(archive) = files.get(names::WORKSPACE).copied() else {
        return Err(refuse(
            from,
            format!("its manifest does not list {}", names::WORKSPACE),
        ));
    };
    let mut incoming = Incoming {
        bundle: None,
        attachments: Vec::new(),
        archive: from.join(names::WORKSPACE),
        digest: Some(archive.digest),
        snapshot: Some(manifest.files.snapshot),
        missing: Vec::new(),
        manifest,
    };
    check_transcript_limits(from, &files)?;
    for (name, described) in &files {
        if name == names::WORKSPACE {
            continue;
        }
        let bytes = verified(env, from, name, *described)?;
        if name == names::SESSION {
            let bundle = import::read(&from.join(name).display().to_string(), &bytes)?;
            check_session(from, &bundle, &incoming.manifest)?;
            incoming.bundle = Some(bundle);
        }
        if let Some(attachment_name) = attachment_name(name, files.contains_key(names::SESSION)) {
            incoming.attachments.push((attachment_name, bytes));
        }
    }
    if incoming.bundle.is_none() {
        incoming.missing.push(names::SESSION);
    }
    check_transcripts_belong(from, &incoming)?;
    Ok(incoming)
}

/// Refuses more or longer transcripts than a checkpoint has (P10), before any is read.
fn check_transcript_limits(from: &Path, files: &BTreeMap<String, Part>) -> Result<(), Error> {
    let records = files.iter();
    let records = records.filter(|(name, _)| names::conversation(name).is_some());
    let (mut count, mut total) = (0, 0_u64);
    for (name, part) in records {
        if part.bytes > TranscriptCopy::MAX_BYTES {
            let reason = format!("{name} is longer than {} bytes", TranscriptCopy::MAX_BYTES);
            return Err(refuse(from, reason));
        }
        count += 1;
        total = total.saturating_add(part.bytes);
    }
    if count > MAX_TRANSCRIPTS || total > bundle::LONGEST {
        let reason = format!(
            "{} has {count} files with {total} bytes; the limits are {MAX_TRANSCRIPTS} files and {} bytes",
            names::CONVERSATIONS,
            bundle::LONGEST
        );
        return Err(refuse(from, reason));
    }
    Ok(())
}

/// Refuses transcripts of conversations that the session never had: a restore would put them among
/// the user's own.
fn check_transcripts_belong(from: &Path, incoming: &Incoming) -> Result<(), Error> {
    let had = incoming
        .bundle
        .as_ref()
        .map(|bundle| &bundle.state.conversations);
    for (attachment_name, _) in &incoming.attachments {
        let Some(piece) = attachments::piece(attachment_name) else {
            continue;
        };
        if had.and_then(|had| had.get(piece.id)) != Some(&piece.program) {
            let name = names::of_conversation(attachment_name).unwrap_or_default();
            let reason = format!("{name} does not belong to a conversation of the session");
            return Err(refuse(from, reason));
        }
    }
    Ok(())
}

fn verified(env: &Env, from: &Path, name: &str, described: Part) -> Result<Vec<u8>, Error> {
    let longest = match names::conversation(name) {
        Some(_) => TranscriptCopy::MAX_BYTES,
        None => bundle::LONGEST,
    };
    let bytes = part(env, from, name, longest)?;
    let bytes = bytes.ok_or_else(|| refuse(from, format!("{name} is missing")))?;
    if bytes.len() as u64 != described.bytes || Digest::of(&bytes) != described.digest {
        let reason = format!("{name} was changed after it was written: its digest does not match");
        return Err(refuse(from, reason));
    }
    Ok(bytes)
}

/// The attachment name of a file in the folder. Files that can be derived from the session are not
/// stored.
pub(super) fn attachment_name(name: &str, has_session: bool) -> Option<String> {
    if let Some(attachment_name) = names::conversation(name) {
        return Some(attachment_name);
    }
    if let Some(server) = name.strip_prefix(names::MCP) {
        return Some(format!("{}{server}", attachments::MCP));
    }
    match name {
        names::SESSION => Some(attachments::SESSION.to_owned()),
        names::TERMINAL => Some(attachments::TERMINAL.to_owned()),
        names::CONVERSATION | names::STATE if !has_session => Some(name.to_owned()),
        _ => None,
    }
}

/// Refuses a session that is not the checkpoint's, or does not end at the checkpoint's position.
fn check_session(from: &Path, bundle: &Bundle, manifest: &Manifest) -> Result<(), Error> {
    let end = Head {
        seq: manifest.journal.seq,
        hash: manifest.journal.hash,
    };
    let is_same = bundle.header.session == manifest.session;
    if is_same && bundle.records.last().map(Record::head) == Some(end) {
        return Ok(());
    }
    let reason = format!("{} is not the session of the checkpoint", names::SESSION);
    Err(refuse(from, reason))
}
