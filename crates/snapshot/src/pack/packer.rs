//! Writes content into packs, each piece once.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use segno_core::digest::Digest;

use crate::entry::Chunk;
use crate::error::Error;
use crate::files::Draft;
use crate::machine::chance;
use crate::pack::{BLOCK, Block, MAGIC, PACK, PLAIN, Piece, Table, ZSTD};

const LEVEL: i32 = 3;

/// Digests are evenly spread already: their first bytes are their hash.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct First(u64);

impl Hasher for First {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

pub(crate) type ByDigest = BuildHasherDefault<First>;

/// What the vault has already, and what this capture has promised to write.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<HashSet<Digest, ByDigest>>);

impl Known {
    pub(crate) fn new(digests: impl Iterator<Item = Digest>) -> Self {
        Self(Mutex::new(digests.collect()))
    }

    /// True if nobody has it yet; from now on the caller does.
    fn claim(&self, digest: Digest) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(digest)
    }

    pub(crate) fn has(&self, digest: &Digest) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(digest)
    }
}

/// One thread's way into the vault: a block being filled, and a pack being written.
pub(crate) struct Packer<'a> {
    drafts: &'a Path,
    packs: &'a Path,
    known: &'a Known,
    compressor: zstd::bulk::Compressor<'static>,
    packed: Vec<u8>,
    block: Vec<u8>,
    pieces: Vec<(Digest, u32)>,
    open: Option<Open>,
    sealing: Vec<JoinHandle<Result<u64, Error>>>,
    stored: u64,
}

/// A pack that is being written.
struct Open {
    draft: Draft,
    at: u64,
    table: Table,
}

impl<'a> Packer<'a> {
    pub(crate) fn new(drafts: &'a Path, packs: &'a Path, known: &'a Known) -> Result<Self, Error> {
        Ok(Self {
            drafts,
            packs,
            known,
            compressor: zstd::bulk::Compressor::new(LEVEL)
                .map_err(|error| Error::at(drafts, error))?,
            packed: Vec::with_capacity(zstd::zstd_safe::compress_bound(BLOCK)),
            block: Vec::with_capacity(BLOCK),
            pieces: Vec::new(),
            open: None,
            sealing: Vec::new(),
            stored: 0,
        })
    }

    /// Keeps `bytes` unless the vault has them.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<Chunk, Error> {
        let chunk = Chunk {
            digest: Digest::of(bytes),
            length: u32::try_from(bytes.len()).expect("a piece has at most 1 MiB"),
        };
        self.put_as(chunk, bytes)?;
        Ok(chunk)
    }

    /// Keeps `bytes`, whose digest is known.
    pub(crate) fn put_as(&mut self, chunk: Chunk, bytes: &[u8]) -> Result<(), Error> {
        if self.known.claim(chunk.digest) {
            if self.block.len() + bytes.len() > BLOCK {
                self.flush()?;
            }
            self.block.extend_from_slice(bytes);
            self.pieces.push((chunk.digest, chunk.length));
        }
        Ok(())
    }

    /// Makes everything durable but the names, which need the folder synced. Returns how many
    /// bytes the vault has grown by.
    pub(crate) fn finish(mut self) -> Result<u64, Error> {
        self.flush()?;
        if let Some(open) = self.open.take() {
            self.stored += open.seal(self.packs)?;
        }
        for sealing in std::mem::take(&mut self.sealing) {
            self.stored += join(sealing, self.packs)?;
        }
        Ok(self.stored)
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.pieces.is_empty() {
            return Ok(());
        }
        let form = self.compress();
        let bytes = if form == ZSTD {
            &self.packed
        } else {
            &self.block
        };
        let trouble = |error: io::Error| Error::at(self.packs, error);
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(Open::new(self.drafts).map_err(trouble)?),
        };
        open.add(form, bytes, self.block.len(), &self.pieces)
            .map_err(trouble)?;
        self.block.clear();
        self.pieces.clear();
        if open.at >= PACK {
            self.rotate()?;
        }
        Ok(())
    }

    /// Seals the pack beside the work, so that nobody waits for the disk; at most two at once.
    fn rotate(&mut self) -> Result<(), Error> {
        if self.sealing.len() == 2 {
            self.stored += join(self.sealing.remove(0), self.packs)?;
        }
        if let Some(open) = self.open.take() {
            let packs = self.packs.to_owned();
            self.sealing
                .push(std::thread::spawn(move || open.seal(&packs)));
        }
        Ok(())
    }

    /// Compresses the block, unless a look at some of it says that it does not shrink.
    fn compress(&mut self) -> u8 {
        self.packed.clear();
        let shrinks = probes(&self.block).any(|probe| {
            self.packed.clear();
            let length = self.compressor.compress_to_buffer(probe, &mut self.packed);
            length.is_ok_and(|length| length < probe.len() - probe.len() / 32)
        });
        self.packed.clear();
        let packed = shrinks
            && self
                .compressor
                .compress_to_buffer(&self.block[..], &mut self.packed)
                .is_ok_and(|length| length < self.block.len());
        if packed { ZSTD } else { PLAIN }
    }
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

fn join(sealing: JoinHandle<Result<u64, Error>>, packs: &Path) -> Result<u64, Error> {
    let lost = |_| {
        Err(Error::at(
            packs,
            io::Error::other("a thread that wrote ended early"),
        ))
    };
    sealing.join().unwrap_or_else(lost)
}

impl Open {
    fn new(drafts: &Path) -> io::Result<Self> {
        let mut draft = Draft::new(drafts)?;
        draft.write(MAGIC)?;
        Ok(Self {
            draft,
            at: MAGIC.len() as u64,
            table: Table::default(),
        })
    }

    fn add(
        &mut self,
        form: u8,
        bytes: &[u8],
        raw: usize,
        pieces: &[(Digest, u32)],
    ) -> io::Result<()> {
        let small = |size: usize| u32::try_from(size).map_err(io::Error::other);
        let block = small(self.table.blocks.len())?;
        self.draft.write(bytes)?;
        self.table.blocks.push(Block {
            at: self.at,
            stored: small(bytes.len())?,
            raw: small(raw)?,
            form,
        });
        self.at += bytes.len() as u64;
        let mut offset = 0;
        for &(digest, length) in pieces {
            self.table.pieces.push(Piece {
                digest,
                block,
                offset,
                length,
            });
            offset += length;
        }
        Ok(())
    }

    /// Writes table and footer, makes the pack durable, and names it by its check.
    fn seal(self, packs: &Path) -> Result<u64, Error> {
        let to: fn(&Path, &Digest) -> PathBuf = |packs, name| packs.join(name.to_string());
        let seal = |mut open: Self| {
            let mut end = open.table.encode();
            let length = end.len() as u64;
            end.extend_from_slice(&length.to_le_bytes());
            // Two packs of the same content are two files: one may go while the other stays.
            end.extend_from_slice(&chance()?);
            let name = Digest::of(&end);
            end.extend_from_slice(name.as_bytes());
            open.draft.write(&end)?;
            open.draft.publish(&to(packs, &name))?;
            Ok(open.at + end.len() as u64)
        };
        seal(self).map_err(|error: io::Error| Error::at(packs, error))
    }
}
