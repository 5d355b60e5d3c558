//! Writes content into packs, each chunk once.

use std::io;
use std::path::Path;

use segno_core::digest::Digest;
use zstd::zstd_safe::CParameter;

use crate::encrypted_file::EncryptedFiles;
use crate::entry::Chunk;
use crate::error::Error;
use crate::machine;
use crate::pack::pack_writer::PackWriter;
use crate::pack::stored_chunks::StoredChunks;
use crate::pack::{BLOCK, Cursor, Form, PACK, PackSync, patch};

const LEVEL: i32 = 3;
/// The sizes of the compressor's match tables, as powers of two. The default of this level for
/// short matches is four times as large and does not fit a core's cache beside everything else;
/// these save a tenth of the time and cost half a percent of the space.
const MATCH_TABLES: [CParameter; 2] = [CParameter::HashLog(17), CParameter::ChainLog(14)];
/// The longest chain of patches before a chunk is stored whole again: reading the last one means
/// reading all of them.
const CHAIN: u8 = 8;
/// Chunks shorter than this are not worth reading their base.
const MIN_PATCHED: usize = 256;
/// The extra bytes of a patch in the table, compared with a chunk in a shared block: its base and
/// its block.
const PATCH_OVERHEAD: usize = 40;
/// The shortest block that is worth compressing, and later unpacking, in parallel with others.
const SHORTEST: usize = 256 * 1024;

/// One thread's writer: a block that is being filled and a pack that is being written.
pub(crate) struct Packer<'a> {
    encrypted_files: &'a EncryptedFiles,
    drafts: &'a Path,
    packs: &'a Path,
    known: &'a StoredChunks,
    bases: Option<Cursor<'a>>,
    compressor: zstd::bulk::Compressor<'static>,
    packed: Vec<u8>,
    /// The length of new blocks.
    length: usize,
    /// The block that is being filled. Its first `filled` bytes are used.
    block: Vec<u8>,
    filled: usize,
    pieces: Vec<(Digest, u32)>,
    /// How the block is stored, once it is compressed.
    form: Option<Form>,
    patches: Vec<Patch>,
    open: Option<PackWriter>,
    pack_sync: PackSync,
}

/// A chunk as a patch of another one, before it is written.
struct Patch {
    digest: Digest,
    length: u32,
    base: Digest,
    bytes: Vec<u8>,
}

/// The result of a packer whose input has ended.
pub(crate) enum Finished<'a> {
    /// All packs are on their way to the disk.
    Sealed(PackSync),
    /// The packer holds less than a block, which is not worth a pack of its own.
    Small(Box<Packer<'a>>),
}

impl<'a> Packer<'a> {
    /// A packer that writes into the folder `drafts` and moves complete packs to `packs`.
    pub(crate) fn new(
        encrypted_files: &'a EncryptedFiles,
        drafts: &'a Path,
        packs: &'a Path,
        known: &'a StoredChunks,
    ) -> Result<Self, Error> {
        Ok(Self {
            encrypted_files,
            drafts,
            packs,
            known,
            bases: None,
            compressor: compressor().map_err(|error| Error::at(drafts, error))?,
            packed: Vec::with_capacity(zstd::zstd_safe::compress_bound(BLOCK)),
            length: BLOCK,
            block: Vec::with_capacity(BLOCK),
            filled: 0,
            pieces: Vec::new(),
            form: None,
            patches: Vec::new(),
            open: None,
            pack_sync: PackSync::new(packs),
        })
    }

    /// Sets the block length for `bytes` bytes in total: if they are few, each thread that later
    /// unpacks them gets blocks.
    pub(crate) fn for_bytes(self, bytes: u64) -> Self {
        let share = bytes / (4 * machine::workers() as u64);
        let share = usize::try_from(share).unwrap_or(BLOCK);
        Self {
            length: share.clamp(SHORTEST, BLOCK),
            ..self
        }
    }

    /// Lets the packer store chunks as patches of others, which it reads with `bases`.
    pub(crate) fn with_bases(self, bases: Cursor<'a>) -> Self {
        Self {
            bases: Some(bases),
            ..self
        }
    }

