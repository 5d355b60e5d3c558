//! Reads chunks from packs.

use std::io;

use segno_core::digest::Digest;
use zstd::zstd_safe::{DCtx, InBuffer, OutBuffer, ResetDirective};

use crate::entry::Chunk;
use crate::error::Error;
use crate::pack::{ChunkLocation, Form, PackSet, patch};

/// How much of a block is unpacked to read one chunk of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All of it, because its other chunks are read next.
    Whole,
    /// Everything up to the end of the chunk: it is likely to be the only one.
    Needed,
}

/// Reads chunks and caches the last unpacked block: neighbouring chunks are read one after another,
/// and so are the bases of neighbours.
pub(crate) struct Cursor<'a> {
    pack_set: &'a PackSet,
    extent: Extent,
    unpacker: zstd::bulk::Decompressor<'static>,
    /// Unpacks the beginnings of blocks.
    prefix_decoder: Option<DCtx<'static>>,
    at: Option<(u32, u32)>,
    /// The unpacked bytes of the last block, or of its beginning.
    raw: Vec<u8>,
    stored: Vec<u8>,
    /// The result of the last patch, and the base it was applied to.
    patched: Vec<u8>,
    base: Vec<u8>,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(pack_set: &'a PackSet) -> Result<Self, Error> {
        let unpacker =
            zstd::bulk::Decompressor::new().map_err(|error| Error::at(pack_set.folder(), error))?;
        Ok(Self {
            pack_set,
            extent: Extent::Whole,
            unpacker,
            prefix_decoder: None,
            at: None,
            raw: Vec::new(),
            stored: Vec::new(),
            patched: Vec::new(),
            base: Vec::new(),
        })
    }

    /// Whether the next chunks share blocks, or lie apart.
    pub(crate) fn expect_neighbours(&mut self, neighbours: bool) {
        self.extent = if neighbours {
            Extent::Whole
        } else {
            Extent::Needed
        };
    }

    pub(crate) fn pack_set(&self) -> &'a PackSet {
        self.pack_set
    }

    /// The bytes of a chunk, after their digest was verified (P9).
    pub(crate) fn read(&mut self, chunk: Chunk) -> Result<&[u8], Error> {
        let location = self.find(chunk.digest)?;
        if location.length != chunk.length {
            let reason = "the length of a chunk differs from the manifest";
            return Err(Error::damaged(self.pack_set.label(location), reason));
        }
        if location.depth == 0 {
            return self.read_whole(chunk.digest, location);
        }
        // A base has fewer patches below it than the chunk made from it, so this loop ends.
        let mut patches = vec![(chunk.digest, location)];
        let (mut digest, mut at) = (chunk.digest, location);
        while let Some(base) = self.pack_set.base(at) {
            (digest, at) = (base, self.find(base)?);
            patches.push((digest, at));
        }
        patches.pop();
        let whole = self.read_whole(digest, at)?.to_vec();
        self.patched = whole;
        for (digest, location) in patches.into_iter().rev() {
            self.apply(digest, location)?;
        }
        Ok(&self.patched)
    }

    fn find(&self, digest: Digest) -> Result<ChunkLocation, Error> {
        self.pack_set
            .locate(&digest)
            .ok_or_else(|| self.pack_set.missing_chunk(digest))
    }

    /// Reads a chunk that is not a patch.
    fn read_whole(&mut self, digest: Digest, location: ChunkLocation) -> Result<&[u8], Error> {
        let damaged = |reason: &str| Error::damaged(self.pack_set.label(location), reason);
        let (from, to) = (
            location.offset as usize,
            (location.offset + location.length) as usize,
        );
        let is_same = self.at == Some((location.pack, location.block));
        if !is_same || self.raw.len() < to {
            self.at = None;
            // A second read from the same block unpacks it whole.
            let extent = if is_same { Extent::Whole } else { self.extent };
            self.unpack(location, extent)?;
            self.at = Some((location.pack, location.block));
        }
        let bytes = self
            .raw
            .get(from..to)
            .ok_or_else(|| damaged("it is too short"))?;
        if Digest::of(bytes) != digest {
            return Err(damaged("its content does not match its digest"));
        }
        Ok(bytes)
    }

    /// Turns the last result into the chunk at `location`, which is a patch of it.
    fn apply(&mut self, digest: Digest, location: ChunkLocation) -> Result<(), Error> {
        self.load(location)?;
        std::mem::swap(&mut self.patched, &mut self.base);
        let length = location.length as usize;
        let applied = patch::apply(&self.base, &self.stored, length, &mut self.patched);
        // Each patch is verified, so that the error names the damaged one and not one that builds
        // upon it.
        if applied.is_none() || Digest::of(&self.patched) != digest {
            let reason = "its patch does not produce the content of its digest";
            return Err(Error::damaged(self.pack_set.label(location), reason));
        }
        Ok(())
    }

    /// Unpacks a block that is not a patch, or its beginning.
    fn unpack(&mut self, location: ChunkLocation, extent: Extent) -> Result<(), Error> {
        self.load(location)?;
        let block = self.pack_set.block(location);
        let end = location.offset + location.length;
        // Unpacking a part costs one more copy than unpacking the whole.
        let is_worth_it = end < block.raw / 3 * 2;
        if extent == Extent::Needed && block.form == Form::Zstd && is_worth_it {
            let begun = self.unpack_prefix(end as usize);
            let reason = "it cannot be decompressed";
            return begun.ok_or_else(|| Error::damaged(self.pack_set.label(location), reason));
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
            Ok(_) => "its length differs from its table",
            Err(_) => "it cannot be decompressed",
        };
        Err(Error::damaged(self.pack_set.label(location), reason))
    }

    /// Unpacks the first `length` bytes of the loaded block, or fails.
    fn unpack_prefix(&mut self, length: usize) -> Option<()> {
        let prefix_decoder = self.prefix_decoder.get_or_insert_with(DCtx::create);
        prefix_decoder.reset(ResetDirective::SessionOnly).ok()?;
        self.raw.resize(length, 0);
        let mut stored = InBuffer::around(&self.stored);
        let mut raw = OutBuffer::around(&mut self.raw[..]);
        while raw.pos() < length {
            let before = (stored.pos, raw.pos());
            prefix_decoder
                .decompress_stream(&mut raw, &mut stored)
                .ok()?;
            if before == (stored.pos, raw.pos()) {
                return None;
            }
        }
        Some(())
    }

    /// Reads the stored bytes of a block.
    fn load(&mut self, location: ChunkLocation) -> Result<(), Error> {
        let block = self.pack_set.block(location);
        let path = self.pack_set.path(self.pack_set.name(location.pack));
        let opened = self.pack_set.encrypted_files().open(&path);
        let file = opened.map_err(|error| Error::at(&path, error))?;
        self.stored.resize(block.stored as usize, 0);
        let read = file.read_exact_at(&mut self.stored, block.at);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                Error::damaged(self.pack_set.label(location), "its pack is too short")
            }
            io::ErrorKind::InvalidData => {
                Error::damaged(self.pack_set.label(location), error.to_string())
            }
            _ => Error::at(&path, error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encrypted_file::EncryptedFiles;
    use crate::pack::pack_writer::PackWriter;

    /// Writes a pack of one block. Returns the chunks in it.
    fn packed(folder: &std::path::Path) -> Vec<Vec<u8>> {
        let mut noise = vec![0; 900_000];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        let pieces: Vec<Vec<u8>> = noise.chunks(123_456).map(<[u8]>::to_vec).collect();
        let table: Vec<_> = pieces.iter().map(|piece| Chunk::of(piece)).collect();
        let table: Vec<_> = table.iter().map(|at| (at.digest, at.length)).collect();
        let twice = [&noise[..], &noise].concat();
        let bytes = zstd::bulk::compress(&twice, 3).unwrap();
        let mut open = PackWriter::new(&EncryptedFiles::default(), folder).unwrap();
        open.add(Form::Zstd, &bytes, twice.len(), &table).unwrap();
        open.seal(folder).unwrap();
        pieces
    }

    #[test]
    fn chunks_are_read_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        let pieces = packed(folder.path());
        let names = crate::files::digests(folder.path()).unwrap();
        let pack_set = PackSet::open(folder.path(), &EncryptedFiles::default(), [names]).unwrap();
        for order in [vec![0, 1, 7, 2], vec![3, 3, 5, 0], vec![7, 6, 0]] {
            let mut scattered = Cursor::new(&pack_set).unwrap();
            scattered.expect_neighbours(false);
            let mut whole = Cursor::new(&pack_set).unwrap();
            for number in order {
                let piece = &pieces[number];
                assert_eq!(scattered.read(Chunk::of(piece)).unwrap(), piece);
                assert_eq!(whole.read(Chunk::of(piece)).unwrap(), piece);
            }
        }
    }

    #[test]
    fn truncated_block_is_damage() {
        let folder = tempfile::tempdir().unwrap();
        let pieces = packed(folder.path());
        let names = crate::files::digests(folder.path()).unwrap();
        let pack_set = PackSet::open(folder.path(), &EncryptedFiles::default(), [names]).unwrap();
        let mut cursor = Cursor::new(&pack_set).unwrap();
        cursor.expect_neighbours(false);
        cursor.read(Chunk::of(&pieces[0])).unwrap();
        cursor.stored.truncate(100_000);
        assert_eq!(cursor.unpack_prefix(200_000), None);
    }
}
