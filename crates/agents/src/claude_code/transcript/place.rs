//! Where Claude Code keeps its transcripts, and which of their fields say where it works.

use std::io;
use std::path::{Path, PathBuf};

use crate::transcript::{Field, List, Way, entries};

/// `projects/-home-user-project/<session>.jsonl`.
///
/// A folder with a very long name is kept under a shorter one that only the program knows; such a
/// transcript is found by its id, and resumed by it from anywhere.
pub(crate) fn place(root: &Path, cwd: &str, session: &str) -> PathBuf {
    root.join("projects")
        .join(folder(cwd))
        .join(format!("{session}.jsonl"))
}

/// Everything but letters and digits of ASCII becomes a dash, as JavaScript counts characters.
fn folder(cwd: &str) -> String {
    let units = cwd.chars().flat_map(|character| {
        let plain = character.is_ascii_alphanumeric();
        let sign = if plain { character } else { '-' };
        std::iter::repeat_n(sign, character.len_utf16())
    });
    units.collect()
}

pub(crate) fn find(root: &Path, session: &str, list: List<'_>) -> io::Result<Vec<PathBuf>> {
    let name = format!("{session}.jsonl");
    let mut found = Vec::new();
    for project in entries(list, &root.join("projects"))? {
        let files = entries(list, &project)?;
        found.extend(files.into_iter().filter(|file| file.ends_with(&name)));
    }
    Ok(found)
}

/// `projects/-home-user-project/<session>/subagents`.
pub(crate) fn below(transcript: &Path) -> PathBuf {
    transcript.with_extension("").join("subagents")
}

pub(crate) fn sub_agents(transcript: &Path, list: List<'_>) -> io::Result<Vec<PathBuf>> {
    let mut files = entries(list, &below(transcript))?;
    files.retain(|file| {
        let name = file
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let jsonl = Path::new(name)
            .extension()
            .is_some_and(|end| end == "jsonl");
        name.starts_with("agent-") && jsonl
    });
    files.sort();
    Ok(files)
}

pub(crate) fn ways() -> Vec<Way> {
    vec![(&["cwd"], Field::Folder), (&["sessionId"], Field::Session)]
}
