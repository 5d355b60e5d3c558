//! Files of a git folder that are more than what refs and objects say: the index, what has been
//! begun, the logs of refs.

use std::path::{Path, PathBuf};

use crate::scope::peek;

use super::error::Error;
use super::files;
use super::inert::{clean_text, inert};
use super::place::Place;
use super::program::Input;
use super::shadow::{OWN_REFS, Shadow, shared_indexes};
use super::truth::{Activity, Inert, InertKind, Kept, Oid, Raw};

/// The longest file that is kept, but for the index.
const LIMIT: u64 = 64 * 1024 * 1024;

/// How many entries of a folder are looked at, and how deep.
const ENTRIES: usize = 100_000;
const DEPTH: usize = 64;

/// Single files that are kept.
const FILES: [&str; 19] = [
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "ORIG_HEAD",
    "AUTO_MERGE",
    "SQUASH_MSG",
    "COMMIT_EDITMSG",
    "BISECT_LOG",
    "BISECT_START",
    "BISECT_TERMS",
    "BISECT_NAMES",
    "BISECT_EXPECTED_REV",
    "BISECT_ANCESTORS_OK",
    "BISECT_FIRST_PARENT",
    "info/sparse-checkout",
    "index",
];

/// Files of which all worktrees share one.
const SHARED: [&str; 2] = ["shallow", "info/exclude"];

/// Folders that are kept whole.
const FOLDERS: [&str; 3] = ["rebase-merge", "rebase-apply", "sequencer"];

/// What else may be in a git folder without being missed: it is captured in another way, is made
/// again, or has no meaning elsewhere.
const KNOWN: [&str; 20] = [
    "HEAD",
    "FETCH_HEAD",
    "config",
    "config.worktree",
    "description",
    "hooks",
    "info",
    "logs",
    "objects",
    "packed-refs",
    "refs",
    "reftable",
    "worktrees",
    "branches",
    "commondir",
    "gitdir",
    "locked",
    "gc.log",
    "gc.pid",
    "modules",
];

/// Whether a file with this path may be put into a git folder.
pub(super) fn allows(path: &Path) -> bool {
    let plain = path
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_)));
    let text = path.to_string_lossy();
    let shared_index = text
        .strip_prefix("sharedindex.")
        .is_some_and(|digits| Oid::from_bytes(digits.as_bytes()).is_some());
    let inside = |folder: &str| path.starts_with(folder) && path != Path::new(folder);
    let listed = FILES.contains(&&*text) || SHARED.contains(&&*text);
    plain && (listed || shared_index || FOLDERS.into_iter().chain(["logs"]).any(inside))
}

/// What has been begun in a repository and not ended.
pub(super) fn activities(place: &Place) -> Vec<Activity> {
    let signs = [
        ("MERGE_HEAD", Activity::Merging),
        ("rebase-merge", Activity::Rebasing),
        ("rebase-apply/rebasing", Activity::Rebasing),
        ("rebase-apply/applying", Activity::Applying),
        ("CHERRY_PICK_HEAD", Activity::CherryPicking),
        ("REVERT_HEAD", Activity::Reverting),
        ("BISECT_LOG", Activity::Bisecting),
    ];
    let begun = signs
        .into_iter()
        .filter(|(sign, _)| place.git_dir.join(sign).exists());
    begun.map(|(_, activity)| activity).collect()
}

