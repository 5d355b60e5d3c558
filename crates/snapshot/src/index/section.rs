//! What the index knows of one folder, asked for in the order of its names.

use std::cmp::Ordering;
use std::ffi::OsString;

use crate::beneath::Facts;
use crate::entry::{Chunk, Kind};
use crate::index::Index;
use crate::manifest::path;
use crate::scroll::Sort;

/// What is known of a file that has not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) attributes: Vec<(OsString, Vec<u8>)>,
    pub(crate) content: Vec<Chunk>,
}

/// A folder of the index, and a place among its names.
pub(crate) struct Section<'a> {
    index: &'a Index,
    children: std::iter::Peekable<Box<dyn Iterator<Item = u32> + 'a>>,
}

impl Index {
    /// What is known of a folder, if anything is.
    pub(crate) fn section(&self, folder: Option<u32>) -> Section<'_> {
        let children = folder.into_iter().flat_map(|folder| self.children(folder));
        let children: Box<dyn Iterator<Item = u32>> = Box::new(children);
        Section {
            index: self,
            children: children.peekable(),
        }
    }

    /// What is known of a file.
    pub(crate) fn memory(&self, number: u32) -> Option<Memory> {
        let entry = self.entry(number, path(&[]))?;
        match entry.kind {
            Kind::File { content, .. } => Some(Memory {
                attributes: entry.attributes,
                content,
            }),
            _ => None,
        }
    }
}

impl Section<'_> {
    /// The number of `name`.
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

    /// What is known of the file `name`, if it still looks as it did.
    pub(crate) fn file(&mut self, name: &[u8], facts: &Facts) -> Option<Memory> {
        let number = self.find(name)?;
        let same = self.index.sort(number) == Sort::File && self.index.is_same(number, facts);
        same.then(|| self.index.memory(number))?
    }
}
