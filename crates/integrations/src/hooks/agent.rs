//! The CLI agents that hooks and `segno agents watch` support.

use std::env;
use std::path::{Path, PathBuf};

use segno_agents::transcript::TranscriptFormat;
use segno_core::transcript::TranscriptSource;

/// A CLI agent that stores transcripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
}

impl Agent {
    pub const ALL: [Self; 2] = [Self::Claude, Self::Codex];

    /// The name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }

    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
        }
    }

    /// Parses the name of the command line.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.word() == word)
    }

    /// The program that writes its transcripts.
    pub fn source(self) -> TranscriptSource {
        match self {
            Self::Claude => TranscriptSource::ClaudeCode,
            Self::Codex => TranscriptSource::Codex,
        }
    }

    /// The agent that writes transcripts of this program, if it has hooks.
    pub fn of(source: TranscriptSource) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.source() == source)
    }

    /// The environment variable with the folder in which the agent stores its data.
    pub fn variable(self) -> &'static str {
        match self {
            Self::Claude => "CLAUDE_CONFIG_DIR",
            Self::Codex => "CODEX_HOME",
        }
    }

    /// The folder in which the agent stores its data, if the environment defines one.
    pub fn root(self) -> Option<PathBuf> {
        let set = |name: &str| {
            let value = env::var_os(name).filter(|value| !value.is_empty());
            value.map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let default = match self {
            Self::Claude => ".claude",
            Self::Codex => ".codex",
        };
        set(self.variable()).or_else(|| Some(set("HOME")?.join(default)))
    }

    /// The session id, if `path` is where the agent stores a transcript below `root`.
    pub fn session<'a>(self, root: &Path, path: &'a Path) -> Option<&'a str> {
        let native = match self {
            Self::Claude => TranscriptFormat::ClaudeCode,
            Self::Codex => TranscriptFormat::Codex,
        };
        native.session_at(root, path)
    }

    /// The settings file with the hooks, relative to `root`.
    pub fn settings_file(self) -> &'static str {
        match self {
            Self::Claude => "settings.json",
            Self::Codex => "hooks.json",
        }
    }

    /// The events that hooks are installed for: the start of a session, because a killed session
    /// reports nothing later; the end of every turn; the end of a session. Not compaction, because
    /// it only appends to the transcript.
    pub const EVENTS: [&str; 3] = ["SessionStart", "Stop", "SessionEnd"];
}
