//! Packs: many chunks of content in one file.
//!
//! ```text
//! "SEGNOPK3" | blocks | table | length of the table (8) | random bytes (16) | check (32)
//! ```
//!
//! A block is up to 2 MiB of neighbouring chunks, compressed together, or one chunk as a patch of
//! another one, its base, which may lie in any pack. The table says where each block and chunk is.
//! The check is the BLAKE3 hash of everything from the table on, and the pack's name: a truncated
//! pack, or one whose table changed, is not a pack. The digests in the table verify the content of
//! the blocks.

mod check;
mod cursor;
mod pack_index;
mod pack_set;
mod pack_sync;
mod pack_writer;
mod packer;
mod patch;
mod stored_chunks;

use std::io;
use std::path::Path;

use segno_core::digest::Digest;
use segno_secrets::cipher::DecryptError;

use crate::chunk::LONGEST;
use crate::encrypted_file::EncryptedFiles;
use crate::wire::{Broken, Reader, Writer};

pub(crate) use check::{Proof, check, check_patches};
pub(crate) use cursor::Cursor;
pub(crate) use pack_set::{ChunkLocation, PackSet};
pub(crate) use pack_sync::PackSync;
pub(crate) use packer::{Finished, Packer};
pub(crate) use stored_chunks::StoredChunks;

/// The last byte is the version.
const MAGIC: &[u8; 8] = b"SEGNOPK3";
/// The longest block that is read, unpacked or not. Future versions may write longer ones than this
/// one.
const READ: usize = 4 * LONGEST;
const FOOTER: usize = 8 + 16 + 32;
/// The unpacked length of new blocks. Longer ones take less space, and more work for each chunk
/// that is read alone.
const BLOCK: usize = 2 * LONGEST;
/// A pack of this length gets no more blocks. It is synced and read back while the next one is
/// written; a capture waits only for the last one.
const PACK: u64 = 32 * 1024 * 1024;
/// The longest table that is read, whatever a pack claims (P10).
const TABLE: u64 = 256 * 1024 * 1024;

/// The suffix of a received pack that is not verified yet.
pub(crate) const PENDING_SUFFIX: &str = ".guest";

const PLAIN: u8 = 0;
const ZSTD: u8 = 1;
const PATCH: u8 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Uncompressed.
    Plain,
    /// As a zstd frame.
    Zstd,
    /// One chunk, as a zstd frame that references the chunk with this digest, its base.
    Patch(Digest),
}

/// A range of a pack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    /// Its offset in the file.
    pub(crate) at: u64,
    /// Its length in the file.
    pub(crate) stored: u32,
    /// Its unpacked length.
    pub(crate) raw: u32,
    pub(crate) form: Form,
}

/// A chunk in a pack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) digest: Digest,
    pub(crate) block: u32,
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

/// The table of a pack.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) blocks: Vec<Block>,
    pub(crate) pieces: Vec<Piece>,
    /// Whether the pack is encrypted.
    pub(crate) encrypted: bool,
}

impl Table {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.size(self.blocks.len());
        let mut pieces = self.pieces.iter().peekable();
        for (number, block) in self.blocks.iter().enumerate() {
            writer.byte(match block.form {
                Form::Plain => PLAIN,
                Form::Zstd => ZSTD,
                Form::Patch(_) => PATCH,
            });
            if let Form::Patch(base) = &block.form {
                writer.digest(base);
            }
            writer.number(u64::from(block.stored));
            writer.number(u64::from(block.raw));
            let mut here = Vec::new();
            while let Some(piece) = pieces.next_if(|piece| piece.block as usize == number) {
                here.push(piece);
            }
            writer.size(here.len());
            for piece in here {
                writer.digest(&piece.digest);
                writer.number(u64::from(piece.length));
            }
        }
        writer.0
    }

    fn decode(bytes: &[u8]) -> Result<Self, Broken> {
        let mut reader = Reader(bytes);
        let mut table = Self::default();
        let mut at = MAGIC.len() as u64;
        for number in 0..reader.count(4)? {
            let form = match reader.byte()? {
                PLAIN => Form::Plain,
                ZSTD => Form::Zstd,
                PATCH => Form::Patch(reader.digest()?),
                _ => return Err(Broken("its table has a block of an unknown form")),
            };
            let stored = reader.small()?;
            let raw = reader.small()?;
            let fits = raw as usize <= READ && stored <= raw;
            if !fits || (form == Form::Plain && stored != raw) {
                return Err(Broken("its table has an invalid block"));
            }
            table.blocks.push(Block {
                at,
                stored,
                raw,
                form,
            });
            at += u64::from(stored);
            let block = u32::try_from(number).map_err(|_| Broken("it has too many blocks"))?;
            let mut offset = 0_u32;
            let count = reader.count(33)?;
            for _ in 0..count {
                let digest = reader.digest()?;
                let length = reader.small()?;
                if length as usize > LONGEST {
                    return Err(Broken("its table has a chunk that is too long"));
                }
                let end = offset.checked_add(length).filter(|end| *end <= raw);
                let end = end.ok_or(Broken("its table has a chunk that exceeds its block"))?;
                table.pieces.push(Piece {
                    digest,
                    block,
                    offset,
                    length,
                });
                offset = end;
            }
            if matches!(form, Form::Patch(_)) && (count != 1 || offset != raw) {
                return Err(Broken("its table has a patch that is not one chunk"));
            }
        }
        reader.end()?;
        Ok(table)
    }
}

