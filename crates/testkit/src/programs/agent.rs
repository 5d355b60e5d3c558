//! The two CLI agents, with one interface.

use std::path::PathBuf;

use serde_json::Value;

use super::{AgentSandbox, Running};

/// A CLI agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    Claude,
    Codex,
}

impl Agent {
    pub const ALL: [Self; 2] = [Self::Claude, Self::Codex];

    /// The id that Claude Code is told to use for its session. Codex chooses its ids itself.
    pub const SESSION: &str = "5e550000-0000-4000-8000-000000000001";

    pub fn start(self, stage: &AgentSandbox, prompt: &str) -> Running {
        Running::new(match self {
            Self::Claude => stage.claude(prompt, &["--session-id", Self::SESSION]),
            Self::Codex => stage.codex(prompt, &[]),
        })
    }

    /// Resumes a session with the agent's own option.
    pub fn resume(self, stage: &AgentSandbox, session: &str, prompt: &str) -> Running {
        Running::new(match self {
            Self::Claude => stage.claude(prompt, &["--resume", session]),
            Self::Codex => stage.codex(prompt, &["resume", session]),
        })
    }

    /// The session id in a line, if there is one.
    pub fn session_id_in(self, line: &Value) -> Option<String> {
        let id = match self {
            Self::Claude => &line["session_id"],
            Self::Codex => &line["thread_id"],
        };
        id.as_str().map(str::to_owned)
    }

    /// The session id of a run.
    #[track_caller]
    pub fn session(self, lines: &[Value]) -> String {
        let named = lines.iter().find_map(|line| self.session_id_in(line));
        named.unwrap_or_else(|| panic!("{self:?} reported no session id: {lines:#?}"))
    }

    /// The path of the transcript of a session.
    pub fn transcript_path(self, stage: &AgentSandbox, session: &str) -> Option<PathBuf> {
        match self {
            Self::Claude => stage.transcript(session),
            Self::Codex => stage.rollout(session),
        }
    }

    /// The content of the transcript of a session; empty if there is none yet.
    pub fn read_transcript(self, stage: &AgentSandbox, session: &str) -> String {
        let path = self.transcript_path(stage, session);
        let bytes = path.and_then(|path| std::fs::read(path).ok());
        String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
    }
}
