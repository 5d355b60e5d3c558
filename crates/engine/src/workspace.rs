//! The workspace of a session: paths, and what git says about it.

use std::fmt::Write;
use std::path::{Component, Path, PathBuf};

use segno_core::checkpoint::Repository;
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::snapshot::WorkspaceStatus;

use crate::env::Env;
use crate::workspace;

/// How many changed files are named.
const MAX_NAMED_FILES: usize = 30;

/// A path as text for the journal. A path that is not UTF-8 is refused, because a lossy copy would
/// name another file.
pub fn path_text(path: &Path) -> Result<String, NotUtf8> {
    let not_utf8 = || NotUtf8 {
        path: path.to_owned(),
    };
    path.to_str().map(str::to_owned).ok_or_else(not_utf8)
}

/// The path of a file is not text.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read: its name is not UTF-8", .path.display())]
pub struct NotUtf8 {
    pub path: PathBuf,
}

impl Diagnose for NotUtf8 {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::new(Kind::Unavailable, "F0201")
    }
}

/// The canonical path of a folder; the path itself if it cannot be resolved.
pub fn canonical(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// The canonical path of a folder; works also if the folder does not exist yet.
pub fn canonical_path(folder: &Path) -> PathBuf {
    let step = |mut known: PathBuf, part: Component<'_>| match part {
        Component::ParentDir => {
            known.pop();
            known
        }
        part => workspace::canonical(&known.join(part)),
    };
    folder.components().fold(PathBuf::new(), step)
}

/// Reads the workspace status, and what changed since the commit `since`.
pub async fn workspace_status(env: &Env, workspace: &Path, since: Option<&str>) -> WorkspaceStatus {
    let Some(snapshots) = &env.snapshots else {
        return WorkspaceStatus::default();
    };
    let reading = snapshots.workspace_status(workspace.to_owned(), since.map(str::to_owned));
    let mut workspace_status = reading.await;
    // P12: file names and repository data are redacted before anything uses them.
    redact_repositories(env, workspace_status.repository.as_mut_slice());
    for name in &mut workspace_status.changed {
        *name = env.redactor.redact(name).into_owned();
    }
    workspace_status
}

/// Redacts the names of changed files and branches: they can contain secrets.
pub(crate) fn redact_repositories(env: &Env, repositories: &mut [Repository]) {
    for repository in repositories {
        let changes = repository.session_changes.iter_mut();
        let names = changes.flat_map(|since| &mut since.names);
        let changed = repository.names.lists_mut().into_iter().flatten();
        let branches = [&mut repository.branch, &mut repository.upstream];
        for name in names.chain(changed).chain(branches.into_iter().flatten()) {
            *name = env.redactor.redact(name).into_owned();
        }
    }
}

/// The git status of a folder, as the rest of a sentence.
pub fn describe_status(workspace_status: &WorkspaceStatus) -> String {
    let Some(repository) = &workspace_status.repository else {
        return " is not a git repository".to_owned();
    };
    if let Some(trouble) = &repository.error
        && repository.commit.is_none()
    {
        return format!(" is a git repository that cannot be read ({trouble})");
    }
    let branch = match &repository.branch {
        Some(branch) => format!("branch {branch}"),
        None => "no branch".to_owned(),
    };
    let commit = match &repository.commit {
        Some(commit) => format!("at {}", commit.get(..12).unwrap_or(commit)),
        None => "without a commit".to_owned(),
    };
    let mut text = format!(" is a git repository on {branch} {commit}");
    if !repository.activities.is_empty() {
        let _ = write!(
            text,
            ", in the middle of a {}",
            repository.activities.join(" and a ")
        );
    }
    text.push_str("; ");
    let changed = &workspace_status.changed;
    if changed.is_empty() {
        text.push_str("nothing differs from the last commit");
    } else {
        text.push_str(&name_changed_files(
            changed,
            changed.len(),
            "the last commit",
        ));
    }
    if let Some(since) = &repository.session_changes
        && repository.commit.as_ref() != Some(&since.commit)
        && since.files > 0
    {
        let began = since.commit.get(..12).unwrap_or(&since.commit);
        let from = format!("the commit at the start of the session ({began})");
        let files = usize::try_from(since.files).unwrap_or(usize::MAX);
        text.push_str("; ");
        text.push_str(&name_changed_files(&since.names, files, &from));
    }
    text
}

/// How many files differ, and the names of the first ones.
fn name_changed_files(names: &[String], count: usize, from: &str) -> String {
    let named: Vec<&str> = names
        .iter()
        .take(MAX_NAMED_FILES)
        .map(String::as_str)
        .collect();
    let mut text = match count {
        1 => format!("1 file differs from {from}: "),
        count => format!("{count} files differ from {from}: "),
    };
    text.push_str(&named.join(", "));
    if count > named.len() {
        let _ = write!(text, " and {} more", count - named.len());
    }
    text
}
