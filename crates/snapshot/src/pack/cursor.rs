//! Reads pieces of content from packs.

use std::io;

use segno_core::digest::Digest;
use zstd::zstd_safe::{DCtx, InBuffer, OutBuffer, ResetDirective};

use crate::entry::Chunk;
use crate::error::Error;
use crate::pack::{Form, Place, Shelf, patch};

/// How much of a block is unpacked when a piece of it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All of it: its other pieces are asked for next.
    Whole,
    /// What comes before the piece, and the piece: it is likely to be the only one.
    Needed,
}

/// Reads pieces, and remembers the last block of several pieces: neighbours are asked for one
/// after another, and so are the bases of neighbours.
pub(crate) struct Cursor<'a> {
    shelf: &'a Shelf,
    extent: Extent,
    unpacker: zstd::bulk::Decompressor<'static>,
    /// Unpacks the beginnings of blocks.
    beginner: Option<DCtx<'static>>,
    at: Option<(u32, u32)>,
    /// What is unpacked of the block that was read last: it, or its beginning.
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
            extent: Extent::Whole,
            unpacker,
            beginner: None,
            at: None,
            raw: Vec::new(),
            stored: Vec::new(),
            made: Vec::new(),
            base: Vec::new(),
        })
    }

    /// Whether the pieces that are asked for next share blocks, or lie apart.
    pub(crate) fn expect_neighbours(&mut self, neighbours: bool) {
        self.extent = if neighbours {
            Extent::Whole
        } else {
            Extent::Needed
        };
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
        let (from, to) = (
            place.offset as usize,
            (place.offset + place.length) as usize,
        );
        let is_same = self.at == Some((place.pack, place.block));
        if !is_same || self.raw.len() < to {
            self.at = None;
            // Whoever comes back for more of a block gets it whole.
            let extent = if is_same { Extent::Whole } else { self.extent };
            self.unpack(place, extent)?;
            self.at = Some((place.pack, place.block));
        }
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

    /// Unpacks a block of pieces that stand by themselves, or its beginning.
    fn unpack(&mut self, place: Place, extent: Extent) -> Result<(), Error> {
        self.load(place)?;
        let block = self.shelf.block(place);
        let end = place.offset + place.length;
        // A part costs a copy more than the whole.
        let is_worth_it = end < block.raw / 3 * 2;
        if extent == Extent::Needed && block.form == Form::Zstd && is_worth_it {
            let begun = self.unpack_beginning(end as usize);
            let reason = "it cannot be unpacked";
            return begun.ok_or_else(|| Error::damaged(self.shelf.label(place), reason));
        }
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

    /// Unpacks as many bytes of what was loaded, or fails.
    fn unpack_beginning(&mut self, length: usize) -> Option<()> {
        let beginner = self.beginner.get_or_insert_with(DCtx::create);
        beginner.reset(ResetDirective::SessionOnly).ok()?;
        self.raw.resize(length, 0);
        let mut stored = InBuffer::around(&self.stored);
        let mut raw = OutBuffer::around(&mut self.raw[..]);
        while raw.pos() < length {
            let before = (stored.pos, raw.pos());
            beginner.decompress_stream(&mut raw, &mut stored).ok()?;
            if before == (stored.pos, raw.pos()) {
                return None;
            }
        }
        Some(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::open::Open;
    use crate::safe::Safe;

    /// A pack of one block, and the pieces in it.
    fn packed(folder: &std::path::Path) -> Vec<Vec<u8>> {
        let mut noise = vec![0; 900_000];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        let pieces: Vec<Vec<u8>> = noise.chunks(123_456).map(<[u8]>::to_vec).collect();
        let table: Vec<_> = pieces.iter().map(|piece| Chunk::of(piece)).collect();
        let table: Vec<_> = table.iter().map(|at| (at.digest, at.length)).collect();
        let twice = [&noise[..], &noise].concat();
        let bytes = zstd::bulk::compress(&twice, 3).unwrap();
        let mut open = Open::new(&Safe::default(), folder).unwrap();
        open.add(Form::Zstd, &bytes, twice.len(), &table).unwrap();
        open.seal(folder).unwrap();
        pieces
    }

    #[test]
    fn pieces_are_read_in_any_order_whole_blocks_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let pieces = packed(folder.path());
        let names = crate::vault::names(folder.path()).unwrap();
        let shelf = Shelf::open(folder.path(), &Safe::default(), [names]).unwrap();
        for order in [vec![0, 1, 7, 2], vec![3, 3, 5, 0], vec![7, 6, 0]] {
            let mut scattered = Cursor::new(&shelf).unwrap();
            scattered.expect_neighbours(false);
            let mut whole = Cursor::new(&shelf).unwrap();
            for number in order {
                let piece = &pieces[number];
                assert_eq!(scattered.read(Chunk::of(piece)).unwrap(), piece);
                assert_eq!(whole.read(Chunk::of(piece)).unwrap(), piece);
            }
        }
    }

    #[test]
    fn a_beginning_of_a_block_that_was_cut_short_is_damage() {
        let folder = tempfile::tempdir().unwrap();
        let pieces = packed(folder.path());
        let names = crate::vault::names(folder.path()).unwrap();
        let shelf = Shelf::open(folder.path(), &Safe::default(), [names]).unwrap();
        let mut cursor = Cursor::new(&shelf).unwrap();
        cursor.expect_neighbours(false);
        cursor.read(Chunk::of(&pieces[0])).unwrap();
        cursor.stored.truncate(100_000);
        assert_eq!(cursor.unpack_beginning(200_000), None);
    }
}
