//! Reads, examines, repairs, moves and writes the transcripts that CLI agents keep.
//!
//! [`TranscriptFormat`] says whose transcript it is; [`claude_code`] and [`codex`] know what its
//! records mean. Transcripts come from outside and may be torn, wrong or huge: everything
//! here reads line by line, holds one line at a time (at most [`Limits::line`] bytes of it), never
//! guesses, and reports every line that it could not read (P9, P10).
//!
//! The caller opens and creates the files.

pub(crate) mod claude_code;
mod codex;
mod damage;
mod folder;
mod gemini;
mod json;
mod lines;
pub mod opencode;
mod paths;
mod reader;
mod relocate;
mod repair;
mod report;
mod spans;
mod uuid;
mod version;
mod write;

pub use damage::{Damage, Reason, Span};
pub use folder::TranscriptFolder;
pub use gemini::is_transcript as is_gemini_transcript;
pub use paths::{List, NotAnId};
pub use reader::{Item, Reader};
pub use relocate::{Relocated, Relocation};
pub use repair::{Closed, Repair};
pub use report::{BranchStatus, Report};
pub use version::VersionSupport;
pub use write::{Target, Written};

pub(crate) use json::{Object, parse, text};
pub(crate) use lines::{Content, Found, Lines};
pub(crate) use paths::list_entries;
pub(crate) use relocate::{Field, FieldPath};
pub(crate) use repair::{Closing, Repairer};
pub(crate) use uuid::uuid;
pub(crate) use version::{Adapter, ParsedRecord};
pub(crate) use write::{TimedTurn, ToolCallFormat};

use std::io::{self, Read, Seek};

use segno_core::cli_agent::CliAgentKind;
use segno_core::conversation::{self, ConversationItem};
use serde::{Deserialize, Serialize};

/// The CLI agent that wrote a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TranscriptFormat {
    /// `~/.claude/projects/<folder>/<session>.jsonl`, or a sub-agent's file beside it.
    ClaudeCode,
    /// `CODEX_HOME/sessions/<date>/rollout-<time>-<thread>.jsonl`.
    Codex,
}

/// How much is held in memory at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest line that is parsed, in bytes. A longer one is reported and kept as it is.
    pub line: usize,
    /// Up to how many linked records branches are followed, at about 40 bytes each.
    pub records: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line: 16 << 20,
            records: 1 << 20,
        }
    }
}

impl TranscriptFormat {
    /// `None` if Segno cannot read the program's transcripts.
    pub fn for_program(program: CliAgentKind) -> Option<Self> {
        match program {
            CliAgentKind::ClaudeCode => Some(Self::ClaudeCode),
            CliAgentKind::Codex => Some(Self::Codex),
            CliAgentKind::Acp => None,
        }
    }

    pub fn program(self) -> CliAgentKind {
        match self {
            Self::ClaudeCode => CliAgentKind::ClaudeCode,
            Self::Codex => CliAgentKind::Codex,
        }
    }

    /// Its name in stored data.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude_code",
            Self::Codex => "codex",
        }
    }

    /// Reads a transcript from its beginning, entry by entry. Claude Code's are read twice, since
    /// only the end of the file determines the current branch.
    pub fn read<R: Read + Seek>(self, source: R) -> io::Result<Reader<R>> {
        self.read_within(source, Limits::default())
    }

    pub fn read_within<R: Read + Seek>(self, source: R, limits: Limits) -> io::Result<Reader<R>> {
        Reader::new(self, source, limits)
    }

    /// The newest contents of a transcript whose items are recognized by their content; `None` if a
    /// line cannot be read that may hold some, and for transcripts whose items have known ids.
    pub fn contents<R: Read + Seek>(
        self,
        source: R,
    ) -> io::Result<Option<Vec<conversation::contents::Content>>> {
        match self {
            Self::ClaudeCode => Ok(None),
            Self::Codex => codex::read_contents(source, Limits::default()),
        }
    }

    /// The contents of items that the program reported, to compare with those of a transcript.
    pub fn reported_contents(
        self,
        items: &[ConversationItem],
    ) -> Vec<Option<conversation::contents::Content>> {
        match self {
            Self::ClaudeCode => vec![None; items.len()],
            Self::Codex => codex::reported_contents(items),
        }
    }

    pub(crate) fn adapters(self) -> &'static [Adapter] {
        match self {
            Self::ClaudeCode => claude_code::ADAPTERS,
            Self::Codex => codex::ADAPTERS,
        }
    }
}

/// What a transcript says about its session, apart from the conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The session or thread id of the first record.
    pub session: Option<String>,
    /// The folder in which the session began.
    pub cwd: Option<String>,
    /// The version of the program that wrote last.
    pub version: Option<String>,
    /// The model that was used last.
    pub model: Option<String>,
    /// The last reported git branch.
    pub git_branch: Option<String>,
    /// The newest message, of programs that write a message again when it has grown.
    #[serde(skip)]
    pub(crate) growing: Option<GrowingMessage>,
}

/// What was read of a message that may grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GrowingMessage {
    pub(crate) id: String,
    /// The number of its tool calls.
    pub(crate) calls: usize,
}
