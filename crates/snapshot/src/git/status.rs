//! Runs and parses `git status`.

use segno_core::checkpoint::Repository;

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
            Some(b'?') => {
                status.untracked += 1;
                1
            }
            Some(b'u') => {
                status.conflicted += 1;
                10
            }
            Some(b'1') => {
                change(entry, &mut status);
                8
            }
            Some(b'2') => {
                change(entry, &mut status);
                // The previous name of a renamed file.
                entries.next();
                9
            }
            _ => continue,
        };
        let name = entry.splitn(fields + 1, |byte| *byte == b' ').nth(fields);
        changed.extend(name.map(|name| String::from_utf8_lossy(name).into_owned()));
    }
    (status, changed)
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

/// `1 XY …`: what differs in the index, and in the worktree.
fn change(entry: &[u8], status: &mut Repository) {
    let differs = |at: usize| entry.get(at).is_some_and(|sign| *sign != b'.');
    status.staged += u64::from(differs(2));
    status.modified += u64::from(differs(3));
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
        let expected = Repository {
            branch: Some("main".into()),
            commit: Some("12ab".into()),
            upstream: Some("origin/main".into()),
            staged: 2,
            modified: 2,
            untracked: 1,
            conflicted: 1,
            stashes: 2,
            ..Repository::default()
        };
        let changed = ["file with space", "x", "new", "both", "untracked"].map(str::to_owned);
        assert_eq!(parse(answer), (expected, changed.to_vec()));
        let young = parse(b"# branch.oid (initial)\0# branch.head (detached)\0");
        assert_eq!(young, (Repository::default(), Vec::new()));
    }
}
