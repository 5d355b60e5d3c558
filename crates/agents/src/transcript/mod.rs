//! The transcripts that agents keep themselves: read, examined, repaired, moved and written.
//!
//! [`Native`] names whose transcript it is; what its records mean stands in `claude_code::transcript`
//! and `codex::transcript`. Transcripts come from outside and may be torn, wrong or huge: everything
//! here reads line by line, holds one line at a time (at most [`Limits::line`] bytes of it), never
//! guesses, and tells every line that it could not read (P9, P10).
//!
//! Files are opened and made by the caller.

mod damage;
mod json;
mod library;
mod lines;
mod moment;
mod place;
mod reader;
mod rehome;
mod repair;
mod report;
mod spans;
mod uuid;
mod version;
mod write;

pub use damage::{Damage, Reason, Span};
pub use library::Library;
pub use place::{List, NotAnId};
pub use reader::{Item, Reader};
pub use rehome::{Move, Moved};
pub use repair::{Closed, Repair};
pub use report::{Followed, Report};
pub use version::Adapted;
pub use write::{Target, Written};

pub(crate) use json::{Object, parse, text};
pub(crate) use lines::{Content, Found, Lines};
pub(crate) use moment::moment;
pub(crate) use place::entries;
pub(crate) use rehome::{Field, Way};
pub(crate) use repair::{Closing, Mend};
pub(crate) use uuid::uuid;
pub(crate) use version::{Adapter, Reading};
pub(crate) use write::{Dialect, Timed};

use std::io::{self, Read, Seek};

use segno_core::companion::Program;
use serde::{Deserialize, Serialize};

/// Whose transcript it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Native {
    /// `~/.claude/projects/<folder>/<session>.jsonl`, or a sub-agent's file beside it.
    ClaudeCode,
    /// `CODEX_HOME/sessions/<date>/rollout-<time>-<thread>.jsonl`.
    Codex,
}

/// How much is held at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest line that is looked into, in bytes. A longer one is told and left where it is.
    pub line: usize,
    /// In how many linked records branches are followed, at about 40 bytes each.
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

impl Native {
    /// That of a program; `None` if its transcripts are its own affair.
    pub fn of(program: Program) -> Option<Self> {
        match program {
            Program::ClaudeCode => Some(Self::ClaudeCode),
            Program::Codex => Some(Self::Codex),
            Program::Acp => None,
        }
    }

    /// The program that keeps it.
    pub fn program(self) -> Program {
        match self {
            Self::ClaudeCode => Program::ClaudeCode,
            Self::Codex => Program::Codex,
        }
    }

    /// Its name in what is kept.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude_code",
            Self::Codex => "codex",
        }
    }

    /// Reads a transcript from its beginning, entry by entry. Claude Code's are read twice, since
    /// only the end tells which branch is the current one.
    pub fn read<R: Read + Seek>(self, source: R) -> io::Result<Reader<R>> {
        self.read_within(source, Limits::default())
    }

    /// The same within other limits.
    pub fn read_within<R: Read + Seek>(self, source: R, limits: Limits) -> io::Result<Reader<R>> {
        Reader::new(self, source, limits)
    }

    pub(crate) fn adapters(self) -> &'static [Adapter] {
        match self {
            Self::ClaudeCode => crate::claude_code::transcript::ADAPTERS,
            Self::Codex => crate::codex::transcript::ADAPTERS,
        }
    }
}

/// What a transcript says about its session, apart from what was said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The session or thread, as its first record has it.
    pub session: Option<String>,
    /// The folder that it was begun in.
    pub cwd: Option<String>,
    /// The version of the program that wrote last.
    pub version: Option<String>,
    /// The model that was chosen last.
    pub model: Option<String>,
    /// The branch of the folder, as it was told last.
    pub git_branch: Option<String>,
}
