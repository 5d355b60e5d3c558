//! Looking into snapshots: lists, differences, single files, sizes.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;

use crate::entry::{Chunk, Entry, Kind};
use crate::error::Error;
use crate::files;
use crate::manifest::{digests, order};
use crate::pack::Cursor;
use crate::vault::Vault;

/// A difference between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub path: PathBuf,
    /// What.
    pub what: Difference,
}

/// What differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// It is only in the second.
    Added,
    /// It is only in the first.
    Removed,
    /// Its content, or what a link says.
    Content,
    /// Its mode or its attributes, and nothing else.
    Mode,
    /// What it is: a file that became a folder, say.
    Type,
}

/// How much a snapshot takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Files in it.
    pub files: u64,
    /// Bytes of its files.
    pub logical: u64,
    /// Bytes in the vault that only it needs: roughly what removing it gives back. Compressed
    /// pieces count by their share of their block.
    pub own: u64,
    /// Bytes in the vault that other snapshots need, too.
    pub shared: u64,
}

impl Vault {
    /// How many bytes the vault takes, but for the index.
    pub fn room(&self) -> Result<u64, Error> {
        let mut bytes = 0;
        for folder in [&self.packs, &self.manifests] {
            bytes += files::lengths(folder).map_err(|error| Error::at(folder, error))?;
        }
        Ok(bytes)
    }

    /// Everything that a snapshot has: folders before what is in them.
    pub fn list(&self, snapshot: Digest) -> Result<Vec<Entry>, Error> {
        let _held = self.hold()?;
        Ok(self.manifest(snapshot)?.entries)
    }

    /// What has to change to get from one snapshot to another. Times alone do not count.
    pub fn diff(&self, from: Digest, to: Digest) -> Result<Vec<Change>, Error> {
        let _held = self.hold()?;
        let (from, to) = (self.manifest(from)?.entries, self.manifest(to)?.entries);
        let (mut from, mut to) = (from.iter().peekable(), to.iter().peekable());
        let mut changes = Vec::new();
        let mut note = |entry: &Entry, what| {
            changes.push(Change {
                path: entry.path.clone(),
                what,
            });
        };
        loop {
            let side = match (from.peek(), to.peek()) {
                (None, None) => return Ok(changes),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(left), Some(right)) => order(&left.path, &right.path),
            };
            let left = if side == Ordering::Greater {
                None
            } else {
                from.next()
            };
            let right = if side == Ordering::Less {
                None
            } else {
                to.next()
            };
            match (left, right) {
                (Some(gone), None) => note(gone, Difference::Removed),
                (None, Some(new)) => note(new, Difference::Added),
                (Some(left), Some(right)) => {
                    if let Some(what) = difference(left, right) {
                        note(left, what);
                    }
                }
                (None, None) => {}
            }
        }
    }

    /// The content of one file.
    pub fn read(&self, snapshot: Digest, path: &Path) -> Result<Vec<u8>, Error> {
        let _held = self.hold()?;
        let manifest = self.manifest(snapshot)?;
        let none = || Error::NoFile {
            snapshot,
            path: path.to_owned(),
        };
        let mut entry = manifest.find(path).ok_or_else(none)?;
        if let Kind::Twin { of } = &entry.kind {
            entry = manifest.find(of).ok_or_else(none)?;
        }
        let Kind::File { content, .. } = &entry.kind else {
            return Err(none());
        };
        let shelf = self.shelf()?;
        let mut cursor = Cursor::new(&shelf)?;
        let mut bytes = Vec::new();
        for &chunk in content {
            bytes.extend_from_slice(cursor.read(chunk)?);
        }
        Ok(bytes)
    }

    /// How much a snapshot takes, and how much of that it shares.
    pub fn size(&self, snapshot: Digest) -> Result<Size, Error> {
        let _held = self.hold()?;
        let manifest = self.manifest(snapshot)?;
        let mut others = HashSet::new();
        for other in self.snapshots()? {
            if other != snapshot {
                others.extend(digests(&self.assemble(other)?.entries));
            }
        }
        let shelf = self.shelf()?;
        // What a piece is made from is needed by whoever needs the piece.
        let others = shelf.with_bases(others);
        let mut size = Size::default();
        for entry in &manifest.entries {
            size.files += u64::from(matches!(entry.kind, Kind::File { .. } | Kind::Twin { .. }));
            size.logical += entry.size();
        }
        for (digest, place) in shelf.with_bases(digests(&manifest.entries)) {
            if others.contains_key(&digest) {
                size.shared += shelf.share(place);
            } else {
                size.own += shelf.share(place);
            }
        }
        Ok(size)
    }
}

fn difference(left: &Entry, right: &Entry) -> Option<Difference> {
    let pieces = |content: &[Chunk]| content.iter().map(|chunk| chunk.digest).collect::<Vec<_>>();
    let same = match (&left.kind, &right.kind) {
        (Kind::Folder, Kind::Folder) => true,
        (Kind::File { content: left, .. }, Kind::File { content: right, .. }) => {
            pieces(left) == pieces(right)
        }
        (Kind::Link { target: left }, Kind::Link { target: right })
        | (Kind::Twin { of: left }, Kind::Twin { of: right }) => left == right,
        _ => return Some(Difference::Type),
    };
    if !same {
        Some(Difference::Content)
    } else if left.mode != right.mode || left.attributes != right.attributes {
        Some(Difference::Mode)
    } else {
        None
    }
}
