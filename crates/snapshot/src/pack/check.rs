//! Proving a pack before it is taken in: everything that it claims is unpacked and compared.

use std::io;
use std::path::Path;

use segno_core::digest::Digest;

use crate::entry::Chunk;
use crate::error::Error;
use crate::pack::{Block, Cursor, Form, Piece, Shelf, Table, patch, read_table};
use crate::safe::{Opened, Safe};

/// Whether what a pack claims is proved, or needs other packs for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// All of it.
    Whole,
    /// All but pieces that are changes of others.
    ButPatches,
}

/// Checks the file at `path` as the pack called `name`: its table, and every piece that stands by
/// itself (P9).
pub(crate) fn check(safe: &Safe, path: &Path, name: Digest) -> Result<Proof, Error> {
    let pack = Pack::open(safe, path, name)?;
    let mut unpacker = zstd::bulk::Decompressor::new().map_err(|error| Error::at(path, error))?;
    let mut proof = Proof::Whole;
    let mut raw = Vec::new();
    for (number, block) in pack.table.blocks.iter().enumerate() {
        let wrong = |reason: &str| pack.damaged(number, reason);
        if let Form::Patch(_) = block.form {
            proof = Proof::ButPatches;
            continue;
        }
        let stored = pack.read(number, block)?;
        unpack(&mut unpacker, block, &stored, &mut raw).map_err(wrong)?;
        for piece in pack.pieces(number) {
            let (from, to) = (
                piece.offset as usize,
                (piece.offset + piece.length) as usize,
            );
            let bytes = raw.get(from..to).ok_or_else(|| wrong("it is too short"))?;
            if Digest::of(bytes) != piece.digest {
                return Err(wrong("what is in it does not match its digest"));
            }
        }
    }
    Ok(proof)
}

/// Checks the pieces of a pack that are changes of others; `shelf` has those.
pub(crate) fn check_patches(
    safe: &Safe,
    path: &Path,
    name: Digest,
    shelf: &Shelf,
) -> Result<(), Error> {
    let pack = Pack::open(safe, path, name)?;
    let mut bases = Cursor::new(shelf)?;
    let mut made = Vec::new();
    for (number, block) in pack.table.blocks.iter().enumerate() {
        let (Form::Patch(base), Some(piece)) = (block.form, pack.pieces(number).next()) else {
            continue;
        };
        let place = shelf.place(&base).ok_or_else(|| shelf.lost(base))?;
        let stored = pack.read(number, block)?;
        let base = bases.read(Chunk {
            digest: base,
            length: place.length,
        })?;
        let applied = patch::apply(base, &stored, piece.length as usize, &mut made);
        if applied.is_none() || Digest::of(&made) != piece.digest {
            let reason = "the changes in it do not give what its digest says";
            return Err(pack.damaged(number, reason));
        }
    }
    Ok(())
}

struct Pack<'a> {
    name: Digest,
    path: &'a Path,
    table: Table,
    file: Opened,
}

impl<'a> Pack<'a> {
    fn open(safe: &Safe, path: &'a Path, name: Digest) -> Result<Self, Error> {
        let at = |error: io::Error| Error::at(path, error);
        let table = read_table(safe, path, name).map_err(at)?;
        let table = table.map_err(|broken| Error::damaged(format!("pack {name}"), broken.0))?;
        let file = safe.open(path).map_err(at)?;
        Ok(Self {
            name,
            path,
            table,
            file,
        })
    }

    fn damaged(&self, block: usize, reason: &str) -> Error {
        Error::damaged(format!("block {block} of pack {}", self.name), reason)
    }

    fn read(&self, number: usize, block: &Block) -> Result<Vec<u8>, Error> {
        let mut stored = vec![0; block.stored as usize];
        match self.file.read_exact_at(&mut stored, block.at) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(self.damaged(number, &error.to_string()))
            }
            Err(error) => Err(Error::at(self.path, error)),
            Ok(()) => Ok(stored),
        }
    }

    fn pieces(&self, block: usize) -> impl Iterator<Item = &Piece> {
        let pieces = self.table.pieces.iter();
        pieces.filter(move |piece| piece.block as usize == block)
    }
}

fn unpack(
    unpacker: &mut zstd::bulk::Decompressor<'_>,
    block: &Block,
    stored: &[u8],
    raw: &mut Vec<u8>,
) -> Result<(), &'static str> {
    raw.clear();
    if block.form == Form::Plain {
        raw.extend_from_slice(stored);
        return Ok(());
    }
    raw.reserve(block.raw as usize);
    match unpacker.decompress_to_buffer(stored, raw) {
        Ok(length) if length == block.raw as usize => Ok(()),
        Ok(_) => Err("it has another length than its table says"),
        Err(_) => Err("it cannot be unpacked"),
    }
}