/// Copies the files that are kept and makes blobs of them in the shadow. Also tells which objects
/// they speak of.
pub(super) fn collect(
    shadow: &Shadow,
    place: &Place,
    own_only: bool,
    notes: &mut Vec<String>,
) -> Result<(Vec<Kept>, Vec<Oid>), Error> {
    let copies = shadow.scratch().join("kept");
    files::make_folder(&copies)?;
    let (mut paths, mut list, mut oids) = (Vec::new(), String::new(), Vec::new());
    for (from, path) in sources(shadow, place, own_only) {
        let copy = copies.join(paths.len().to_string());
        let limit = if path == Path::new("index") {
            u64::MAX
        } else {
            LIMIT
        };
        match files::copy(&from, &copy, limit) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(error) => {
                notes.push(format!("not kept: {error}"));
                continue;
            }
        }
        if path.starts_with("logs") {
            scrub(&copy)?;
        }
        let names_tips = own_only || !path.starts_with("logs");
        if names_tips && !path.to_string_lossy().contains("index") {
            oids.extend(ids(&peek::read(&copy, LIMIT).unwrap_or_default()));
        }
        list.push_str(&paths.len().to_string());
        list.push('\n');
        paths.push(path);
    }
    let git = shadow.git().with_objects(&shadow.blobs()).run_in(&copies);
    let args = ["hash-object", "-w", "--no-filters", "--stdin-paths"];
    let answer = git.ask(&args, Input::Bytes(list.as_bytes()))?;
    let blobs = answer
        .split(|byte| *byte == b'\n')
        .filter_map(Oid::from_bytes);
    let kept = paths.iter().zip(blobs).map(|(path, oid)| Kept {
        path: Raw::from(path.as_path()),
        oid,
    });
    Ok((kept.collect(), oids))
}

/// Takes credentials out of a log: git writes down the address that someone pulled from.
fn scrub(copy: &Path) -> Result<(), Error> {
    let content = peek::read(copy, LIMIT).map_err(|error| Error::file(copy, &error))?;
    if content.windows(3).any(|bytes| bytes == b"://") {
        files::write(copy, &clean_text(&content))?;
    }
    Ok(())
}

/// The files that are kept: where they are, and what they are called in a git folder.
fn sources(shadow: &Shadow, place: &Place, own_only: bool) -> Vec<(PathBuf, PathBuf)> {
    let mut sources = Vec::new();
    let ours = shadow.git_dir();
    // The same index and logs that git is asked about.
    let indexes = shared_indexes(place)
        .into_iter()
        .chain(["index".to_owned()]);
    sources.extend(indexes.map(|name| (ours.join(&name), name.into())));
    below(&ours, Path::new("logs"), 0, &mut sources);
    if own_only {
        let logs = Path::new("logs/refs");
        let foreign = |path: &Path| {
            path.starts_with(logs) && !OWN_REFS.iter().any(|own| path.starts_with(logs.join(own)))
        };
        sources.retain(|(_, path)| !foreign(path));
    } else {
        sources.extend(SHARED.map(|name| (place.common.join(name), name.into())));
    }
    for name in FILES.iter().filter(|name| **name != "index") {
        sources.push((place.git_dir.join(name), name.into()));
    }
    for folder in FOLDERS {
        below(&place.git_dir, Path::new(folder), 0, &mut sources);
    }
    sources
}

fn below(root: &Path, folder: &Path, depth: usize, found: &mut Vec<(PathBuf, PathBuf)>) {
    let entries = peek::entries(&root.join(folder), ENTRIES).unwrap_or_default();
    for (name, is_folder) in entries {
        let path = folder.join(name);
        if !is_folder {
            found.push((root.join(&path), path));
        } else if depth < DEPTH {
            below(root, &path, depth + 1, found);
        }
    }
}

/// What the git folder has that nothing here captures.
pub(super) fn strangers(place: &Place) -> Vec<String> {
    let entries = peek::entries(&place.git_dir, ENTRIES).unwrap_or_default();
    let mut names: Vec<String> = entries
        .into_iter()
        .map(|(name, _)| name.to_string_lossy().into_owned())
        .filter(|name| !KNOWN.contains(&&**name) && !FOLDERS.contains(&&**name))
        .filter(|name| !SHARED.contains(&&**name) && !allows(Path::new(name)))
        .collect();
    names.sort();
    names
}

/// The object ids in a text.
fn ids(content: &[u8]) -> Vec<Oid> {
    let words = content.split(|byte| !byte.is_ascii_hexdigit());
    words.filter_map(Oid::from_bytes).collect()
}

