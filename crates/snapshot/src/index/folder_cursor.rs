//! Looks up the names of one folder in the index, in sorted order.

use std::cmp::Ordering;
use std::ffi::OsString;

use crate::entry::{Chunk, EntryType, Kind};
use crate::index::Index;
use crate::manifest::path;
use crate::openat::Facts;

/// What the index knows about an unchanged file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownFile {
    pub(crate) attributes: Vec<(OsString, Vec<u8>)>,
    pub(crate) content: Vec<Chunk>,
}

/// A folder of the index, and a position among its names.
pub(crate) struct FolderCursor<'a> {
    index: &'a Index,
    children: std::iter::Peekable<Box<dyn Iterator<Item = u32> + 'a>>,
}

impl Index {
    /// A cursor over a folder; over nothing if the folder is not in the index.
    pub(crate) fn folder_cursor(&self, folder: Option<u32>) -> FolderCursor<'_> {
        let children = folder.into_iter().flat_map(|folder| self.children(folder));
        let children: Box<dyn Iterator<Item = u32>> = Box::new(children);
        FolderCursor {
            index: self,
            children: children.peekable(),
        }
    }

    /// What the index knows about a file.
    pub(crate) fn known_file(&self, number: u32) -> Option<KnownFile> {
        let entry = self.entry(number, path(&[]))?;
        match entry.kind {
            Kind::File { content, .. } => Some(KnownFile {
                attributes: entry.attributes,
                content,
            }),
            _ => None,
        }
    }
}

impl FolderCursor<'_> {
    /// The number of `name`. Names must be passed in sorted order.
    pub(crate) fn find(&mut self, name: &[u8]) -> Option<u32> {
        loop {
            let next = *self.children.peek()?;
            match self.index.name(next).cmp(name) {
                Ordering::Less => self.children.next(),
                Ordering::Equal => return Some(next),
                Ordering::Greater => return None,
            };
        }
    }

    /// What the index knows about the file `name`, if its stamp is the same.
    pub(crate) fn file(&mut self, name: &[u8], facts: &Facts) -> Option<KnownFile> {
        let number = self.find(name)?;
        let same =
            self.index.entry_type(number) == EntryType::File && self.index.is_same(number, facts);
        same.then(|| self.index.known_file(number))?
    }
}
