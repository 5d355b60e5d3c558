//! Runs and parses `git status`.

use segno_core::checkpoint::{ChangedNames, Repository};

use super::error::Error;
use super::program::Git;

/// The status of a repository, and the names of files that differ from its last commit. Submodules
/// are not examined: they are repositories of their own.
pub(super) fn read(git: &Git) -> Result<(Repository, Vec<String>), Error> {
    let args = [
        "status",
        "--porcelain=v2",
        "-z",
        "--branch",
        "--show-stash",
        "--untracked-files=normal",
        "--ignore-submodules=dirty",
        "--find-renames",
    ];
    Ok(parse(&git.run(&args)?))
}

fn parse(answer: &[u8]) -> (Repository, Vec<String>) {
    let (mut status, mut changed) = (Repository::default(), Vec::new());
    let mut entries = answer.split(|byte| *byte == 0);
    while let Some(entry) = entries.next() {
        // The number of fields before the name.
        let fields = match entry.first() {
            Some(b'#') => {
                header(&String::from_utf8_lossy(entry), &mut status);
                continue;
            }
            Some(b'?') => 1,
            Some(b'u') => 10,
            Some(b'1') => 8,
            Some(b'2') => {
                // The previous name of a renamed file.
                entries.next();
                9
            }
            _ => continue,
        };
        let name = entry.splitn(fields + 1, |byte| *byte == b' ').nth(fields);
        let name = String::from_utf8_lossy(name.unwrap_or_default()).into_owned();
        add(entry, &name, &mut status);
        changed.push(name);
    }
    (status, changed)
}

/// Counts a file and lists its name. `XY` in `1 XY …` says what differs in the index, and in the
/// worktree.
fn add(entry: &[u8], name: &str, status: &mut Repository) {
    let differs = |at: usize| entry.get(at).is_some_and(|sign| *sign != b'.');
    let (is_untracked, is_conflicted) =
        (entry.first() == Some(&b'?'), entry.first() == Some(&b'u'));
    let is_changed = !is_untracked && !is_conflicted;
    let names = &mut status.names;
    for (applies, count, listed) in [
        (is_untracked, &mut status.untracked, &mut names.untracked),
        (is_conflicted, &mut status.conflicted, &mut names.conflicted),
        (
            is_changed && differs(2),
            &mut status.staged,
            &mut names.staged,
        ),
        (
            is_changed && differs(3),
            &mut status.modified,
            &mut names.modified,
        ),
    ] {
        *count += u64::from(applies);
        if applies && listed.len() < ChangedNames::MAX {
            listed.push(name.to_owned());
        }
    }
}

fn header(line: &str, status: &mut Repository) {
    let Some((key, value)) = line.trim_start_matches("# ").split_once(' ') else {
        return;
    };
    let known = |nothing: &str| (value != nothing).then(|| value.to_owned());
    match key {
        "branch.oid" => status.commit = known("(initial)"),
        "branch.head" => status.branch = known("(detached)"),
        "branch.upstream" => status.upstream = known(""),
        "stash" => status.stashes = value.parse().unwrap_or_default(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_status_output_is_parsed() {
        let answer =
            b"# branch.oid 12ab\0# branch.head main\0# branch.upstream origin/main\0# stash 2\0\
            1 M. N... 100644 100644 100644 a b file with space\0\
            1 .M N... 100644 100644 100644 a b x\0\
            2 RM N... 100644 100644 100644 a b R100 new\0old\0\
            u UU N... 1 2 3 4 a b c both\0? untracked\0";
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let expected = Repository {
            branch: Some("main".into()),
            commit: Some("12ab".into()),
            upstream: Some("origin/main".into()),
            staged: 2,
            modified: 2,
            untracked: 1,
            conflicted: 1,
            stashes: 2,
            names: ChangedNames {
                staged: names(&["file with space", "new"]),
                modified: names(&["x", "new"]),
                untracked: names(&["untracked"]),
                conflicted: names(&["both"]),
            },
            ..Repository::default()
        };
        let changed = ["file with space", "x", "new", "both", "untracked"].map(str::to_owned);
        assert_eq!(parse(answer), (expected, changed.to_vec()));
        let young = parse(b"# branch.oid (initial)\0# branch.head (detached)\0");
        assert_eq!(young, (Repository::default(), Vec::new()));
    }
}
