//! The two agents that are driven by their command line, in the same words.

use std::path::PathBuf;

use serde_json::Value;

use super::{Running, Stage};

/// An agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
}

impl Agent {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Claude, Self::Codex];

    /// The id that Claude Code is told to give to its session. Codex chooses its ids itself.
    pub const SESSION: &str = "5e550000-0000-4000-8000-000000000001";

    /// Starts a session.
    pub fn start(self, stage: &Stage, prompt: &str) -> Running {
        Running::new(match self {
            Self::Claude => stage.claude(prompt, &["--session-id", Self::SESSION]),
            Self::Codex => stage.codex(prompt, &[]),
        })
    }

    /// Goes on with a session, by the agent's own means.
    pub fn resume(self, stage: &Stage, session: &str, prompt: &str) -> Running {
        Running::new(match self {
            Self::Claude => stage.claude(prompt, &["--resume", session]),
            Self::Codex => stage.codex(prompt, &["resume", session]),
        })
    }

    /// The id of the session that a line names, if it does.
    pub fn named(self, line: &Value) -> Option<String> {
        let id = match self {
            Self::Claude => &line["session_id"],
            Self::Codex => &line["thread_id"],
        };
        id.as_str().map(str::to_owned)
    }

    /// The id of the session that a run was about.
    #[track_caller]
    pub fn session(self, lines: &[Value]) -> String {
        let named = lines.iter().find_map(|line| self.named(line));
        named.unwrap_or_else(|| panic!("{self:?} named no session: {lines:#?}"))
    }

    /// Where the agent keeps a session.
    pub fn record(self, stage: &Stage, session: &str) -> Option<PathBuf> {
        match self {
            Self::Claude => stage.transcript(session),
            Self::Codex => stage.rollout(session),
        }
    }

    /// What the agent has kept of a session; empty if there is nothing yet.
    pub fn kept(self, stage: &Stage, session: &str) -> String {
        let record = self.record(stage, session);
        let bytes = record.and_then(|path| std::fs::read(path).ok());
        String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
    }
}
