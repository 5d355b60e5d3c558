//! Writes a session export.

use serde::Serialize;

use super::{Error, Header, LONGEST, LONGEST_LINE, RecordLine, TextLine, Trailer};
use crate::digest::Digest;
use crate::journal::Record;

/// Long texts are split into pieces of at most this many bytes, so that no line is too long.
pub(super) const PIECE: usize = 1024 * 1024;

/// Writes a file: the header, then records, then texts, then the trailer.
pub struct Writer {
    out: Vec<u8>,
    records: u64,
    blobs: u64,
}

impl Writer {
    /// Starts a file with its header.
    pub fn new(header: &Header) -> Result<Self, Error> {
        let mut writer = Self {
            out: Vec::new(),
            records: 0,
            blobs: 0,
        };
        writer.line(header)?;
        Ok(writer)
    }

    /// Adds the next record.
    pub fn record(&mut self, record: &Record) -> Result<(), Error> {
        self.records += 1;
        self.line(&RecordLine {
            record: record.seq,
            run: record.run,
            at: record.at,
            version: record.version,
            kind: record.kind.clone(),
            path: record.path.clone(),
            revision: record.revision,
            body: record.body.as_str().into(),
            hash: record.hash,
        })
    }

    /// Adds a text.
    pub fn text(&mut self, digest: Digest, text: &str) -> Result<(), Error> {
        self.blobs += 1;
        let pieces = pieces(text);
        for (index, piece) in pieces.iter().enumerate() {
            self.line(&TextLine {
                blob: digest,
                piece: index + 1,
                of: pieces.len(),
                text: (*piece).into(),
            })?;
        }
        Ok(())
    }

    /// Writes the trailer and returns the file's bytes.
    pub fn finish(mut self) -> Result<Vec<u8>, Error> {
        let trailer = Trailer {
            records: self.records,
            blobs: self.blobs,
            bytes: self.out.len() as u64,
            digest: Digest::of(&self.out),
        };
        self.line(&trailer)?;
        Ok(self.out)
    }

    fn line(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let before = self.out.len();
        serde_json::to_writer(&mut self.out, value).expect("lines serialize to JSON");
        self.out.push(b'\n');
        if self.out.len() as u64 > LONGEST || self.out.len() - before > LONGEST_LINE {
            return Err(Error::TooLong);
        }
        Ok(())
    }
}

/// Splits a text into pieces at character boundaries; one piece if it is empty.
fn pieces(mut text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while text.len() > PIECE {
        let (piece, rest) = text.split_at(text.floor_char_boundary(PIECE));
        pieces.push(piece);
        text = rest;
    }
    pieces.push(text);
    pieces
}