/// Reads a pack's table. `Ok(Err(_))` if the pack exists and is damaged.
pub(crate) fn read_table(
    encrypted_files: &EncryptedFiles,
    path: &Path,
    name: Digest,
) -> io::Result<Result<Table, Broken>> {
    match read_whole_table(encrypted_files, path, name) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let reason = match error.get_ref().and_then(|error| error.downcast_ref()) {
                Some(DecryptError::Damaged) => "its table cannot be decrypted",
                _ => "it is not a regular file",
            };
            Ok(Err(Broken(reason)))
        }
        other => other,
    }
}

fn read_whole_table(
    encrypted_files: &EncryptedFiles,
    path: &Path,
    name: Digest,
) -> io::Result<Result<Table, Broken>> {
    let file = encrypted_files.open(path)?;
    let length = file.length();
    // Most tables are short and lie completely in the last 64 KiB.
    let mut end = vec![0; usize::try_from(length.min(64 * 1024)).unwrap_or(0)];
    let from = length - end.len() as u64;
    file.read_exact_at(&mut end, from)?;
    let Some((_, footer)) = end.split_last_chunk::<FOOTER>() else {
        return Ok(Err(Broken("it is too short")));
    };
    let mut magic = [0; MAGIC.len()];
    file.read_exact_at(&mut magic, 0)?;
    if let Err(broken) = check_version(magic) {
        return Ok(Err(broken));
    }
    let mut size = [0; 8];
    size.copy_from_slice(&footer[..8]);
    let size = u64::from_le_bytes(size);
    let least = size.saturating_add((MAGIC.len() + FOOTER) as u64);
    if size > TABLE || least > length {
        return Ok(Err(Broken("its footer is invalid")));
    }
    let wanted = usize::try_from(size).unwrap_or(0) + FOOTER;
    if wanted > end.len() {
        end = vec![0; wanted];
        file.read_exact_at(&mut end, length - wanted as u64)?;
    }
    let table = open_table(length, &end[end.len() - wanted..], name);
    Ok(table.map(|table| Table {
        encrypted: file.is_encrypted(),
        ..table
    }))
}

/// Accepts only the current version.
fn check_version(magic: [u8; 8]) -> Result<(), Broken> {
    if magic == *MAGIC {
        Ok(())
    } else if magic[..7] == MAGIC[..7] {
        Err(Broken("it is a pack of an unknown version"))
    } else {
        Err(Broken("it is not a pack"))
    }
}

fn open_table(length: u64, end: &[u8], name: Digest) -> Result<Table, Broken> {
    let (content, check) = end
        .split_last_chunk::<32>()
        .ok_or(Broken("it is too short"))?;
    if Digest::of(content).as_bytes() != check || name.as_bytes() != check {
        return Err(Broken("its table does not match its name"));
    }
    let table = Table::decode(&content[..content.len() - 24])?;
    let blocks: u64 = table
        .blocks
        .iter()
        .map(|block| u64::from(block.stored))
        .sum();
    if MAGIC.len() as u64 + blocks + end.len() as u64 != length {
        return Err(Broken("its length differs from its table"));
    }
    Ok(table)
}
