//! The commit at HEAD, read from the files of a repository, without starting git.

use std::path::Path;

use crate::bounded_read;

use super::git_paths::{self, GitPaths};

/// The longest file of one ref, and of many.
const REF: u64 = 4 * 1024;
const PACKED: u64 = 64 * 1024 * 1024;

/// The commit at HEAD of the repository whose top is `folder`. `None` if it is not a repository,
/// has no commit, or stores its refs in an unknown format.
pub fn head(folder: &Path) -> Option<String> {
    let paths = git_paths::at(folder)?;
    let head = read(&paths.git_dir.join("HEAD"), REF)?;
    match head.strip_prefix("ref: ") {
        None => parse_commit_id(&head),
        Some(name) => loose(&paths, name.trim()).or_else(|| packed(&paths, name.trim())),
    }
}

fn loose(paths: &GitPaths, name: &str) -> Option<String> {
    // Git never writes a name that leads elsewhere.
    let is_plain = name.starts_with("refs/") && !name.split('/').any(|part| part == "..");
    let file = is_plain.then(|| paths.common.join(name))?;
    parse_commit_id(&read(&file, REF)?)
}

/// Lines of a commit and a name.
fn packed(paths: &GitPaths, name: &str) -> Option<String> {
    let refs = read(&paths.common.join("packed-refs"), PACKED)?;
    let mut lines = refs.lines().filter_map(|line| line.split_once(' '));
    lines.find_map(|(id, of)| (of == name).then(|| parse_commit_id(id))?)
}

fn read(path: &Path, limit: u64) -> Option<String> {
    String::from_utf8(bounded_read::read(path, limit).ok()?).ok()
}

/// Accepts a commit id and nothing else, because other text could be taken for an option.
pub(super) fn parse_commit_id(text: &str) -> Option<String> {
    let text = text.trim();
    let is_id = [40, 64].contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| text.to_owned())
}
