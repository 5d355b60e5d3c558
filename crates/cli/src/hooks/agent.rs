//! The programs that can be asked to tell.

use std::env;
use std::path::{Path, PathBuf};

use segno_agents::transcript::Native;
use segno_core::companion::Program;

/// A program that keeps transcripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Agent {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
}

impl Agent {
    pub(crate) const ALL: [Self; 2] = [Self::Claude, Self::Codex];

    /// What people type.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }

    /// What people read.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
        }
    }

    /// The agent of a word.
    pub(crate) fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.word() == word)
    }

    pub(crate) fn program(self) -> Program {
        match self {
            Self::Claude => Program::ClaudeCode,
            Self::Codex => Program::Codex,
        }
    }

    /// The variable that says where the program keeps everything.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Self::Claude => "CLAUDE_CONFIG_DIR",
            Self::Codex => "CODEX_HOME",
        }
    }

    /// Where the program keeps everything, if the person's environment tells.
    pub(crate) fn root(self) -> Option<PathBuf> {
        let set = |name: &str| {
            let value = env::var_os(name).filter(|value| !value.is_empty());
            value.map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let below = match self {
            Self::Claude => ".claude",
            Self::Codex => ".codex",
        };
        set(self.variable()).or_else(|| Some(set("HOME")?.join(below)))
    }

    /// The session whose transcript the program keeps at `path`, below `root`.
    pub(crate) fn session<'a>(self, root: &Path, path: &'a Path) -> Option<&'a str> {
        let native = match self {
            Self::Claude => Native::ClaudeCode,
            Self::Codex => Native::Codex,
        };
        native.session_at(root, path)
    }

    /// The file that hooks stand in, below that.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Claude => "settings.json",
            Self::Codex => "hooks.json",
        }
    }

    /// When the program is asked to tell: when a session begins, since one that is killed tells
    /// nothing later; after every turn; and when it ends. Not when a conversation is summed up:
    /// transcripts only grow by that.
    pub(crate) const EVENTS: [&str; 3] = ["SessionStart", "Stop", "SessionEnd"];
}
