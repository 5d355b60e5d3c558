//! The paths of Claude Code's transcripts, and the fields of their records that hold a folder or
//! the session id.

use std::io;
use std::path::{Path, PathBuf};

use crate::transcript::{Field, FieldPath, List, list_entries};

/// `projects/-home-user-project/<session>.jsonl`.
///
/// Claude Code keeps a folder with a very long name under a shorter name that only it knows. Segno
/// finds such a transcript by its id; the agent resumes it by its id from anywhere.
pub(crate) fn transcript_path(root: &Path, cwd: &str, session: &str) -> PathBuf {
    root.join("projects")
        .join(project_folder(cwd))
        .join(format!("{session}.jsonl"))
}

/// Every character but ASCII letters and digits becomes one dash per UTF-16 code unit.
fn project_folder(cwd: &str) -> String {
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
    for project in list_entries(list, &root.join("projects"))? {
        let files = list_entries(list, &project)?;
        found.extend(files.into_iter().filter(|file| file.ends_with(&name)));
    }
    Ok(found)
}

/// `projects/-home-user-project/<session>/subagents`.
pub(crate) fn sub_agent_folder(transcript: &Path) -> PathBuf {
    transcript.with_extension("").join("subagents")
}

pub(crate) fn sub_agents(transcript: &Path, list: List<'_>) -> io::Result<Vec<PathBuf>> {
    let mut files = list_entries(list, &sub_agent_folder(transcript))?;
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

pub(crate) fn field_paths() -> Vec<FieldPath> {
    vec![(&["cwd"], Field::Folder), (&["sessionId"], Field::Session)]
}
