//! How a repository stands: asked of git, for people.

use std::path::Path;
use std::time::Duration;

use segno_core::checkpoint::Repository;

use crate::scope::peek;

use super::error::Error;
use super::place::{self, Place};
use super::shadow::Shadow;
use super::status;

/// Commits are counted up to this many.
const MANY: &str = "--max-count=100000";

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

/// How the repository at `path` of the workspace at `root` stands. One command of git may take
/// `limit`; what could not be found out is told.
pub(super) fn standing(root: &Path, path: &Path, limit: Duration) -> Repository {
    let text = path.to_string_lossy().into_owned();
    match place::at(&root.join(path)) {
        Some(place) => at(&place, text, limit).0,
        None => Repository {
            path: text,
            trouble: Some("it is no repository any more".into()),
            ..Repository::default()
        },
    }
}

/// How the repository stands that `folder` is the top of, and what differs in it from the last commit;
/// `None` if it is none. Nothing is written.
pub fn sight(folder: &Path, limit: Duration) -> Option<(Repository, Vec<String>)> {
    let place = place::at(folder)?;
    Some(at(&place, String::new(), limit))
}

fn at(place: &Place, path: String, limit: Duration) -> (Repository, Vec<String>) {
    let asked = Shadow::patient(place, limit).and_then(|shadow| ask(&shadow));
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

fn ask(shadow: &Shadow) -> Result<(Repository, Vec<String>), Error> {
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
    Ok((repository, changed))
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
