//! The entries of the index's manifest as a tree.

use std::path::PathBuf;

use crate::entry::EntryType;
use crate::index::ROOT;
use crate::manifest;
use crate::manifest_cursor::ManifestCursor;
use crate::wire::Broken;

/// An entry and its position in the tree. `next` and `child` are 0 if there is none.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexNode {
    pub(super) name: u32,
    pub(super) length: u8,
    pub(super) entry_type: EntryType,
    pub(super) parent: u32,
    pub(super) next: u32,
    pub(super) child: u32,
    /// The range of the encoded entry in the content.
    pub(super) from: u32,
    pub(super) to: u32,
    /// The size of a file.
    pub(super) size: u64,
}

/// Totals of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) files: u64,
    pub(crate) folders: u64,
    pub(crate) links: u64,
    pub(crate) bytes: u64,
    pub(crate) repositories: Vec<PathBuf>,
}

impl Summary {
    /// Adds an entry to the totals.
    pub(crate) fn add(&mut self, path: &[u8], entry_type: EntryType, size: u64) {
        self.bytes += size;
        *self.of(entry_type) += 1;
        self.repositories.extend(holds_repository(path));
    }

    /// Removes an entry from the totals.
    pub(crate) fn remove(&mut self, path: &[u8], entry_type: EntryType, size: u64) {
        self.bytes -= size;
        *self.of(entry_type) -= 1;
        if let Some(gone) = holds_repository(path) {
            self.repositories.retain(|path| *path != gone);
        }
    }

    fn of(&mut self, entry_type: EntryType) -> &mut u64 {
        match entry_type {
            EntryType::Folder => &mut self.folders,
            EntryType::Link => &mut self.links,
            EntryType::File | EntryType::HardLink => &mut self.files,
        }
    }
}

/// The folder whose git repository is at this path.
fn holds_repository(path: &[u8]) -> Option<PathBuf> {
    let parent = path.strip_suffix(b".git")?;
    if parent.is_empty() {
        return Some(PathBuf::new());
    }
    parent.strip_suffix(b"/").map(manifest::path)
}

/// All entries of a manifest, the root folder first.
pub(super) struct IndexTree {
    pub(super) all: Vec<IndexNode>,
    /// The file names of the entries, concatenated.
    pub(super) names: Vec<u8>,
    pub(super) summary: Summary,
}

impl IndexTree {
    /// Parses all entries. The manifest begins at `offset` in the index.
    pub(super) fn read(
        offset: usize,
        mut cursor: ManifestCursor<'_>,
    ) -> Result<(Self, ManifestCursor<'_>), Broken> {
        let root = IndexNode {
            name: 0,
            length: 0,
            entry_type: EntryType::Folder,
            parent: ROOT,
            next: 0,
            child: 0,
            from: 0,
            to: 0,
            size: 0,
        };
        let mut tree = Self {
            all: Vec::with_capacity(cursor.left() + 1),
            names: Vec::with_capacity(cursor.left() * 16),
            summary: Summary::default(),
        };
        tree.all.push(root);
        let mut open = vec![Open::new(ROOT, 0)];
        while cursor.next()? {
            tree.add(&cursor, offset, &mut open)?;
        }
        Ok((tree, cursor))
    }

    fn add(
        &mut self,
        cursor: &ManifestCursor<'_>,
        offset: usize,
        open: &mut Vec<Open>,
    ) -> Result<(), Broken> {
        let path = &cursor.path[..];
        let number = small(self.all.len())?;
        let slash = path.iter().rposition(|byte| *byte == b'/');
        let (parent, name) = slash.map_or((0, path), |at| (at, &path[at + 1..]));
        while open.last().is_some_and(|folder| folder.length != parent) {
            open.pop();
        }
        let folder = open.last_mut();
        let folder = folder.ok_or(Broken("the parent of an entry is not a folder"))?;
        match std::mem::replace(&mut folder.newest, number) {
            0 => self.all[folder.number as usize].child = number,
            before => self.all[before as usize].next = number,
        }
        self.all.push(IndexNode {
            name: small(self.names.len())?,
            length: u8::try_from(name.len()).map_err(|_| Broken("a name is too long"))?,
            entry_type: cursor.entry_type,
            parent: folder.number,
            next: 0,
            child: 0,
            from: small(offset + cursor.facts.start)?,
            to: small(offset + cursor.facts.end)?,
            size: cursor.size,
        });
        self.names.extend_from_slice(name);
        self.summary.add(path, cursor.entry_type, cursor.size);
        if cursor.entry_type == EntryType::Folder {
            open.push(Open::new(number, path.len()));
        }
        Ok(())
    }
}

/// A folder that may contain the next entries.
struct Open {
    number: u32,
    /// The length of its path.
    length: usize,
    /// Its last entry so far; 0 if there is none.
    newest: u32,
}

impl Open {
    fn new(number: u32, length: usize) -> Self {
        Self {
            number,
            length,
            newest: 0,
        }
    }
}

fn small(size: usize) -> Result<u32, Broken> {
    u32::try_from(size).map_err(|_| Broken("it is too long"))
}
