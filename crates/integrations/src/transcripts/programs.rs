//! The programs whose conversations can be adopted: their names, and where they keep their data.

use std::env;
use std::path::{Path, PathBuf};

use segno_agents::transcript::TranscriptFormat;
use segno_core::transcript::TranscriptSource;

use crate::hooks::Agent;

/// The name on the command line.
pub fn word(source: TranscriptSource) -> &'static str {
    match source {
        TranscriptSource::ClaudeCode => "claude",
        other => other.as_str(),
    }
}

/// Parses the name of the command line.
pub fn parse(text: &str) -> Option<TranscriptSource> {
    let mut all = TranscriptSource::ALL.iter().copied();
    all.find(|source| word(*source) == text)
}

/// The name in messages.
pub fn name(source: TranscriptSource) -> &'static str {
    match source {
        TranscriptSource::ClaudeCode => "Claude Code",
        TranscriptSource::Codex => "Codex",
        TranscriptSource::Gemini => "Gemini",
        TranscriptSource::OpenCode => "opencode",
    }
}

/// The folder in which the program keeps its data, if the environment defines one.
pub fn root(source: TranscriptSource) -> Option<PathBuf> {
    let set = |name: &str| {
        let value = env::var_os(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from).filter(|path| path.is_absolute())
    };
    let below_home = |path: &str| Some(set("HOME")?.join(path));
    match source {
        TranscriptSource::ClaudeCode => Agent::Claude.root(),
        TranscriptSource::Codex => Agent::Codex.root(),
        TranscriptSource::Gemini => {
            let home = set("GEMINI_CLI_HOME").or_else(|| set("HOME"));
            Some(home?.join(".gemini"))
        }
        TranscriptSource::OpenCode => {
            let data = set("XDG_DATA_HOME").map(|data| data.join("opencode"));
            data.or_else(|| below_home(".local/share/opencode"))
        }
    }
}

/// Whether `path` is where the program keeps a transcript below `root`.
pub fn is_transcript(source: TranscriptSource, root: &Path, path: &Path) -> bool {
    let native = match source {
        TranscriptSource::ClaudeCode => TranscriptFormat::ClaudeCode,
        TranscriptSource::Codex => TranscriptFormat::Codex,
        TranscriptSource::Gemini => {
            return segno_agents::transcript::is_gemini_transcript(root, path);
        }
        // They are rows of a database.
        TranscriptSource::OpenCode => return false,
    };
    native.session_at(root, path).is_some()
}
