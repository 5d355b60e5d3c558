//! Reads snapshots without restoring them: lists, differences, single files, sizes.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;
use segno_core::snapshot::Size;

use crate::entry::{Chunk, Entry, Kind};
use crate::error::Error;
use crate::files;
use crate::manifest::{digests, order};
use crate::pack::Cursor;
use crate::snapshot_store::SnapshotStore;

/// A difference between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryChange {
    pub path: PathBuf,
    pub what: Difference,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// Only in the second snapshot.
    Added,
    /// Only in the first snapshot.
    Removed,
    /// The content of a file, or the target of a link.
    Content,
    /// Only the mode or the attributes.
    Mode,
    /// The type: for example, a file became a folder.
    Type,
}

impl SnapshotStore {
    /// The size of the store in bytes, without the index.
    pub fn total_size(&self) -> Result<u64, Error> {
        let mut bytes = 0;
        for folder in [&self.packs, &self.manifests] {
            bytes += files::total_size(folder).map_err(|error| Error::at(folder, error))?;
        }
        Ok(bytes)
    }

    /// The entries of a snapshot: folders before their content.
    pub fn list(&self, snapshot: Digest) -> Result<Vec<Entry>, Error> {
        let _lock = self.lock_shared()?;
        Ok(self.manifest(snapshot)?.entries)
    }

    /// The changes from one snapshot to another. A different modification time alone is no change.
    pub fn diff(&self, from: Digest, to: Digest) -> Result<Vec<EntryChange>, Error> {
        let _lock = self.lock_shared()?;
        let (from, to) = (self.manifest(from)?.entries, self.manifest(to)?.entries);
        let (mut from, mut to) = (from.iter().peekable(), to.iter().peekable());
        let mut changes = Vec::new();
        let mut note = |entry: &Entry, what| {
            changes.push(EntryChange {
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
        let _lock = self.lock_shared()?;
        let manifest = self.manifest(snapshot)?;
        let none = || Error::NoFile {
            snapshot,
            path: path.to_owned(),
        };
        let mut entry = manifest.find(path).ok_or_else(none)?;
        if let Kind::HardLink { of } = &entry.kind {
            entry = manifest.find(of).ok_or_else(none)?;
        }
        let Kind::File { content, .. } = &entry.kind else {
            return Err(none());
        };
        let pack_set = self.pack_set()?;
        let mut cursor = Cursor::new(&pack_set)?;
        let mut bytes = Vec::new();
        for &chunk in content {
            bytes.extend_from_slice(cursor.read(chunk)?);
        }
        Ok(bytes)
    }

    /// How much space a snapshot takes, and how much of that it shares. Compressed chunks count by
    /// their share of their block.
    pub fn size(&self, snapshot: Digest) -> Result<Size, Error> {
        let _lock = self.lock_shared()?;
        let manifest = self.manifest(snapshot)?;
        let mut others = HashSet::new();
        for other in self.snapshots()? {
            if other != snapshot {
                others.extend(digests(&self.assemble(other)?.entries));
            }
        }
        let pack_set = self.pack_set()?;
        // What references a chunk also references its bases.
        let others = pack_set.with_bases(others);
        let mut size = Size::default();
        for entry in &manifest.entries {
            size.files += u64::from(matches!(
                entry.kind,
                Kind::File { .. } | Kind::HardLink { .. }
            ));
            size.logical += entry.size();
        }
        for (digest, location) in pack_set.with_bases(digests(&manifest.entries)) {
            if others.contains_key(&digest) {
                size.shared += pack_set.share(location);
            } else {
                size.own += pack_set.share(location);
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
        | (Kind::HardLink { of: left }, Kind::HardLink { of: right }) => left == right,
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
