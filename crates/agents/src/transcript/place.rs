//! Where agents keep their transcripts.

use std::io;
use std::path::{Path, PathBuf};

use segno_core::time::Timestamp;

use super::Native;
use crate::{claude_code, codex};

/// Not the id of a session: those are UUIDs, and nothing else becomes part of a path or an argument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the id of a session: expected a UUID")]
pub struct NotAnId(String);

/// Lists a folder; an empty list if it is not there.
pub type List<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<PathBuf>>;

impl Native {
    /// Where the agent would keep a session that was begun in `cwd` at this moment. `root` is what
    /// `CLAUDE_CONFIG_DIR` (else `~/.claude`) or `CODEX_HOME` (else `~/.codex`) says.
    pub fn place(
        self,
        root: &Path,
        cwd: &str,
        session: &str,
        when: Timestamp,
    ) -> Result<PathBuf, NotAnId> {
        check(session)?;
        Ok(match self {
            Self::ClaudeCode => claude_code::transcript::place(root, cwd, session),
            Self::Codex => codex::transcript::place(root, session, when),
        })
    }

    /// The transcripts of a session, wherever below `root` they are.
    pub fn find(self, root: &Path, session: &str, list: List<'_>) -> io::Result<Vec<PathBuf>> {
        if let Err(error) = check(session) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        let mut found = match self {
            Self::ClaudeCode => claude_code::transcript::find(root, session, list),
            Self::Codex => codex::transcript::find(root, session, list),
        }?;
        found.sort();
        Ok(found)
    }

    /// The transcripts of a session's sub-agents, which Claude Code keeps beside its own.
    pub fn sub_agents(self, transcript: &Path, list: List<'_>) -> io::Result<Vec<PathBuf>> {
        match self {
            Self::ClaudeCode => claude_code::transcript::sub_agents(transcript, list),
            Self::Codex => Ok(Vec::new()),
        }
    }
}

/// Whether this is the id of a session.
pub(crate) fn check(id: &str) -> Result<(), NotAnId> {
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

/// The entries of a folder; none if it is a file.
pub(crate) fn entries(list: List<'_>, folder: &Path) -> io::Result<Vec<PathBuf>> {
    match list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}