    /// Whether the bases of the next chunks share a block.
    pub(crate) fn expect_neighbours(&mut self, neighbours: bool) {
        if let Some(bases) = &mut self.bases {
            bases.expect_neighbours(neighbours);
        }
    }

    /// A buffer for the next chunk at its final position in the block, which saves the caller a
    /// copy.
    pub(crate) fn buffer(&mut self, length: usize) -> Result<&mut [u8], Error> {
        if self.filled + length > self.length {
            self.flush()?;
        }
        let end = self.filled + length;
        // Bytes that were filled once need not be cleared again.
        if self.block.len() < end {
            self.block.resize(end, 0);
        }
        Ok(&mut self.block[self.filled..end])
    }

    /// Stores the first `length` bytes of the buffer unless the store has them; as a patch of
    /// `base` if that is clearly shorter.
    pub(crate) fn put_buffered(
        &mut self,
        length: usize,
        base: impl FnOnce() -> Option<Chunk>,
    ) -> Result<Chunk, Error> {
        let chunk = Chunk::of(&self.block[self.filled..self.filled + length]);
        self.put_buffered_as(chunk, base)?;
        Ok(chunk)
    }

    fn put_buffered_as(
        &mut self,
        chunk: Chunk,
        base: impl FnOnce() -> Option<Chunk>,
    ) -> Result<(), Error> {
        if !self.known.claim(chunk.digest) {
            return Ok(());
        }
        if let Some(base) = base() {
            let block = std::mem::take(&mut self.block);
            let patch = self.patch(&block[self.filled..][..chunk.length as usize], base);
            self.block = block;
            if let Some(bytes) = patch {
                return self.queue_patch(Patch {
                    digest: chunk.digest,
                    length: chunk.length,
                    base: base.digest,
                    bytes,
                });
            }
        }
        self.commit_chunk(chunk.digest, chunk.length);
        Ok(())
    }

    /// Makes the content of the buffer a chunk of the block.
    fn commit_chunk(&mut self, digest: Digest, length: u32) {
        self.pieces.push((digest, length));
        self.filled += length as usize;
    }

    /// Stores bytes that were read elsewhere.
    pub(crate) fn put(
        &mut self,
        bytes: &[u8],
        base: impl FnOnce() -> Option<Chunk>,
    ) -> Result<Chunk, Error> {
        self.buffer(bytes.len())?.copy_from_slice(bytes);
        self.put_buffered(bytes.len(), base)
    }

    /// Stores bytes whose digest is known.
    pub(crate) fn put_as(
        &mut self,
        chunk: Chunk,
        bytes: &[u8],
        base: impl FnOnce() -> Option<Chunk>,
    ) -> Result<(), Error> {
        self.buffer(bytes.len())?.copy_from_slice(bytes);
        self.put_buffered_as(chunk, base)
    }

    fn queue_patch(&mut self, patch: Patch) -> Result<(), Error> {
        self.patches.push(patch);
        let waiting: usize = self.patches.iter().map(|patch| patch.bytes.len()).sum();
        if waiting > BLOCK {
            self.flush_patches()?;
        }
        Ok(())
    }

    /// The patch that turns `base` into `bytes`, if it is at most half as long as `bytes`
    /// compressed alone. A base that cannot be read is not used.
    fn patch(&mut self, bytes: &[u8], base: Chunk) -> Option<Vec<u8>> {
        let bases = self.bases.as_mut().filter(|_| bytes.len() >= MIN_PATCHED)?;
        let location = bases.pack_set().locate(&base.digest)?;
        if location.depth >= CHAIN {
            return None;
        }
        let patch = patch::make(bases.read(base).ok()?, bytes).ok()?;
        self.packed.clear();
        let alone = self.compressor.compress_to_buffer(bytes, &mut self.packed);
        let alone = alone.map_or(bytes.len(), |alone| alone.min(bytes.len()));
        ((patch.len() + PATCH_OVERHEAD) * 2 <= alone).then_some(patch)
    }

