//! Files that are in no folder: what belongs to a checkpoint beside its workspace.
//!
//! They are kept as a snapshot like any other. A long one is cut like any long file, so that a
//! paper which only grows costs what it grew by.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;

use crate::chunk::{self, WHOLE};
use crate::entry::{Chunk, Entry, Kind, Moment};
use crate::error::Error;
use crate::files;
use crate::manifest::{Manifest, order};
use crate::pack::{Known, Packer};
use crate::vault::Vault;

/// How many bytes of a long paper are in memory at a time.
const AT_HAND: usize = 4 * chunk::LONGEST;

impl Vault {
    /// Keeps papers by their names, which may have folders in them. When this returns, they are
    /// durable and listed. The same papers give the same snapshot.
    pub fn keep(&self, papers: &[(String, Vec<u8>)]) -> Result<Digest, Error> {
        let sources = papers.iter().map(|(name, bytes)| {
            let length = bytes.len() as u64;
            (name.as_str(), length, &bytes[..])
        });
        self.keep_from(sources.collect())
    }

    /// The same for the first `length` bytes of a file, which are not held in memory. A file that
    /// became shorter is an error.
    pub fn keep_file(&self, name: &str, file: &Path, length: u64) -> Result<Digest, Error> {
        let source = files::open(file).map_err(|error| Error::at(file, error))?;
        self.keep_from(vec![(name, length, source)])
    }

    fn keep_from<R: Read>(&self, papers: Vec<(&str, u64, R)>) -> Result<Digest, Error> {
        let _held = self.hold()?;
        let known = Known::new(self.fresh_shelf()?);
        let mut packer = Packer::new(self, &known)?;
        let mut entries = Vec::new();
        for folder in folders(papers.iter().map(|(name, ..)| *name)) {
            entries.push(entry(folder, Kind::Folder));
        }
        for (name, size, source) in papers {
            let kind = Kind::File {
                size,
                content: cut(&mut packer, Path::new(name), source, size)?,
                unstable: false,
            };
            entries.push(entry(name.into(), kind));
        }
        // P4: what the manifest will name is durable before it is written.
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
        if self.is_kept(snapshot) {
            self.renew(snapshot)?;
        } else {
            self.store_whole(snapshot, &whole)?;
            self.list_as_kept(snapshot)?;
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
        modified: Moment::default(),
        attributes: Vec::new(),
        kind,
    }
}

/// Keeps a paper piece by piece, with no more than a few of them in memory.
fn cut(
    packer: &mut Packer<'_>,
    name: &Path,
    mut source: impl Read,
    length: u64,
) -> Result<Vec<Chunk>, Error> {
    let (mut content, mut held, mut left) = (Vec::new(), Vec::new(), length);
    loop {
        let wanted = left.min((AT_HAND - held.len()) as u64);
        let read = source.by_ref().take(wanted).read_to_end(&mut held);
        let read = read.map_err(|error| Error::at(name, error))? as u64;
        if read < wanted {
            let short = std::io::Error::new(
                std::io::ErrorKind::UnexpectedEof,
                "it became shorter while it was read",
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
