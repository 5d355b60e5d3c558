//! Attachments: files of a checkpoint that are not part of its workspace.
//!
//! They are stored as a snapshot like any other. A long file is split into chunks like any long
//! file, so that a file which only grows costs only what was appended.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;

use crate::chunk::{self, WHOLE};
use crate::entry::{Chunk, Entry, FileTime, Kind};
use crate::error::Error;
use crate::files;
use crate::manifest::{Manifest, order};
use crate::pack::{Packer, StoredChunks};
use crate::snapshot_store::SnapshotStore;

/// How many bytes of a long attachment are held in memory at a time.
const BUFFER_BYTES: usize = 4 * chunk::LONGEST;

impl SnapshotStore {
    /// Stores attachments by their names, which may contain folders. They are durable and listed on
    /// return. The same attachments give the same snapshot.
    pub fn put_files(&self, attachments: &[(String, Vec<u8>)]) -> Result<Digest, Error> {
        let sources = attachments.iter().map(|(name, bytes)| {
            let length = bytes.len() as u64;
            (name.as_str(), length, &bytes[..])
        });
        self.put_from(sources.collect())
    }

    /// Stores the first `length` bytes of a file, without holding them in memory. Fails if the file
    /// became shorter.
    pub fn put_file(&self, name: &str, file: &Path, length: u64) -> Result<Digest, Error> {
        let source = files::open(file).map_err(|error| Error::at(file, error))?;
        self.put_from(vec![(name, length, source)])
    }

    fn put_from<R: Read>(&self, attachments: Vec<(&str, u64, R)>) -> Result<Digest, Error> {
        let _lock = self.lock_shared()?;
        let known = StoredChunks::new(self.usable_packs()?);
        let mut packer = self.packer(&known)?;
        let mut entries = Vec::new();
        for folder in folders(attachments.iter().map(|(name, ..)| *name)) {
            entries.push(entry(folder, Kind::Folder));
        }
        for (name, size, source) in attachments {
            let kind = Kind::File {
                size,
                content: cut(&mut packer, Path::new(name), source, size)?,
                unstable: false,
            };
            entries.push(entry(name.into(), kind));
        }
        // P4: everything that the manifest references is durable before the manifest is written.
        packer.finish()?.wait()?;
        entries.sort_by(|left, right| order(&left.path, &right.path));
        let manifest = Manifest {
            root: entry(PathBuf::new(), Kind::Folder),
            entries,
            skipped: Vec::new(),
        };
        let whole = manifest.encode();
        let snapshot = Digest::of(&whole);
        manifest.check().map_err(|broken| Error::Hostile {
            snapshot,
            reason: broken.0.to_owned(),
        })?;
        if self.is_listed(snapshot) {
            self.touch_head(snapshot)?;
        } else {
            self.store_whole_manifest(snapshot, &whole)?;
            self.write_head(snapshot)?;
        }
        Ok(snapshot)
    }
}

fn folders<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<PathBuf> {
    names
        .flat_map(|name| Path::new(name).ancestors().skip(1))
        .filter(|folder| !folder.as_os_str().is_empty())
        .map(Path::to_owned)
        .collect()
}

fn entry(path: PathBuf, kind: Kind) -> Entry {
    Entry {
        mode: if kind == Kind::Folder { 0o700 } else { 0o600 },
        path,
        modified: FileTime::default(),
        attributes: Vec::new(),
        kind,
    }
}

/// Stores an attachment chunk by chunk, with only a few of them in memory.
fn cut(
    packer: &mut Packer<'_>,
    name: &Path,
    mut source: impl Read,
    length: u64,
) -> Result<Vec<Chunk>, Error> {
    let (mut content, mut held, mut left) = (Vec::new(), Vec::new(), length);
    loop {
        let wanted = left.min((BUFFER_BYTES - held.len()) as u64);
        let read = source.by_ref().take(wanted).read_to_end(&mut held);
        let read = read.map_err(|error| Error::at(name, error))? as u64;
        if read < wanted {
            let short = std::io::Error::new(
                std::io::ErrorKind::UnexpectedEof,
                "the file shrank while it was read",
            );
            return Err(Error::at(name, short));
        }
        left -= read;
        let mut rest = &held[..];
        while !rest.is_empty() && (left == 0 || rest.len() >= chunk::LONGEST) {
            let end = if length < WHOLE {
                rest.len()
            } else {
                chunk::cut(rest)
            };
            let (piece, after) = rest.split_at(end);
            content.push(packer.put(piece, || None)?);
            rest = after;
        }
        if left == 0 {
            return Ok(content);
        }
        let taken = held.len() - rest.len();
        held.drain(..taken);
    }
}
