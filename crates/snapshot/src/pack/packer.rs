//! Writes content into packs, each piece once.

use std::io;
use std::path::Path;

use segno_core::digest::Digest;
use zstd::zstd_safe::CParameter;

use crate::entry::Chunk;
use crate::error::Error;
use crate::machine;
use crate::pack::known::Known;
use crate::pack::open::Open;
use crate::pack::{BLOCK, Cursor, Form, PACK, Sealing, patch};
use crate::safe::Safe;
use crate::vault::Vault;

const LEVEL: i32 = 3;
/// How many places of each length a compressor remembers, as powers of two. The level's own choice for
/// short matches is four times as many, which do not fit a core's cache beside everything else: a
/// tenth of the time for half a percent of the room.
const PLACES: [CParameter; 2] = [CParameter::HashLog(17), CParameter::ChainLog(14)];
/// How many patches follow one another before a piece is stored by itself again: reading the last
/// costs reading all.
const CHAIN: u8 = 8;
/// Pieces shorter than this are not worth the look at their base.
const WORTH: usize = 256;
/// What a patch takes in the table, more than a piece that shares a block: its base and its block.
const TOLL: usize = 40;
/// The shortest block that is worth being packed, and later unpacked, beside others.
const SHORTEST: usize = 256 * 1024;

/// One thread's way into the vault: a block being filled, and a pack being written.
pub(crate) struct Packer<'a> {
    safe: &'a Safe,
    drafts: &'a Path,
    packs: &'a Path,
    known: &'a Known,
    bases: Option<Cursor<'a>>,
    compressor: zstd::bulk::Compressor<'static>,
    packed: Vec<u8>,
    /// How long blocks are made.
    length: usize,
    /// The block being filled, and how much of it is.
    block: Vec<u8>,
    held: usize,
    pieces: Vec<(Digest, u32)>,
    /// How the block is stored, once it is packed.
    form: Option<Form>,
    patches: Vec<Patch>,
    open: Option<Open>,
    sealing: Sealing,
}

/// A piece as changes of another, before it is written.
struct Patch {
    digest: Digest,
    length: u32,
    base: Digest,
    bytes: Vec<u8>,
}

/// What became of a packer that has nothing more to put.
pub(crate) enum Finished<'a> {
    /// All is on its way to the disk.
    Sealed(Sealing),
    /// It has less than a block, which is not worth a pack of its own.
    Little(Box<Packer<'a>>),
}

impl<'a> Packer<'a> {
    pub(crate) fn new(vault: &'a Vault, known: &'a Known) -> Result<Self, Error> {
        Ok(Self {
            safe: &vault.safe,
            drafts: &vault.drafts,
            packs: &vault.packs,
            known,
            bases: None,
            compressor: compressor().map_err(|error| Error::at(&vault.drafts, error))?,
            packed: Vec::with_capacity(zstd::zstd_safe::compress_bound(BLOCK)),
            length: BLOCK,
            block: Vec::with_capacity(BLOCK),
            held: 0,
            pieces: Vec::new(),
            form: None,
            patches: Vec::new(),
            open: None,
            sealing: Sealing::new(&vault.packs),
        })
    }

    /// For so many bytes in all: if they are few, in blocks for every thread that will unpack them.
    pub(crate) fn for_bytes(self, bytes: u64) -> Self {
        let share = bytes / (4 * machine::workers() as u64);
        let share = usize::try_from(share).unwrap_or(BLOCK);
        Self {
            length: share.clamp(SHORTEST, BLOCK),
            ..self
        }
    }

    /// Lets pieces be stored as changes of others, which are read with `bases`.
    pub(crate) fn with_bases(self, bases: Cursor<'a>) -> Self {
        Self {
            bases: Some(bases),
            ..self
        }
    }

    /// Whether the bases of the next pieces share a block.
    pub(crate) fn expect_neighbours(&mut self, neighbours: bool) {
        if let Some(bases) = &mut self.bases {
            bases.expect_neighbours(neighbours);
        }
    }

    /// Room for the next piece, where it would lie in the block: whoever reads it there saves a copy.
    pub(crate) fn room(&mut self, length: usize) -> Result<&mut [u8], Error> {
        if self.held + length > self.length {
            self.flush()?;
        }
        let end = self.held + length;
        // What was filled once stays, and need not be cleared again.
        if self.block.len() < end {
            self.block.resize(end, 0);
        }
        Ok(&mut self.block[self.held..end])
    }

    /// Keeps the first `length` bytes of the room unless the vault has them; as changes of `base`, if
    /// that is clearly shorter.
    pub(crate) fn put_room(
        &mut self,
        length: usize,
        base: impl FnOnce() -> Option<Chunk>,
    ) -> Result<Chunk, Error> {
        let chunk = Chunk::of(&self.block[self.held..self.held + length]);
        self.put_room_as(chunk, base)?;
        Ok(chunk)
    }

