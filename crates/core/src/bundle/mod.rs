//! A session as one file: every record as it is stored, the long texts that they refer to, and at
//! the end how much there was and a digest over everything before.
//!
//! Lines of JSON, so that it can be looked at; `docs/formats/export.md` describes them. Reading
//! verifies everything there is to verify before anything is handed out (P9): the digest, the
//! chain, every text, and that the entries make sense one after the other.

mod reader;
mod writer;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use reader::{Bundle, read};
pub use writer::Writer;

use crate::digest::Digest;
use crate::id::{Name, SessionId};
use crate::journal::{Broken, Run, Seq};
use crate::state::Illegal;
use crate::time::Timestamp;

/// The version of the format.
pub const VERSION: u32 = 1;

/// The longest file that is written or read (P10).
pub const LONGEST: u64 = 1024 * 1024 * 1024;

/// The longest line.
const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// Why a file is not a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It does not begin like one.
    #[error("it is not an exported session")]
    Foreign,
    /// It was written by a newer program.
    #[error("it has format {0}, and this program knows formats up to {VERSION}")]
    Newer(u32),
    /// Its end is missing.
    #[error("its end is missing: it was cut short or changed")]
    Cut,
    /// It is not what was written.
    #[error("it was changed after it was written: its digest does not match")]
    Altered,
    /// It is longer than any that is read.
    #[error("it has more than {LONGEST} bytes")]
    TooLong,
    /// A line cannot be read.
    #[error("line {line}: {reason}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A record does not continue the journal.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// An entry cannot follow what came before it.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// A text is missing, of the wrong length, or not asked for.
    #[error("text {}: {reason}", .digest.short())]
    Text {
        /// Which.
        digest: Digest,
        /// What is wrong.
        reason: &'static str,
    },
}

/// What stands in the first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The format's version.
    pub segno_session: u32,
    /// The session.
    pub session: SessionId,
    /// What it is called.
    pub name: Name,
    /// Whether it was being run: then there may be more of it elsewhere.
    pub running: bool,
    /// The program that wrote the file.
    pub version: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordLine<'a> {
    record: Seq,
    run: Run,
    at: Timestamp,
    version: u16,
    kind: String,
    path: Option<String>,
    revision: u32,
    body: Cow<'a, str>,
    hash: Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TextLine<'a> {
    blob: Digest,
    piece: usize,
    of: usize,
    text: Cow<'a, str>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trailer {
    records: u64,
    blobs: u64,
    bytes: u64,
    digest: Digest,
}
