//! A pack that is being written.

use std::io;
use std::path::Path;

use segno_core::digest::Digest;
use segno_core::fault::{Point, point};

use crate::encrypted_file::{EncryptedDraft, EncryptedFiles};
use crate::error::Error;
use crate::machine::random_bytes;
use crate::pack::{Block, Form, MAGIC, Piece, Table};

pub(super) struct PackWriter {
    draft: EncryptedDraft,
    /// The length so far.
    pub(super) at: u64,
    table: Table,
}

impl PackWriter {
    pub(super) fn new(encrypted_files: &EncryptedFiles, drafts: &Path) -> io::Result<Self> {
        let mut draft = encrypted_files.draft(drafts)?;
        draft.write(MAGIC)?;
        Ok(Self {
            draft,
            at: MAGIC.len() as u64,
            table: Table::default(),
        })
    }

    pub(super) fn add(
        &mut self,
        form: Form,
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
    pub(super) fn seal(self, packs: &Path) -> Result<u64, Error> {
        let seal = |mut open: Self| {
            let mut end = open.table.encode();
            let length = end.len() as u64;
            end.extend_from_slice(&length.to_le_bytes());
            // Two packs of the same content have different names, so that one can be deleted while
            // the other stays.
            end.extend_from_slice(&random_bytes()?);
            let name = Digest::of(&end);
            end.extend_from_slice(name.as_bytes());
            open.draft.write(&end)?;
            point(Point::PackBeforeRename);
            let length = open.draft.publish(&packs.join(name.to_string()))?;
            point(Point::PackAfterRename);
            Ok(length)
        };
        seal(self).map_err(|error: io::Error| Error::at(packs, error))
    }
}
