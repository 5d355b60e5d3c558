//! Verifies a pack before the store accepts it: unpacks everything in it and compares the digests.

use std::io;
use std::path::Path;

use segno_core::digest::Digest;

use crate::encrypted_file::{EncryptedFiles, Opened};
use crate::entry::Chunk;
use crate::error::Error;
use crate::pack::{Block, Cursor, Form, PackSet, Piece, Table, patch, read_table};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// All chunks of the pack were verified.
    Whole,
    /// All but the patches, which need chunks of other packs.
    ExceptPatches,
}

/// Verifies the file at `path` as the pack called `name`: its table, and every chunk that is not a
/// patch (P9).
pub(crate) fn check(
    encrypted_files: &EncryptedFiles,
    path: &Path,
    name: Digest,
) -> Result<Proof, Error> {
    let pack = Pack::open(encrypted_files, path, name)?;
    let mut unpacker = zstd::bulk::Decompressor::new().map_err(|error| Error::at(path, error))?;
    let mut proof = Proof::Whole;
    let mut raw = Vec::new();
    for (number, block) in pack.table.blocks.iter().enumerate() {
        let wrong = |reason: &str| pack.damaged(number, reason);
        if let Form::Patch(_) = block.form {
            proof = Proof::ExceptPatches;
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
                return Err(wrong("its content does not match its digest"));
            }
        }
    }
    Ok(proof)
}

/// Verifies the patches of a pack against their bases in `pack_set`.
pub(crate) fn check_patches(
    encrypted_files: &EncryptedFiles,
    path: &Path,
    name: Digest,
    pack_set: &PackSet,
) -> Result<(), Error> {
    let pack = Pack::open(encrypted_files, path, name)?;
    let mut bases = Cursor::new(pack_set)?;
    let mut patched = Vec::new();
    for (number, block) in pack.table.blocks.iter().enumerate() {
        let (Form::Patch(base), Some(piece)) = (block.form, pack.pieces(number).next()) else {
            continue;
        };
        let location = pack_set
            .locate(&base)
            .ok_or_else(|| pack_set.missing_chunk(base))?;
        let stored = pack.read(number, block)?;
        let base = bases.read(Chunk {
            digest: base,
            length: location.length,
        })?;
        let applied = patch::apply(base, &stored, piece.length as usize, &mut patched);
        if applied.is_none() || Digest::of(&patched) != piece.digest {
            let reason = "its patch does not produce the content of its digest";
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
    fn open(encrypted_files: &EncryptedFiles, path: &'a Path, name: Digest) -> Result<Self, Error> {
        let at = |error: io::Error| Error::at(path, error);
        let table = read_table(encrypted_files, path, name).map_err(at)?;
        let table = table.map_err(|broken| Error::damaged(format!("pack {name}"), broken.0))?;
        let file = encrypted_files.open(path).map_err(at)?;
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
        Ok(_) => Err("its length differs from its table"),
        Err(_) => Err("it cannot be decompressed"),
    }
}
