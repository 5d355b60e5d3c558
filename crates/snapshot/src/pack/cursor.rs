//! Reads pieces of content from packs.

use std::io;

use segno_core::digest::Digest;

use crate::entry::Chunk;
use crate::error::Error;
use crate::pack::{BLOCK, Form, Place, Shelf, patch};

/// Reads pieces, and remembers the last block of several pieces: neighbours are asked for one
/// after another, and so are the bases of neighbours.
pub(crate) struct Cursor<'a> {
    shelf: &'a Shelf,
    unpacker: zstd::bulk::Decompressor<'static>,
    at: Option<(u32, u32)>,
    raw: Vec<u8>,
    stored: Vec<u8>,
    /// A piece that was made from others, and the one that it was made from last.
    made: Vec<u8>,
    base: Vec<u8>,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(shelf: &'a Shelf) -> Result<Self, Error> {
        let unpacker =
            zstd::bulk::Decompressor::new().map_err(|error| Error::at(shelf.folder(), error))?;
        Ok(Self {
            shelf,
            unpacker,
            at: None,
            raw: Vec::with_capacity(BLOCK),
            stored: Vec::new(),
            made: Vec::new(),
            base: Vec::new(),
        })
    }

    pub(crate) fn shelf(&self) -> &'a Shelf {
        self.shelf
    }

    /// The bytes of a piece; its digest is compared before they are handed out (P9).
    pub(crate) fn read(&mut self, chunk: Chunk) -> Result<&[u8], Error> {
        let place = self.find(chunk.digest)?;
        if place.length != chunk.length {
            let reason = "a piece is not as long as the manifest says";
            return Err(Error::damaged(self.shelf.label(place), reason));
        }
        if place.depth == 0 {
            return self.read_whole(chunk.digest, place);
        }
        // A base has fewer patches below it than what is made from it, so this ends.
        let mut patches = vec![(chunk.digest, place)];
        let (mut digest, mut at) = (chunk.digest, place);
        while let Some(base) = self.shelf.base(at) {
            (digest, at) = (base, self.find(base)?);
            patches.push((digest, at));
        }
        patches.pop();
        let whole = self.read_whole(digest, at)?.to_vec();
        self.made = whole;
        for (digest, place) in patches.into_iter().rev() {
            self.apply(digest, place)?;
        }
        Ok(&self.made)
    }

    fn find(&self, digest: Digest) -> Result<Place, Error> {
        self.shelf
            .place(&digest)
            .ok_or_else(|| self.shelf.lost(digest))
    }

    /// A piece that stands by itself.
    fn read_whole(&mut self, digest: Digest, place: Place) -> Result<&[u8], Error> {
        let damaged = |reason: &str| Error::damaged(self.shelf.label(place), reason);
        if self.at != Some((place.pack, place.block)) {
            self.at = None;
            self.unpack(place)?;
            self.at = Some((place.pack, place.block));
        }
        let (from, to) = (
            place.offset as usize,
            (place.offset + place.length) as usize,
        );
        let bytes = self
            .raw
            .get(from..to)
            .ok_or_else(|| damaged("it is too short"))?;
        if Digest::of(bytes) != digest {
            return Err(damaged("what is in it does not match its digest"));
        }
        Ok(bytes)
    }

    /// Turns what was made last into the piece at `place`, which is a patch of it.
    fn apply(&mut self, digest: Digest, place: Place) -> Result<(), Error> {
        self.load(place)?;
        std::mem::swap(&mut self.made, &mut self.base);
        let length = place.length as usize;
        let applied = patch::apply(&self.base, &self.stored, length, &mut self.made);
        // Each patch is checked, so that the damaged one is named and not what builds on it.
        if applied.is_none() || Digest::of(&self.made) != digest {
            let reason = "the changes in it do not give what its digest says";
            return Err(Error::damaged(self.shelf.label(place), reason));
        }
        Ok(())
    }

    /// Unpacks a block of pieces that stand by themselves.
    fn unpack(&mut self, place: Place) -> Result<(), Error> {
        self.load(place)?;
        let block = self.shelf.block(place);
        self.raw.clear();
        if block.form == Form::Plain {
            self.raw.extend_from_slice(&self.stored);
            return Ok(());
        }
        self.raw.reserve(block.raw as usize);
        let unpacked = self
            .unpacker
            .decompress_to_buffer(&self.stored[..], &mut self.raw);
        let reason = match unpacked {
            Ok(length) if length == block.raw as usize => return Ok(()),
            Ok(_) => "it has another length than its table says",
            Err(_) => "it cannot be unpacked",
        };
        Err(Error::damaged(self.shelf.label(place), reason))
    }

    /// Reads the bytes of a block as they are stored.
    fn load(&mut self, place: Place) -> Result<(), Error> {
        let block = self.shelf.block(place);
        let path = self.shelf.path(self.shelf.name(place.pack));
        let opened = self.shelf.safe().open(&path);
        let file = opened.map_err(|error| Error::at(&path, error))?;
        self.stored.resize(block.stored as usize, 0);
        let read = file.read_exact_at(&mut self.stored, block.at);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                Error::damaged(self.shelf.label(place), "its pack is too short")
            }
            io::ErrorKind::InvalidData => {
                Error::damaged(self.shelf.label(place), error.to_string())
            }
            _ => Error::at(&path, error),
        })
    }
}
