//! The paths of transcripts.

use std::io;
use std::path::{Component, Path, PathBuf};

use segno_core::time::Timestamp;

use super::TranscriptFormat;
use super::{claude_code, codex};

/// Not a session id. Session ids are UUIDs; nothing else becomes part of a path or an argument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a session id: expected a UUID")]
pub struct NotAnId(String);

/// Lists a folder; returns an empty list if it does not exist.
pub type List<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<PathBuf>>;

impl TranscriptFormat {
    /// The path of a session that began in `cwd` at this time. `root` is the value of
    /// `CLAUDE_CONFIG_DIR` (else `~/.claude`) or `CODEX_HOME` (else `~/.codex`).
    pub fn path_for(
        self,
        root: &Path,
        cwd: &str,
        session: &str,
        when: Timestamp,
    ) -> Result<PathBuf, NotAnId> {
        check_id(session)?;
        Ok(match self {
            Self::ClaudeCode => claude_code::transcript_path(root, cwd, session),
            Self::Codex => codex::transcript_path(root, session, when),
        })
    }

    /// The transcripts of a session, wherever below `root` they are.
    pub fn find(self, root: &Path, session: &str, list: List<'_>) -> io::Result<Vec<PathBuf>> {
        if let Err(error) = check_id(session) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        let mut found = match self {
            Self::ClaudeCode => claude_code::find(root, session, list),
            Self::Codex => codex::find(root, session, list),
        }?;
        found.sort();
        Ok(found)
    }

    /// The session whose transcript the agent keeps at `path`; `None` if it keeps none there. This
    /// reads only the path, not the file.
    pub fn session_at<'a>(self, root: &Path, path: &'a Path) -> Option<&'a str> {
        let mut folders = path.strip_prefix(root).ok()?.components();
        let mut next = || match folders.next() {
            Some(Component::Normal(name)) => name.to_str(),
            _ => None,
        };
        let (first, depth) = match self {
            Self::ClaudeCode => ("projects", 1),
            Self::Codex => ("sessions", 3),
        };
        if next() != Some(first) || (0..depth).any(|_| next().is_none()) {
            return None;
        }
        let name = next()?.strip_suffix(".jsonl")?;
        if folders.next().is_some() {
            return None;
        }
        let id = match self {
            Self::ClaudeCode => name,
            Self::Codex => {
                let start = name.len().checked_sub(ID)?;
                name.strip_prefix("rollout-")?;
                name.get(start..)?
            }
        };
        check_id(id).is_ok().then_some(id)
    }

    /// The folder in which the agent keeps the transcripts of a session's sub-agents; `None` if it
    /// does not keep them in files of their own.
    pub fn sub_agent_folder(self, transcript: &Path) -> Option<PathBuf> {
        match self {
            Self::ClaudeCode => Some(claude_code::sub_agent_folder(transcript)),
            Self::Codex => None,
        }
    }

    /// The transcripts of a session's sub-agents, which Claude Code keeps beside the session's own.
    pub fn sub_agents(self, transcript: &Path, list: List<'_>) -> io::Result<Vec<PathBuf>> {
        match self {
            Self::ClaudeCode => claude_code::sub_agents(transcript, list),
            Self::Codex => Ok(Vec::new()),
        }
    }
}

/// The length of a session id.
const ID: usize = 36;

/// Checks that `id` is a session id.
pub(crate) fn check_id(id: &str) -> Result<(), NotAnId> {
    let groups = id.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    let digits = id
        .bytes()
        .all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    if groups && digits {
        Ok(())
    } else {
        Err(NotAnId(id.chars().take(80).collect()))
    }
}

/// The entries of a folder; empty if it is a file or does not exist.
pub(crate) fn list_entries(list: List<'_>, folder: &Path) -> io::Result<Vec<PathBuf>> {
    match list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_id_follows_from_the_path() {
        let id = "5e550000-0000-4000-8000-000000000001";
        let root = Path::new("/home/me/.agent");
        let claude = |path: &str| {
            let path = PathBuf::from(path.replace("ID", id));
            TranscriptFormat::ClaudeCode
                .session_at(root, &path)
                .map(str::to_owned)
        };
        assert_eq!(
            claude("/home/me/.agent/projects/-a-b/ID.jsonl").as_deref(),
            Some(id)
        );
        for path in [
            "projects/-a-b/ID.jsonl",
            "/home/me/.agent/projects/ID.jsonl",
            "/home/me/.agent/projects/-a/../ID.jsonl",
            "/home/me/.agent/projects/-a/ID/subagents/agent-1.jsonl",
            "/home/me/.agent/projects/-a/ID.json",
            "/home/me/.agent/projects/-a/xID.jsonl",
            "/home/me/.agents/projects/-a/ID.jsonl",
            "/etc/passwd",
        ] {
            assert_eq!(claude(path), None, "{path}");
        }
        let codex = |path: &str| {
            let path = PathBuf::from(path.replace("ID", id));
            TranscriptFormat::Codex
                .session_at(root, &path)
                .map(str::to_owned)
        };
        let day = "/home/me/.agent/sessions/2026/11/15";
        let found = codex(&format!("{day}/rollout-2026-11-15T07-14-43-ID.jsonl"));
        assert_eq!(found.as_deref(), Some(id));
        assert_eq!(codex(&format!("{day}/ID.jsonl")), None);
        assert_eq!(codex(&format!("{day}/rollout-é.jsonl")), None);
        assert_eq!(codex("/home/me/.agent/sessions/rollout-x-ID.jsonl"), None);
    }
}
