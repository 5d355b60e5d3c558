//! What is in a folder that is to be imported, read and verified but for the archive.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use segno_core::bundle::{self, Bundle};
use segno_core::checkpoint::{Manifest, papers};
use segno_core::companion::Kept;
use segno_core::digest::Digest;
use segno_core::journal::{Head, Record};

use super::cover::{self, Inside, Part, Read};
use super::{foreign, names, refuse};
use crate::checkpoint::is_plain_variable;
use crate::error::Error;
use crate::import;
use crate::world::World;

/// The longest `manifest.json` that is read (P10).
const LONGEST: u64 = 16 * 1024 * 1024;

/// The most files of conversations that a folder may have (P10).
const MOST_RECORDS: usize = 10_000;

/// A checkpoint that came from elsewhere.
pub(super) struct Parcel {
    pub(super) manifest: Manifest,
    pub(super) bundle: Option<Bundle>,
    /// What belongs to it beside its files.
    pub(super) papers: Vec<(String, Vec<u8>)>,
    /// The archive of its files, its digest and the snapshot that must come out of it.
    pub(super) archive: PathBuf,
    pub(super) digest: Option<Digest>,
    pub(super) snapshot: Option<Digest>,
    /// Files of the layout that are not there.
    pub(super) missing: Vec<&'static str>,
}

/// Reads a folder, or an archive by itself.
pub(super) fn read(world: &World, from: &Path) -> Result<Parcel, Error> {
    if from.is_file() {
        return foreign::archive(world, from);
    }
    let archive = from.join(names::WORKSPACE);
    if !archive.is_file() {
        return Err(refuse(from, format!("it has no {}", names::WORKSPACE)));
    }
    match part(world, from, names::MANIFEST, LONGEST)? {
        Some(bytes) => match cover::read(from, &bytes)? {
            Read::Ours(inside) => ours(world, from, *inside),
            Read::Foreign(value) => foreign::folder(world, from, Some(&value)),
        },
        // Whoever wrote the session wrote a manifest, too.
        None if from.join(names::SESSION).symlink_metadata().is_ok() => {
            Err(refuse(from, format!("it has no {}", names::MANIFEST)))
        }
        None => foreign::folder(world, from, None),
    }
}

/// A file of the folder; none if it is not there. Links are not followed: what they lead to was not
/// sent.
pub(super) fn part(
    world: &World,
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
            return Err(refuse(from, format!("{name}: it is not a regular file")));
        }
        Ok(_) => {}
    }
    let bytes = world.disk.read(&path, longest);
    bytes.map(Some).map_err(|error| unreadable(&error))
}

fn ours(world: &World, from: &Path, inside: Inside) -> Result<Parcel, Error> {
    let Inside {
        checkpoint: mut manifest,
        files,
        ..
    } = inside;
    manifest
        .environment
        .retain(|name, _| is_plain_variable(name));
    let Some(archive) = files.get(names::WORKSPACE).copied() else {
        return Err(refuse(from, format!("{} is not in it", names::WORKSPACE)));
    };
    let mut parcel = Parcel {
        bundle: None,
        papers: Vec::new(),
        archive: from.join(names::WORKSPACE),
        digest: Some(archive.digest),
        snapshot: Some(manifest.files.snapshot),
        missing: Vec::new(),
        manifest,
    };
    bounded(from, &files)?;
    for (name, described) in &files {
        if name == names::WORKSPACE {
            continue;
        }
        let bytes = verified(world, from, name, *described)?;
        if name == names::SESSION {
            let bundle = import::read(&from.join(name).display().to_string(), &bytes)?;
            fits(from, &bundle, &parcel.manifest)?;
            parcel.bundle = Some(bundle);
        }
        if let Some(paper) = paper(name, files.contains_key(names::SESSION)) {
            parcel.papers.push((paper, bytes));
        }
    }
    if parcel.bundle.is_none() {
        parcel.missing.push(names::SESSION);
    }
    own(from, &parcel)?;
    Ok(parcel)
}

/// Refuses more records of conversations than a checkpoint has (P10), before any is read.
fn bounded(from: &Path, files: &BTreeMap<String, Part>) -> Result<(), Error> {
    let records = files.iter();
    let records = records.filter(|(name, _)| names::conversation(name).is_some());
    let (mut count, mut total) = (0, 0_u64);
    for (name, part) in records {
        if part.bytes > Kept::LONGEST {
            let reason = format!("{name} is longer than {} bytes", Kept::LONGEST);
            return Err(refuse(from, reason));
        }
        count += 1;
        total = total.saturating_add(part.bytes);
    }
    if count > MOST_RECORDS || total > bundle::LONGEST {
        let reason = format!(
            "{} has {count} files of {total} bytes, more than {MOST_RECORDS} or {}",
            names::CONVERSATIONS,
            bundle::LONGEST
        );
        return Err(refuse(from, reason));
    }
    Ok(())
}

/// Refuses records of conversations that the session never had: they would be put among the records of
/// the person's own.
fn own(from: &Path, parcel: &Parcel) -> Result<(), Error> {
    let had = parcel
        .bundle
        .as_ref()
        .map(|bundle| &bundle.state.conversations);
    for (paper, _) in &parcel.papers {
        let Some(piece) = papers::piece(paper) else {
            continue;
        };
        if had.and_then(|had| had.get(piece.id)) != Some(&piece.program) {
            let name = names::of_conversation(paper).unwrap_or_default();
            let reason = format!("{name} is of no conversation of the session");
            return Err(refuse(from, reason));
        }
    }
    Ok(())
}

fn verified(world: &World, from: &Path, name: &str, described: Part) -> Result<Vec<u8>, Error> {
    let longest = match names::conversation(name) {
        Some(_) => Kept::LONGEST,
        None => bundle::LONGEST,
    };
    let bytes = part(world, from, name, longest)?;
    let bytes = bytes.ok_or_else(|| refuse(from, format!("{name} is missing")))?;
    if bytes.len() as u64 != described.bytes || Digest::of(&bytes) != described.digest {
        let reason = format!("{name} was changed after it was written: its digest does not match");
        return Err(refuse(from, reason));
    }
    Ok(bytes)
}

/// What a file of the folder is called among the papers of a checkpoint. What can be derived from
/// the session is not kept beside it.
pub(super) fn paper(name: &str, has_session: bool) -> Option<String> {
    if let Some(paper) = names::conversation(name) {
        return Some(paper);
    }
    if let Some(server) = name.strip_prefix(names::MCP) {
        return Some(format!("{}{server}", papers::MCP));
    }
    match name {
        names::SESSION => Some(papers::SESSION.to_owned()),
        names::TERMINAL => Some(papers::TERMINAL.to_owned()),
        names::CONVERSATION | names::STATE if !has_session => Some(name.to_owned()),
        _ => None,
    }
}

/// Refuses a session that is not the checkpoint's, or does not end where the checkpoint stood.
fn fits(from: &Path, bundle: &Bundle, manifest: &Manifest) -> Result<(), Error> {
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