    /// Finishes, unless nothing was written yet: then another packer may take over the content.
    pub(crate) fn finish_unless_small(mut self) -> Result<Finished<'a>, Error> {
        if self.open.is_none() && self.pack_sync.is_none() {
            if self.filled >= SHORTEST {
                self.form = Some(self.compress());
            }
            Ok(Finished::Small(Box::new(self)))
        } else {
            self.finish().map(Finished::Sealed)
        }
    }

    /// Takes over the content that another packer has not written yet.
    pub(crate) fn absorb(&mut self, other: Packer<'_>) -> Result<(), Error> {
        let mut bytes = &other.block[..other.filled];
        if let Some(form) = other.form {
            let stored = if form == Form::Zstd {
                &other.packed
            } else {
                bytes
            };
            self.append(form, stored, bytes.len(), &other.pieces)?;
        } else {
            if self.form.is_some() {
                self.flush()?;
            }
            for (digest, length) in other.pieces {
                let (piece, rest) = bytes.split_at(length as usize);
                self.buffer(piece.len())?.copy_from_slice(piece);
                self.commit_chunk(digest, length);
                bytes = rest;
            }
        }
        other
            .patches
            .into_iter()
            .try_for_each(|patch| self.queue_patch(patch))
    }

    /// Sends everything to the disk.
    pub(crate) fn finish(mut self) -> Result<PackSync, Error> {
        self.flush()?;
        self.flush_patches()?;
        self.seal()?;
        Ok(self.pack_sync)
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.pieces.is_empty() {
            return Ok(());
        }
        let form = self.form.take();
        let form = form.unwrap_or_else(|| self.compress());
        let (block, packed) = (
            std::mem::take(&mut self.block),
            std::mem::take(&mut self.packed),
        );
        let pieces = std::mem::take(&mut self.pieces);
        let raw = &block[..self.filled];
        let bytes = if form == Form::Zstd { &packed } else { raw };
        let appended = self.append(form, bytes, raw.len(), &pieces);
        (self.block, self.packed, self.pieces) = (block, packed, pieces);
        self.filled = 0;
        self.pieces.clear();
        appended
    }

    fn flush_patches(&mut self) -> Result<(), Error> {
        for patch in std::mem::take(&mut self.patches) {
            let piece = [(patch.digest, patch.length)];
            let form = Form::Patch(patch.base);
            self.append(form, &patch.bytes, patch.length as usize, &piece)?;
        }
        Ok(())
    }

    /// Writes a block into the pack, and closes the pack if it is long enough.
    fn append(
        &mut self,
        form: Form,
        bytes: &[u8],
        raw: usize,
        pieces: &[(Digest, u32)],
    ) -> Result<(), Error> {
        let to_error = |error: io::Error| Error::at(self.packs, error);
        let open = match &mut self.open {
            Some(open) => open,
            none => {
                none.insert(PackWriter::new(self.encrypted_files, self.drafts).map_err(to_error)?)
            }
        };
        open.add(form, bytes, raw, pieces).map_err(to_error)?;
        if open.at >= PACK {
            self.seal()?;
        }
        Ok(())
    }

    /// Syncs the pack on another thread, so that the caller does not wait.
    fn seal(&mut self) -> Result<(), Error> {
        self.open
            .take()
            .map_or(Ok(()), |open| self.pack_sync.begin(open))
    }

    /// Compresses the block, unless samples of it show that it does not shrink.
    fn compress(&mut self) -> Form {
        self.packed.clear();
        let block = &self.block[..self.filled];
        let shrinks = probes(block).any(|probe| {
            self.packed.clear();
            let length = self.compressor.compress_to_buffer(probe, &mut self.packed);
            length.is_ok_and(|length| length < probe.len() - probe.len() / 32)
        });
        self.packed.clear();
        let packed = shrinks
            && self
                .compressor
                .compress_to_buffer(block, &mut self.packed)
                .is_ok_and(|length| length < block.len());
        if packed { Form::Zstd } else { Form::Plain }
    }
}

fn compressor() -> io::Result<zstd::bulk::Compressor<'static>> {
    let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
    MATCH_TABLES
        .into_iter()
        .try_for_each(|table| compressor.set_parameter(table))?;
    Ok(compressor)
}

/// A few small samples of a long block; a short one as a whole.
fn probes(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    const PROBE: usize = 4096;
    let steps = if block.len() < 8 * PROBE { 1 } else { 4 };
    let step = block.len() / steps;
    (0..steps).map(move |number| {
        let from = number * step;
        let length = if steps == 1 { block.len() } else { PROBE };
        &block[from..from + length]
    })
}
