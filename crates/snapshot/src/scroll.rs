//! A manifest's bytes, entry by entry, without unpacking them.
//!
//! Most of what is done with a manifest of a hundred thousand entries concerns a few of them; the
//! others are passed over, or copied as they stand.

use std::ops::Range;

use crate::entry::{Entry, Kind, Skipped};
use crate::manifest::{VERSION, pass_facts, read_path, read_root, read_skipped};
use crate::wire::{Broken, Reader};

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Folder,
    File,
    Link,
    Twin,
}

impl Sort {
    pub(crate) fn of(entry: &Entry) -> Self {
        match entry.kind {
            Kind::Folder => Sort::Folder,
            Kind::File { .. } => Sort::File,
            Kind::Link { .. } => Sort::Link,
            Kind::Twin { .. } => Sort::Twin,
        }
    }
}

/// A place in a manifest's bytes, and the entry that is there.
#[derive(Debug)]
pub(crate) struct Scroll<'a> {
    whole: &'a [u8],
    reader: Reader<'a>,
    left: usize,
    /// The path of the entry.
    pub(crate) path: Vec<u8>,
    /// What the entry is.
    pub(crate) sort: Sort,
    /// The size of a file.
    pub(crate) size: u64,
    /// Where what is said of it lies in the bytes; its path lies before.
    pub(crate) facts: Range<usize>,
    /// Where its path begins in the bytes.
    from: usize,
}

impl<'a> Scroll<'a> {
    /// The folder itself, and the place before the first entry.
    pub(crate) fn open(whole: &'a [u8]) -> Result<(Entry, Self), Broken> {
        let mut reader = Reader(whole);
        if reader.byte()? != VERSION {
            return Err(Broken("it has a version that is not known here"));
        }
        let root = read_root(&mut reader)?;
        let scroll = Self {
            whole,
            left: reader.count(6)?,
            reader,
            path: Vec::new(),
            sort: Sort::Folder,
            size: 0,
            facts: 0..0,
            from: 0,
        };
        Ok((root, scroll))
    }

    /// How many entries follow.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Goes to the next entry; false if there is none.
    pub(crate) fn next(&mut self) -> Result<bool, Broken> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        self.from = self.place();
        read_path(&mut self.reader, &mut self.path)?;
        let from = self.place();
        (self.sort, self.size) = pass_facts(&mut self.reader)?;
        self.facts = from..self.place();
        Ok(true)
    }

    /// Goes to the next entry if it is the one that `other` is at. The one before was at the same path
    /// in both.
    pub(crate) fn next_is(&mut self, other: &Scroll<'_>) -> bool {
        let entry = &other.whole[other.from..other.facts.end];
        let Some(rest) = self.reader.0.strip_prefix(entry).filter(|_| self.left > 0) else {
            return false;
        };
        self.left -= 1;
        self.from = self.place();
        self.reader.0 = rest;
        let end = self.place();
        self.facts = end - other.facts.len()..end;
        self.path.clone_from(&other.path);
        (self.sort, self.size) = (other.sort, other.size);
        true
    }

    /// How many bytes lie behind.
    fn place(&self) -> usize {
        self.whole.len() - self.reader.0.len()
    }

    /// The bytes after the entry that ends at `from`, up to the end of this one.
    pub(crate) fn since(&self, from: usize) -> &'a [u8] {
        &self.whole[from..self.facts.end]
    }

    /// What is said of the entry.
    pub(crate) fn said(&self) -> &'a [u8] {
        &self.whole[self.facts.clone()]
    }

    /// What was left out. All entries were passed.
    pub(crate) fn skipped(mut self) -> Result<Vec<Skipped>, Broken> {
        let skipped = read_skipped(&mut self.reader)?;
        self.reader.end()?;
        Ok(skipped)
    }
}
