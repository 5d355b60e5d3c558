//! Where Gemini keeps its transcripts.
#![expect(
    clippy::disallowed_methods,
    reason = "Gemini's folders are outside of Segno's home, and are only read"
)]

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::transcript::paths::check_id;
use crate::transcript::{List, list_entries, parse, text};

/// The folder with a folder for each project, in Gemini's home.
pub(crate) const PROJECTS: &str = "tmp";

/// The file with the folder of a project.
const PROJECT_ROOT: &str = ".project_root";

/// The longest first line, and the longest path of a project, that is read.
const MAX_BYTES: u64 = 64 << 10;

/// Whether a file has the name of a conversation with the user. Those of sub-agents are named after
/// their id only.
pub(crate) fn has_name(name: &str) -> bool {
    let stem = name.strip_suffix(".jsonl");
    stem.is_some_and(|stem| stem.starts_with("session-"))
}

/// Whether Gemini keeps the transcript of a conversation with the user at this path. This reads only
/// the path.
pub fn is_transcript(home: &Path, path: &Path) -> bool {
    let Ok(below) = path.strip_prefix(home.join(PROJECTS)) else {
        return false;
    };
    let names: Vec<_> = below
        .components()
        .map(|name| name.as_os_str().to_str())
        .collect();
    matches!(names[..], [Some(_), Some("chats"), Some(name)] if has_name(name))
}

/// The transcripts of a conversation. A file has only the beginning of the id in its name.
pub(crate) fn find(home: &Path, id: &str, list: List<'_>) -> io::Result<Vec<PathBuf>> {
    if let Err(error) = check_id(id) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    }
    let end = format!("-{}.jsonl", &id[..8]);
    let mut found = Vec::new();
    for project in list_entries(list, &home.join(PROJECTS))? {
        for file in list_entries(list, &project.join("chats"))? {
            let name = file.file_name().and_then(|name| name.to_str());
            let is_named = name.is_some_and(|name| has_name(name) && name.ends_with(&end));
            if is_named && session_of(&file).is_some_and(|of| of.eq_ignore_ascii_case(id)) {
                found.push(file);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The session that the first line of a file names.
fn session_of(file: &Path) -> Option<String> {
    let file = open(file)?;
    let mut line = Vec::new();
    let mut first = BufReader::new(file.take(MAX_BYTES));
    first.read_until(b'\n', &mut line).ok()?;
    text(&parse(&line).ok()?, "sessionId").map(str::to_owned)
}

/// The folder of the project that a transcript belongs to.
pub(crate) fn project_root(transcript: &Path) -> Option<String> {
    let project = transcript.parent()?.parent()?;
    let mut root = String::new();
    let file = open(&project.join(PROJECT_ROOT))?;
    file.take(MAX_BYTES).read_to_string(&mut root).ok()?;
    let root = root.trim();
    Path::new(root).is_absolute().then(|| root.to_owned())
}

/// Opens a regular file.
fn open(path: &Path) -> Option<File> {
    let is_file = path.symlink_metadata().ok()?.is_file();
    is_file.then(|| File::open(path).ok())?
}