/// A kept file as it may come back: without what would start a program. `None` if nothing of it
/// may.
pub(super) fn tame(path: &Path, content: Vec<u8>, found: &mut Vec<Inert>) -> Option<Vec<u8>> {
    let name = path.file_name()?.to_str().unwrap_or_default();
    let text = path.to_string_lossy();
    let begun = FOLDERS.iter().any(|folder| path.starts_with(folder));
    let mut drop =
        |line: &[u8]| found.push(inert(InertKind::Todo, text.clone().into_owned(), line));
    match name {
        "git-rebase-todo" | "git-rebase-todo.backup" | "todo" if begun => {
            let lines = content.split_inclusive(|byte| *byte == b'\n');
            let mut tamed = Vec::new();
            for line in lines {
                if runs(line) {
                    drop(line);
                    tamed.extend(b"# not brought back: ");
                }
                tamed.extend(line);
            }
            Some(tamed)
        }
        "strategy" | "opts" if begun && !is_known_strategy(&content) => {
            drop(&content);
            None
        }
        "gpg_sign_opt" if begun => {
            drop(&content);
            None
        }
        _ => Some(content),
    }
}

/// Whether a line of a rebase's list runs a command.
fn runs(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let word = line
        .split(u8::is_ascii_whitespace)
        .next()
        .unwrap_or_default();
    word == b"exec" || word == b"x"
}

/// Whether only strategies of git's own are spoken of: any other word names a program.
fn is_known_strategy(content: &[u8]) -> bool {
    let known = ["ort", "recursive", "resolve", "octopus", "ours", "subtree"];
    let text = String::from_utf8_lossy(content);
    text.lines()
        .map(str::trim)
        .all(|line| match line.split_once('=') {
            Some((key, value)) => {
                let key = key.trim();
                let value = value.trim().trim_matches('"');
                !key.starts_with("gpg") && (key != "strategy" || known.contains(&value))
            }
            None => line.is_empty() || line.starts_with('[') || known.contains(&line),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_files_are_put_into_a_git_folder() {
        for path in [
            "index",
            "logs/refs/heads/x",
            "rebase-merge/done",
            "shallow",
            "info/exclude",
        ] {
            assert!(allows(Path::new(path)), "{path}");
        }
        for path in [
            "config",
            "hooks/pre-commit",
            "info/attributes",
            "logs/../hooks/x",
            "../x",
            "/etc/passwd",
            "logs",
            "objects/info/alternates",
            "sharedindex.x",
            "commondir",
            "",
        ] {
            assert!(!allows(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn commands_in_a_rebase_do_not_come_back() {
        let mut found = Vec::new();
        let todo = b"pick abc\n  exec touch /tmp/x\nx\ty\nexecute\n".to_vec();
        let tamed = tame(Path::new("rebase-merge/git-rebase-todo"), todo, &mut found).unwrap();
        let text = String::from_utf8(tamed).unwrap();
        assert_eq!(found.len(), 2);
        assert!(text.starts_with("pick abc\n# not brought back:   exec touch"));
        assert!(text.ends_with("execute\n"));
    }

    #[test]
    fn a_strange_strategy_does_not_come_back() {
        let tamed = |path: &str, content: &str| {
            let content = content.as_bytes().to_vec();
            tame(Path::new(path), content, &mut Vec::new()).is_some()
        };
        assert!(tamed("rebase-merge/strategy", "ort\n"));
        assert!(!tamed("rebase-merge/strategy", "evil\n"));
        assert!(tamed(
            "sequencer/opts",
            "[options]\n\tedit = true\n\tstrategy = ort\n"
        ));
        assert!(!tamed("sequencer/opts", "[options]\n\tstrategy = evil\n"));
        assert!(!tamed("sequencer/opts", "[options]\n\tgpg-sign = x\n"));
    }
}
