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
use crate::time::Timestamp;
use crate::words::words;

words! {
    /// The program that wrote a transcript.
    TranscriptSource {
        #[serde(rename = "claude-code")]
        ClaudeCode = "claude-code",
        Codex = "codex",
        Gemini = "gemini",
        #[serde(rename = "opencode")]
        OpenCode = "opencode",
    }
}

impl TranscriptSource {
    /// The CLI agent that continues a conversation of this program.
    pub fn program(self) -> CliAgentKind {
        match self {
            Self::ClaudeCode => CliAgentKind::ClaudeCode,
            Self::Codex => CliAgentKind::Codex,
            Self::Gemini | Self::OpenCode => CliAgentKind::Acp,
        }
    }

    /// The command that continues it, if that is a program that speaks ACP.
    pub fn acp_command(self) -> Option<[&'static str; 2]> {
        match self {
            Self::ClaudeCode | Self::Codex => None,
            Self::Gemini => Some(["gemini", "--acp"]),
            Self::OpenCode => Some(["opencode", "acp"]),
        }
    }

    /// Whether the program can continue a conversation that an earlier process of it had. Gemini
    /// loads none over ACP.
    pub fn loads_conversations(self) -> bool {
        self != Self::Gemini
    }

    /// Whether the program only appends to its transcripts. Others change what they have written.
    pub fn is_append_only(self) -> bool {
        matches!(self, Self::ClaudeCode | Self::Codex)
    }
}

/// Finds and reads the transcripts of one program. Read-only.
pub trait Transcripts: Send + Sync {
    fn source(&self) -> TranscriptSource;

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
    /// The name of the transcript. In a database, the id of the conversation below its path.
    pub path: PathBuf,
    /// The file with its content: the transcript itself, or what was read from the database, for as
    /// long as the transcript is open.
    pub content: PathBuf,
    /// The content's length in bytes when it was opened.
    pub length: u64,
    /// The first timestamp, up to the first user message.
    pub started_at: Option<Timestamp>,
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
