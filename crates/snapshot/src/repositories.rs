//! Captures the repositories of a workspace beside its files, and repairs them after a restore.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use segno_core::checkpoint::{GitDir, Repository};
use segno_core::ports::Clock;

use crate::error::Error;
use crate::git::outside::{self, Outside};
use crate::git::{git_temporary_rule, relocate, repository_status};
use crate::request::{Request, Restore};
use crate::scope::Scope;
use crate::snapshot_store::SnapshotStore;

/// The time limit of one git command that reads the status of a repository.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The scope of a git folder: everything except temporary files of a running git.
#[derive(Debug, Clone, Copy, Default)]
struct GitScope;

impl Scope for GitScope {
    fn excludes(&self, _: &Path, name: &OsStr, is_folder: bool) -> Option<String> {
        git_temporary_rule(name, is_folder)
    }
}

impl SnapshotStore {
    /// The status of the repositories at `paths` of `folder`, and the changes since the commit
    /// `since` in that of `folder` itself. Git folders outside of the workspace are captured as
    /// snapshots of their own.
    pub fn capture_repositories(
        &self,
        folder: &Path,
        paths: &[PathBuf],
        since: Option<&str>,
        clock: &dyn Clock,
    ) -> Vec<Repository> {
        let outside = outside::outside(folder, paths);
        let status = |path: &PathBuf| {
            let since = since.filter(|_| path.as_os_str().is_empty());
            let mut repository = repository_status(folder, path, since, TIMEOUT);
            if let Some(outside) = outside.iter().find(|outside| outside.path == *path) {
                match self.capture_outside(outside, clock) {
                    Ok(kept) => repository.external_git_dir = Some(kept),
                    Err(error) => repository.error = Some(error.to_string()),
                }
            }
            repository
        };
        paths.iter().map(status).collect()
    }

    fn capture_outside(&self, outside: &Outside, clock: &dyn Clock) -> Result<GitDir, Error> {
        let request = Request {
            scope: &GitScope,
            ..Request::new(&outside.folder, clock)
        };
        let captured = self.capture(&request, &|_| {})?;
        Ok(GitDir {
            folder: outside.folder.to_string_lossy().into_owned(),
            snapshot: captured.snapshot,
            worktree: outside.worktree.clone(),
        })
    }

    /// Repairs `repositories` whose workspace was at `from` and was restored into `folder`. A git
    /// folder that was outside and no longer exists is restored inside.
    pub fn repair_repositories(
        &self,
        folder: &Path,
        from: &Path,
        repositories: &[Repository],
        options: &Restore<'_>,
    ) -> Result<(), Error> {
        for repository in repositories {
            let path = Path::new(&repository.path);
            relocate::relocate(from, folder, path)?;
            let Some(outside) = &repository.external_git_dir else {
                continue;
            };
            let place = relocate::within(folder, path).filter(|place| place.join(".git").is_file());
            if let Some(place) = place
                && !Path::new(&outside.folder).is_dir()
            {
                let draft = place.join(".git.segno-draft");
                self.restore(outside.snapshot, &draft, options, &|_| {})?;
                relocate::make_standalone(&place, &draft, outside.worktree.as_deref())?;
            }
        }
        Ok(())
    }
}
