//! The entries of an index's manifest as a tree, for whoever walks one.

use std::path::PathBuf;

use crate::index::ROOT;
use crate::manifest;
use crate::scroll::{Scroll, Sort};
use crate::wire::Broken;

/// An entry, and its place in the tree: 0 where there is no next, no child.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) name: u32,
    pub(super) length: u8,
    pub(super) sort: Sort,
    pub(super) above: u32,
    pub(super) next: u32,
    pub(super) child: u32,
    /// Where what is said of it lies in the content.
    pub(super) from: u32,
    pub(super) to: u32,
    /// The size of a file.
    pub(super) size: u64,
}

/// What a snapshot has, in short.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) files: u64,
    pub(crate) folders: u64,
    pub(crate) links: u64,
    pub(crate) bytes: u64,
    pub(crate) repositories: Vec<PathBuf>,
}

impl Summary {
    /// Counts an entry.
    pub(crate) fn add(&mut self, path: &[u8], sort: Sort, size: u64) {
        self.bytes += size;
        *self.of(sort) += 1;
        self.repositories.extend(holds_repository(path));
    }

    /// Counts an entry no longer.
    pub(crate) fn remove(&mut self, path: &[u8], sort: Sort, size: u64) {
        self.bytes -= size;
        *self.of(sort) -= 1;
        if let Some(gone) = holds_repository(path) {
            self.repositories.retain(|path| *path != gone);
        }
    }

    fn of(&mut self, sort: Sort) -> &mut u64 {
        match sort {
            Sort::Folder => &mut self.folders,
            Sort::Link => &mut self.links,
            Sort::File | Sort::Twin => &mut self.files,
        }
    }
}

/// The folder whose repository this is.
fn holds_repository(path: &[u8]) -> Option<PathBuf> {
    let above = path.strip_suffix(b".git")?;
    if above.is_empty() {
        return Some(PathBuf::new());
    }
    above.strip_suffix(b"/").map(manifest::path)
}

/// All entries of a manifest, the folder itself first.
pub(super) struct Lines {
    pub(super) all: Vec<Line>,
    /// Their last names, one after another.
    pub(super) names: Vec<u8>,
    pub(super) summary: Summary,
}

impl Lines {
    /// Reads all entries; the manifest begins at `offset` in the index.
    pub(super) fn read(
        offset: usize,
        mut scroll: Scroll<'_>,
    ) -> Result<(Self, Scroll<'_>), Broken> {
        let root = Line {
            name: 0,
            length: 0,
            sort: Sort::Folder,
            above: ROOT,
            next: 0,
            child: 0,
            from: 0,
            to: 0,
            size: 0,
        };
        let mut lines = Self {
            all: Vec::with_capacity(scroll.left() + 1),
            names: Vec::with_capacity(scroll.left() * 16),
            summary: Summary::default(),
        };
        lines.all.push(root);
        let mut open = vec![Open::new(ROOT, 0)];
        while scroll.next()? {
            lines.add(&scroll, offset, &mut open)?;
        }
        Ok((lines, scroll))
    }

    fn add(
        &mut self,
        scroll: &Scroll<'_>,
        offset: usize,
        open: &mut Vec<Open>,
    ) -> Result<(), Broken> {
        let path = &scroll.path[..];
        let number = small(self.all.len())?;
        let slash = path.iter().rposition(|byte| *byte == b'/');
        let (above, name) = slash.map_or((0, path), |at| (at, &path[at + 1..]));
        while open.last().is_some_and(|folder| folder.length != above) {
            open.pop();
        }
        let folder = open.last_mut();
        let folder = folder.ok_or(Broken("an entry lies in something that is not a folder"))?;
        match std::mem::replace(&mut folder.newest, number) {
            0 => self.all[folder.number as usize].child = number,
            before => self.all[before as usize].next = number,
        }
        self.all.push(Line {
            name: small(self.names.len())?,
            length: u8::try_from(name.len()).map_err(|_| Broken("a name is too long"))?,
            sort: scroll.sort,
            above: folder.number,
            next: 0,
            child: 0,
            from: small(offset + scroll.facts.start)?,
            to: small(offset + scroll.facts.end)?,
            size: scroll.size,
        });
        self.names.extend_from_slice(name);
        self.summary.add(path, scroll.sort, scroll.size);
        if scroll.sort == Sort::Folder {
            open.push(Open::new(number, path.len()));
        }
        Ok(())
    }
}

/// A folder that entries may lie in.
struct Open {
    number: u32,
    /// How long its path is.
    length: usize,
    /// What was found in it last; 0 if nothing was.
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
