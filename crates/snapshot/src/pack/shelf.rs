//! All packs of a vault: where each piece of content is, and reading it.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;

use crate::entry::Chunk;
use crate::error::Error;
use crate::files;
use crate::pack::packer::ByDigest;
use crate::pack::{BLOCK, Block, PLAIN, Table, read_table};

/// Where a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) pack: u32,
    pub(crate) block: u32,
    offset: u32,
    length: u32,
}

/// All packs that can be read.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    folder: PathBuf,
    packs: Vec<(Digest, Vec<Block>)>,
    places: HashMap<Digest, Place, ByDigest>,
    damaged: Vec<(Digest, &'static str)>,
}

impl Shelf {
    /// Reads the tables of the packs called `names`. A piece that several have is taken from the
    /// first of them. Packs that went away in the meantime are passed over, damaged ones noted.
    pub(crate) fn open(
        folder: &Path,
        names: impl IntoIterator<Item = Digest>,
    ) -> Result<Self, Error> {
        let mut shelf = Self {
            folder: folder.to_owned(),
            ..Self::default()
        };
        for name in names {
            match read_table(&shelf.path(name), name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::at(&shelf.path(name), error)),
                Ok(Err(broken)) => shelf.damaged.push((name, broken.0)),
                Ok(Ok(table)) => shelf.add(name, table),
            }
        }
        Ok(shelf)
    }

    fn path(&self, name: Digest) -> PathBuf {
        self.folder.join(name.to_string())
    }

    fn add(&mut self, name: Digest, table: Table) {
        let pack = u32::try_from(self.packs.len()).expect("there are fewer packs than that");
        self.places.reserve(table.pieces.len());
        for piece in table.pieces {
            let place = Place {
                pack,
                block: piece.block,
                offset: piece.offset,
                length: piece.length,
            };
            self.places.entry(piece.digest).or_insert(place);
        }
        self.packs.push((name, table.blocks));
    }

    pub(crate) fn digests(&self) -> impl Iterator<Item = Digest> {
        self.places.keys().copied()
    }

    pub(crate) fn place(&self, digest: &Digest) -> Option<Place> {
        self.places.get(digest).copied()
    }

    /// Packs whose tables cannot be read, and why.
    pub(crate) fn damaged(&self) -> &[(Digest, &'static str)] {
        &self.damaged
    }

    pub(crate) fn name(&self, pack: u32) -> Digest {
        self.packs[pack as usize].0
    }

    pub(crate) fn block(&self, pack: u32, block: u32) -> Block {
        self.packs[pack as usize].1[block as usize]
    }

    /// A piece's share of what its block takes in the pack.
    pub(crate) fn share(&self, place: Place) -> u64 {
        let block = self.block(place.pack, place.block);
        u64::from(place.length) * u64::from(block.stored) / u64::from(block.raw.max(1))
    }

    /// What a place is called when it is damaged.
    pub(crate) fn label(&self, place: Place) -> String {
        format!("block {} of pack {}", place.block, self.name(place.pack))
    }
}

/// Reads pieces, and remembers the last block: neighbours are asked for one after another.
pub(crate) struct Cursor<'a> {
    shelf: &'a Shelf,
    unpacker: zstd::bulk::Decompressor<'static>,
    at: Option<(u32, u32)>,
    raw: Vec<u8>,
    stored: Vec<u8>,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(shelf: &'a Shelf) -> Result<Self, Error> {
        let unpacker =
            zstd::bulk::Decompressor::new().map_err(|error| Error::at(&shelf.folder, error))?;
        Ok(Self {
            shelf,
            unpacker,
            at: None,
            raw: Vec::with_capacity(BLOCK),
            stored: Vec::new(),
        })
    }

    /// The bytes of a piece; its digest is compared before they are handed out (P9).
    pub(crate) fn read(&mut self, chunk: Chunk) -> Result<&[u8], Error> {
        let missing = || Error::damaged(format!("content {}", chunk.digest), "no pack has it");
        let place = self.shelf.place(&chunk.digest).ok_or_else(missing)?;
        let damaged = |reason: &str| Error::damaged(self.shelf.label(place), reason);
        if place.length != chunk.length {
            return Err(damaged("a piece is not as long as the manifest says"));
        }
        if self.at != Some((place.pack, place.block)) {
            self.at = None;
            let block = self.shelf.block(place.pack, place.block);
            self.load(place, block)?;
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
        if Digest::of(bytes) != chunk.digest {
            return Err(damaged("what is in it does not match its digest"));
        }
        Ok(bytes)
    }

    fn load(&mut self, place: Place, block: Block) -> Result<(), Error> {
        let path = self.shelf.path(self.shelf.name(place.pack));
        let damaged = |reason: &str| Error::damaged(self.shelf.label(place), reason);
        let file = files::open(&path).map_err(|error| Error::at(&path, error))?;
        self.stored.resize(block.stored as usize, 0);
        let read = file.read_exact_at(&mut self.stored, block.at);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged("its pack is too short"),
            _ => Error::at(&path, error),
        })?;
        self.raw.clear();
        if block.form == PLAIN {
            self.raw.extend_from_slice(&self.stored);
            return Ok(());
        }
        self.raw.reserve(block.raw as usize);
        let unpacked = self
            .unpacker
            .decompress_to_buffer(&self.stored[..], &mut self.raw);
        match unpacked {
            Ok(length) if length == block.raw as usize => Ok(()),
            Ok(_) => Err(damaged("it has another length than its table says")),
            Err(_) => Err(damaged("it cannot be unpacked")),
        }
    }
}
