//! How a repository stands: asked of git, for people.

use std::path::Path;
use std::time::Duration;

use segno_core::checkpoint::{Repository, Since};

use crate::scope::peek;

use super::error::Error;
use super::head;
use super::place::{self, Place};
use super::program::Git;
use super::shadow::Shadow;
use super::status;

/// Commits are counted up to this many.
const MANY: &str = "--max-count=100000";

/// How many files are told by name.
const NAMED: usize = 100;

/// The longest list of folders that objects are borrowed from.
const LIMIT: u64 = 64 * 1024;

/// What shows that something was begun, and what it is called.
const SIGNS: [(&str, &str); 7] = [
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply/rebasing", "rebase"),
    ("rebase-apply/applying", "am"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
];

/// How the repository at `path` of the workspace at `root` stands, and what differs in it from the
/// commit `since`. One command of git may take `limit`; what could not be found out is told.
pub(super) fn standing(
    root: &Path,
    path: &Path,
    since: Option<&str>,
    limit: Duration,
) -> Repository {
    let text = path.to_string_lossy().into_owned();
    match place::at(&root.join(path)) {
        Some(place) => at(&place, text, since, limit).0,
        None => Repository {
            path: text,
            trouble: Some("it is no repository any more".into()),
            ..Repository::default()
        },
    }
}

/// How the repository stands that `folder` is the top of, with what differs in it from the commit
/// `since`, and what differs from the last commit; `None` if it is none. Nothing is written.
pub fn sight(
    folder: &Path,
    since: Option<&str>,
    limit: Duration,
) -> Option<(Repository, Vec<String>)> {
    let place = place::at(folder)?;
    Some(at(&place, String::new(), since, limit))
}

fn at(
    place: &Place,
    path: String,
    since: Option<&str>,
    limit: Duration,
) -> (Repository, Vec<String>) {
    let asked = Shadow::patient(place, limit).and_then(|shadow| ask(&shadow, since));
    let (mut repository, changed) = asked.unwrap_or_else(|error| {
        let trouble = Some(error.to_string());
        let unknown = Repository {
            trouble,
            ..Repository::default()
        };
        (unknown, Vec::new())
    });
    repository.path = path;
    repository.activities = activities(place);
    if let Some(lender) = lender(place) {
        repository.trouble = Some(format!("it borrows objects that are not kept: {lender}"));
    }
    (repository, changed)
}

fn ask(shadow: &Shadow, since: Option<&str>) -> Result<(Repository, Vec<String>), Error> {
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
        let answer = git.ask(&args)?;
        let count = String::from_utf8_lossy(&answer);
        repository.unpushed = count.trim().parse().unwrap_or_default();
    }
    repository.since = since.and_then(|since| changed_since(&git, since, &repository, &changed));
    Ok((repository, changed))
}

/// What differs from a commit, given what differs from the last one. None if the repository does not
/// have the commit any more.
fn changed_since(
    git: &Git,
    since: &str,
    repository: &Repository,
    changed: &[String],
) -> Option<Since> {
    let since = head::commit(since)?;
    let mut names = if repository.commit.as_deref() == Some(&since) {
        changed.to_vec()
    } else {
        let args = ["diff", "--name-only", "-z", "--no-renames", &since, "--"];
        let answer = git.ask(&args).ok()?;
        let differ = answer
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty());
        let differ = differ.map(|name| String::from_utf8_lossy(name).into_owned());
        // What git does not know comes last.
        let known = changed.len() - usize::try_from(repository.untracked).unwrap_or_default();
        differ.chain(changed[known..].iter().cloned()).collect()
    };
    names.sort_unstable();
    names.dedup();
    let files = names.len() as u64;
    names.truncate(NAMED);
    Some(Since {
        commit: since,
        files,
        names,
    })
}

/// The folder that a repository borrows objects from, if it does.
fn lender(place: &Place) -> Option<String> {
    let alternates = peek::read(&place.common.join("objects/info/alternates"), LIMIT).ok()?;
    let alternates = String::from_utf8_lossy(&alternates).into_owned();
    let mut lines = alternates.lines().map(str::trim);
    let lender = lines.find(|line| !line.is_empty() && !line.starts_with('#'))?;
    Some(lender.to_owned())
}

fn activities(place: &Place) -> Vec<String> {
    let begun = SIGNS
        .into_iter()
        .filter(|(sign, _)| place.git_dir.join(sign).exists());
    begun.map(|(_, activity)| activity.to_owned()).collect()
}
