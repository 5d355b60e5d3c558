//! The commit that a repository stands at, read from its files: for those who want to know before
//! anything else happens, and not wait for a program.

use std::path::Path;

use crate::scope::peek;

use super::place::{self, Place};

/// The longest file of one ref, and of many.
const REF: u64 = 4 * 1024;
const PACKED: u64 = 64 * 1024 * 1024;

/// The commit that the repository stands at whose top is `folder`. None if it is no repository, has no
/// commit, or keeps its refs in a way that is not known here.
pub fn head(folder: &Path) -> Option<String> {
    let place = place::at(folder)?;
    let head = read(&place.git_dir.join("HEAD"), REF)?;
    match head.strip_prefix("ref: ") {
        None => commit(&head),
        Some(name) => loose(&place, name.trim()).or_else(|| packed(&place, name.trim())),
    }
}

fn loose(place: &Place, name: &str) -> Option<String> {
    // A name that leads elsewhere is none that git writes.
    let is_plain = name.starts_with("refs/") && !name.split('/').any(|part| part == "..");
    let file = is_plain.then(|| place.common.join(name))?;
    commit(&read(&file, REF)?)
}

/// Lines of a commit and a name.
fn packed(place: &Place, name: &str) -> Option<String> {
    let refs = read(&place.common.join("packed-refs"), PACKED)?;
    let mut lines = refs.lines().filter_map(|line| line.split_once(' '));
    lines.find_map(|(id, of)| (of == name).then(|| commit(id))?)
}

fn read(path: &Path, limit: u64) -> Option<String> {
    String::from_utf8(peek::read(path, limit).ok()?).ok()
}

/// The name of a commit, and nothing else: what others wrote down could be taken for an option.
pub(super) fn commit(text: &str) -> Option<String> {
    let text = text.trim();
    let is_id = [40, 64].contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| text.to_owned())
}
