//! The repositories of a workspace, beside its files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use segno_core::checkpoint::{GitFolder, Repository};
use segno_core::ports::Clock;

use crate::error::Error;
use crate::request::{Request, Restore};
use crate::vault::Vault;

use super::outside::{self, Outside};
use super::{rehome, standing};

/// How long one command of git may take to say how a repository stands.
const PATIENCE: Duration = Duration::from_secs(20);

impl Vault {
    /// How the repositories at `paths` of `folder` stand, and what differs in that of `folder` itself
    /// from the commit `since`. Git folders that lie outside of it are kept as snapshots of their own.
    pub fn repositories(
        &self,
        folder: &Path,
        paths: &[PathBuf],
        since: Option<&str>,
        clock: &dyn Clock,
    ) -> Vec<Repository> {
        let outside = outside::outside(folder, paths);
        let standing = |path: &PathBuf| {
            let since = since.filter(|_| path.as_os_str().is_empty());
            let mut repository = standing::standing(folder, path, since, PATIENCE);
            if let Some(outside) = outside.iter().find(|outside| outside.path == *path) {
                match self.keep_outside(outside, clock) {
                    Ok(kept) => repository.outside = Some(kept),
                    Err(error) => repository.trouble = Some(error.to_string()),
                }
            }
            repository
        };
        paths.iter().map(standing).collect()
    }

    fn keep_outside(&self, outside: &Outside, clock: &dyn Clock) -> Result<GitFolder, Error> {
        let request = Request {
            scope: &outside::GitScope,
            ..Request::new(&outside.folder, clock)
        };
        let captured = self.capture(&request, &|_| {})?;
        Ok(GitFolder {
            folder: outside.folder.to_string_lossy().into_owned(),
            snapshot: captured.snapshot,
            worktree: outside.worktree.clone(),
        })
    }

    /// Makes `repositories` usable whose workspace was at `from` and has been restored into
    /// `folder`. A git folder that lay outside and is not there any more comes back inside.
    pub fn mend(
        &self,
        folder: &Path,
        from: &Path,
        repositories: &[Repository],
        options: &Restore<'_>,
    ) -> Result<(), Error> {
        for repository in repositories {
            let path = Path::new(&repository.path);
            rehome::rehome(from, folder, path)?;
            let Some(outside) = &repository.outside else {
                continue;
            };
            let place = rehome::within(folder, path).filter(|place| place.join(".git").is_file());
            if let Some(place) = place
                && !Path::new(&outside.folder).is_dir()
            {
                let draft = place.join(".git.segno-draft");
                self.restore(outside.snapshot, &draft, options, &|_| {})?;
                rehome::stand_alone(&place, &draft, outside.worktree.as_deref())?;
            }
        }
        Ok(())
    }
}