    fn put_room_as(
        &mut self,
        chunk: Chunk,
        base: impl FnOnce() -> Option<Chunk>,
    ) -> Result<(), Error> {
        if !self.known.claim(chunk.digest) {
            return Ok(());
        }
        if let Some(base) = base() {
            let block = std::mem::take(&mut self.block);
            let patch = self.patch(&block[self.held..][..chunk.length as usize], base);
            self.block = block;
            if let Some(bytes) = patch {
                return self.keep_patch(Patch {
                    digest: chunk.digest,
                    length: chunk.length,
                    base: base.digest,
                    bytes,
                });
            }
        }
        self.settle(chunk.digest, chunk.length);
        Ok(())
    }

    /// What lies in the room is a piece of the block.
    fn settle(&mut self, digest: Digest, length: u32) {
        self.pieces.push((digest, length));
        self.held += length as usize;
    }

    /// Keeps bytes that were read elsewhere.
    pub(crate) fn put(
        &mut self,
        bytes: &[u8],
        base: impl FnOnce() -> Option<Chunk>,
    ) -> Result<Chunk, Error> {
        self.room(bytes.len())?.copy_from_slice(bytes);
        self.put_room(bytes.len(), base)
    }

    /// The same, of bytes whose digest is known.
    pub(crate) fn put_as(
        &mut self,
        chunk: Chunk,
        bytes: &[u8],
        base: impl FnOnce() -> Option<Chunk>,
    ) -> Result<(), Error> {
        self.room(bytes.len())?.copy_from_slice(bytes);
        self.put_room_as(chunk, base)
    }

    fn keep_patch(&mut self, patch: Patch) -> Result<(), Error> {
        self.patches.push(patch);
        let waiting: usize = self.patches.iter().map(|patch| patch.bytes.len()).sum();
        if waiting > BLOCK {
            self.flush_patches()?;
        }
        Ok(())
    }

    /// What turns `base` into `bytes`, if that is at most half as long as `bytes` by themselves. A
    /// base that cannot be read is none.
    fn patch(&mut self, bytes: &[u8], base: Chunk) -> Option<Vec<u8>> {
        let bases = self.bases.as_mut().filter(|_| bytes.len() >= WORTH)?;
        let place = bases.shelf().place(&base.digest)?;
        if place.depth >= CHAIN {
            return None;
        }
        let patch = patch::make(bases.read(base).ok()?, bytes).ok()?;
        self.packed.clear();
        let alone = self.compressor.compress_to_buffer(bytes, &mut self.packed);
        let alone = alone.map_or(bytes.len(), |alone| alone.min(bytes.len()));
        ((patch.len() + TOLL) * 2 <= alone).then_some(patch)
    }

    /// Finishes, unless nothing was written yet: then another packer may take it over.
    pub(crate) fn finish_much(mut self) -> Result<Finished<'a>, Error> {
        if self.open.is_none() && self.sealing.is_none() {
            if self.held >= SHORTEST {
                self.form = Some(self.compress());
            }
            Ok(Finished::Little(Box::new(self)))
        } else {
            self.finish().map(Finished::Sealed)
        }
    }

    /// Takes over what another packer has not written yet.
    pub(crate) fn take_over(&mut self, other: Packer<'_>) -> Result<(), Error> {
        let mut bytes = &other.block[..other.held];
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
                self.room(piece.len())?.copy_from_slice(piece);
                self.settle(digest, length);
                bytes = rest;
            }
        }
        other
            .patches
            .into_iter()
            .try_for_each(|patch| self.keep_patch(patch))
    }

    /// Sends everything to the disk.
    pub(crate) fn finish(mut self) -> Result<Sealing, Error> {
        self.flush()?;
        self.flush_patches()?;
        self.seal()?;
        Ok(self.sealing)
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
        let raw = &block[..self.held];
        let bytes = if form == Form::Zstd { &packed } else { raw };
        let appended = self.append(form, bytes, raw.len(), &pieces);
        (self.block, self.packed, self.pieces) = (block, packed, pieces);
        self.held = 0;
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

    /// Writes a block into the pack; one that is long enough then makes room for the next.
    fn append(
        &mut self,
        form: Form,
        bytes: &[u8],
        raw: usize,
        pieces: &[(Digest, u32)],
    ) -> Result<(), Error> {
        let trouble = |error: io::Error| Error::at(self.packs, error);
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(Open::new(self.safe, self.drafts).map_err(trouble)?),
        };
        open.add(form, bytes, raw, pieces).map_err(trouble)?;
        if open.at >= PACK {
            self.seal()?;
        }
        Ok(())
    }

    /// Sends the pack to the disk beside the work, so that nobody waits for that.
    fn seal(&mut self) -> Result<(), Error> {
        self.open
            .take()
            .map_or(Ok(()), |open| self.sealing.begin(open))
    }

    /// Compresses the block, unless a look at some of it says that it does not shrink.
    fn compress(&mut self) -> Form {
        self.packed.clear();
        let block = &self.block[..self.held];
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
    PLACES
        .into_iter()
        .try_for_each(|places| compressor.set_parameter(places))?;
    Ok(compressor)
}

/// A few small stretches of a long block; a short one whole.
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
