//! The status of a repository, as git reports it, for the user.

use std::path::Path;
use std::time::Duration;

use segno_core::checkpoint::{Repository, SessionChanges};

use crate::bounded_read;

use super::error::Error;
use super::git_paths::{self, GitPaths};
use super::head;
use super::program::Git;
use super::shadow::Shadow;
use super::status;

/// Commits are counted up to this many.
const MANY: &str = "--max-count=100000";

/// How many changed files are listed by name.
const NAMED: usize = 100;

/// The longest list of folders that objects are borrowed from.
const LIMIT: u64 = 64 * 1024;

/// Files that exist during an operation, and the name of the operation.
const OPERATIONS: [(&str, &str); 7] = [
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply/rebasing", "rebase"),
    ("rebase-apply/applying", "am"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
];

/// The status of the repository at `path` of the workspace at `root`, and the changes since the
/// commit `since`. One git command may take `limit`; errors are part of the result.
pub(crate) fn repository_status(
    root: &Path,
    path: &Path,
    since: Option<&str>,
    limit: Duration,
) -> Repository {
    let text = path.to_string_lossy().into_owned();
    match git_paths::at(&root.join(path)) {
        Some(paths) => read_status(&paths, text, since, limit).0,
        None => Repository {
            path: text,
            error: Some("it is not a repository any more".into()),
            ..Repository::default()
        },
    }
}

/// The status of the repository whose top is `folder`, including the changes since the commit
/// `since`, and the changes since the last commit; `None` if it is not a repository. Writes
/// nothing.
pub fn workspace_status(
    folder: &Path,
    since: Option<&str>,
    limit: Duration,
) -> Option<(Repository, Vec<String>)> {
    let paths = git_paths::at(folder)?;
    Some(read_status(&paths, String::new(), since, limit))
}

fn read_status(
    paths: &GitPaths,
    path: String,
    since: Option<&str>,
    limit: Duration,
) -> (Repository, Vec<String>) {
    let asked = Shadow::with_timeout(paths, limit).and_then(|shadow| query(&shadow, since));
    let (mut repository, changed) = asked.unwrap_or_else(|error| {
        let trouble = Some(error.to_string());
        let unknown = Repository {
            error: trouble,
            ..Repository::default()
        };
        (unknown, Vec::new())
    });
    repository.path = path;
    repository.activities = activities(paths);
    if let Some(lender) = alternate(paths) {
        repository.error = Some(format!(
            "it borrows objects that are not in the snapshot: {lender}"
        ));
    }
    (repository, changed)
}

fn query(shadow: &Shadow, since: Option<&str>) -> Result<(Repository, Vec<String>), Error> {
    let git = shadow.git();
    let (mut repository, changed) = status::read(&git)?;
    let args = [
        "rev-list",
        "--count",
        MANY,
        "--branches",
        "--tags",
        "HEAD",
        "--not",
        "--remotes",
        "--",
    ];
    if repository.commit.is_some() {
        let answer = git.run(&args)?;
        let count = String::from_utf8_lossy(&answer);
        repository.unpushed = count.trim().parse().unwrap_or_default();
    }
    repository.session_changes =
        since.and_then(|since| changed_since(&git, since, &repository, &changed));
    Ok((repository, changed))
}

/// The changes since a commit, given those since the last one. `None` if the repository no longer
/// has the commit.
fn changed_since(
    git: &Git,
    since: &str,
    repository: &Repository,
    changed: &[String],
) -> Option<SessionChanges> {
    let since = head::parse_commit_id(since)?;
    let mut names = if repository.commit.as_deref() == Some(&since) {
        changed.to_vec()
    } else {
        let args = ["diff", "--name-only", "-z", "--no-renames", &since, "--"];
        let answer = git.run(&args).ok()?;
        let differ = answer
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty());
        let differ = differ.map(|name| String::from_utf8_lossy(name).into_owned());
        // Untracked files come last.
        let known = changed.len() - usize::try_from(repository.untracked).unwrap_or_default();
        differ.chain(changed[known..].iter().cloned()).collect()
    };
    names.sort_unstable();
    names.dedup();
    let files = names.len() as u64;
    names.truncate(NAMED);
    Some(SessionChanges {
        commit: since,
        files,
        names,
    })
}

/// The folder that a repository borrows objects from, if it does.
fn alternate(paths: &GitPaths) -> Option<String> {
    let alternates =
        bounded_read::read(&paths.common.join("objects/info/alternates"), LIMIT).ok()?;
    let alternates = String::from_utf8_lossy(&alternates).into_owned();
    let mut lines = alternates.lines().map(str::trim);
    let alternate = lines.find(|line| !line.is_empty() && !line.starts_with('#'))?;
    Some(alternate.to_owned())
}

fn activities(paths: &GitPaths) -> Vec<String> {
    let begun = OPERATIONS
        .into_iter()
        .filter(|(sign, _)| paths.git_dir.join(sign).exists());
    begun.map(|(_, activity)| activity.to_owned()).collect()
}
