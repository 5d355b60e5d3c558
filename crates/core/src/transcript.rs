//! The contract for reading transcripts that CLI agents leave behind.
//!
//! A transcript is untrusted input: it may be truncated, malformed or huge, and another process may be
//! writing it. A reader holds one portion of it at a time (P10), reports what could not be parsed, and
//! reads the file up to the length that it had when it was opened.

use std::path::PathBuf;

use crate::agent::Error;
use crate::cli_agent::CliAgentKind;
use crate::conversation::ConversationItem;
use crate::digest::Digest;
use crate::ports::Boxed;

/// Finds and reads the transcripts of one CLI agent. Read-only.
pub trait Transcripts: Send + Sync {
    fn program(&self) -> CliAgentKind;

    /// All transcripts in the CLI agent's home, or all below `folder`, sorted by path. Transcripts of
    /// sub-agents belong to their parent's transcript and are excluded.
    fn list(&self, folder: Option<PathBuf>) -> Boxed<'_, Result<Vec<PathBuf>, Error>>;

    /// The path of a conversation's transcript, if it exists.
    fn find<'a>(&'a self, id: &'a str) -> Boxed<'a, Result<Option<PathBuf>, Error>>;

    /// Opens a transcript from its beginning. Bytes that are appended later are not read.
    fn open(&self, path: PathBuf) -> Boxed<'_, Result<Box<dyn Transcript>, Error>>;
}

/// A transcript that is being read.
pub trait Transcript: Send {
    /// The transcript's metadata.
    fn info(&self) -> &TranscriptInfo;

    /// The next portion; `None` after the last.
    fn next(&mut self) -> Boxed<'_, Result<Option<Portion>, Error>>;

    /// The digest of the first `bytes` bytes. May be called again with the same or a larger number.
    fn digest(&mut self, bytes: u64) -> Boxed<'_, Result<Digest, Error>>;
}

/// A transcript's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptInfo {
    pub path: PathBuf,
    /// The file's length in bytes when it was opened.
    pub length: u64,
    /// The CLI agent's own id of the conversation, if the file or its name contains one.
    pub id: Option<String>,
    /// The working directory of the conversation.
    pub folder: Option<String>,
    /// The first user message, or its beginning; `None` if there is none.
    pub prompt: Option<String>,
    /// Whether the transcript contains any message.
    pub has_messages: bool,
}

/// A part of a transcript.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Portion {
    /// The messages, each with the offset of its line in the file.
    pub items: Vec<(u64, ConversationItem)>,
    /// What could not be parsed, as text, each with the offset of its line.
    pub damage: Vec<(u64, String)>,
    /// How many bytes of the file were read up to here, without an incomplete last line.
    pub bytes: u64,
}
