//! The export file of a session: every record as it is stored, the long texts that the records refer to,
//! and a trailer with counts and a digest over everything before it.
//!
//! The file consists of lines of JSON, so that users can read it; `docs/formats/export.md` describes
//! them. The reader verifies everything before it returns anything (P9): the digest, the hash chain,
//! every text, and that each event may follow the events before it.

mod reader;
mod writer;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use reader::{Bundle, read};
pub use writer::Writer;

use crate::digest::Digest;
use crate::id::{Name, SessionId};
use crate::journal::{Broken, Run, Seq};
use crate::state::IllegalEvent;
use crate::time::Timestamp;

/// The version of the export format.
pub const VERSION: u32 = 1;

/// The maximum size of a file that is written or read (P10).
pub const LONGEST: u64 = 1024 * 1024 * 1024;

/// The maximum length of a line.
const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// Why a file is not a valid session export.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file does not start like a session export.
    #[error("it is not an exported session")]
    Foreign,
    /// A newer program wrote the file.
    #[error("it has format {0}; this version of Segno reads formats up to {VERSION}")]
    Newer(u32),
    /// The trailer is missing.
    #[error("its end is missing: it was truncated or changed")]
    Truncated,
    /// The content does not match the digest.
    #[error("it was changed after it was written: its digest does not match")]
    Altered,
    /// The file is larger than [`LONGEST`].
    #[error("it has more than {LONGEST} bytes")]
    TooLong,
    /// A line cannot be parsed.
    #[error("line {line}: {reason}")]
    Line {
        /// The line number, from 1.
        line: usize,
        reason: String,
    },
    /// A record does not continue the journal.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// An event cannot follow the events before it.
    #[error(transparent)]
    Illegal(#[from] IllegalEvent),
    /// A text is missing, has the wrong length, or nothing refers to it.
    #[error("text {}: {reason}", .digest.short())]
    Text {
        digest: Digest,
        reason: &'static str,
    },
}

/// The first line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The format's version.
    pub segno_session: u32,
    pub session: SessionId,
    pub name: Name,
    /// Whether a run was active at export: then the session may have further events elsewhere.
    pub running: bool,
    /// The version of Segno that wrote the file.
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
