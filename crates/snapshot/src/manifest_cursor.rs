//! Iterates over the entries of an encoded manifest without decoding all of them.
//!
//! Most operations on a manifest of a hundred thousand entries concern a few of them; the others
//! are skipped or copied verbatim.

use std::ops::Range;

use crate::entry::{Entry, EntryType, Skipped};
use crate::manifest::{VERSION, read_path, read_root, read_skipped, skip_entry};
use crate::wire::{Broken, Reader};

/// A position in the bytes of a manifest, and the entry at it.
#[derive(Debug)]
pub(crate) struct ManifestCursor<'a> {
    whole: &'a [u8],
    reader: Reader<'a>,
    left: usize,
    pub(crate) path: Vec<u8>,
    pub(crate) entry_type: EntryType,
    /// The size of a file; 0 for everything else.
    pub(crate) size: u64,
    /// The range of the encoded entry in the bytes; its path precedes it.
    pub(crate) facts: Range<usize>,
    /// Where its path begins in the bytes.
    from: usize,
}

impl<'a> ManifestCursor<'a> {
    /// Parses the root folder and stops before the first entry.
    pub(crate) fn open(whole: &'a [u8]) -> Result<(Entry, Self), Broken> {
        let mut reader = Reader(whole);
        if reader.byte()? != VERSION {
            return Err(Broken("its version is unknown"));
        }
        let root = read_root(&mut reader)?;
        let cursor = Self {
            whole,
            left: reader.count(6)?,
            reader,
            path: Vec::new(),
            entry_type: EntryType::Folder,
            size: 0,
            facts: 0..0,
            from: 0,
        };
        Ok((root, cursor))
    }

    /// How many entries follow.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Moves to the next entry; false if there is none.
    pub(crate) fn next(&mut self) -> Result<bool, Broken> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        self.from = self.place();
        read_path(&mut self.reader, &mut self.path)?;
        let from = self.place();
        (self.entry_type, self.size) = skip_entry(&mut self.reader)?;
        self.facts = from..self.place();
        Ok(true)
    }

    /// Moves to the next entry if its bytes equal the entry that `other` is at. The previous
    /// entries of both must have the same path.
    pub(crate) fn next_is(&mut self, other: &ManifestCursor<'_>) -> bool {
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
        (self.entry_type, self.size) = (other.entry_type, other.size);
        true
    }

    /// How many bytes were read.
    fn place(&self) -> usize {
        self.whole.len() - self.reader.0.len()
    }

    /// The bytes after the entry that ends at `from`, up to the end of this one.
    pub(crate) fn since(&self, from: usize) -> &'a [u8] {
        &self.whole[from..self.facts.end]
    }

    /// The encoded entry, without its path.
    pub(crate) fn encoded(&self) -> &'a [u8] {
        &self.whole[self.facts.clone()]
    }

    /// The excluded paths. Call this after the last entry.
    pub(crate) fn skipped(mut self) -> Result<Vec<Skipped>, Broken> {
        let skipped = read_skipped(&mut self.reader)?;
        self.reader.end()?;
        Ok(skipped)
    }
}
