//! Creates git worktrees and commits on this machine.

use std::path::PathBuf;

use segno_core::ports::Boxed;
use segno_core::worktree::{
    CommitOutcome, CommitRequest, Error, NewWorktree, RepositoryInfo, Worktrees,
};

use crate::git::worktree;

/// The git repositories of this machine.
pub struct LocalWorktrees;

/// Runs git on a blocking thread, so that agent events are processed meanwhile.
fn run_blocking<'a, T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Boxed<'a, Result<T, Error>> {
    Box::pin(async {
        let job = tokio::task::spawn_blocking(work);
        job.await.expect("what git does ends")
    })
}

impl Worktrees for LocalWorktrees {
    fn inspect(&self, folder: PathBuf) -> Boxed<'_, Result<RepositoryInfo, Error>> {
        run_blocking(move || worktree::inspect(&folder))
    }

    fn branch_commit(
        &self,
        folder: PathBuf,
        branch: String,
    ) -> Boxed<'_, Result<Option<String>, Error>> {
        run_blocking(move || worktree::branch_commit(&folder, &branch))
    }

    fn create_worktree(&self, plot: NewWorktree) -> Boxed<'_, Result<(), Error>> {
        run_blocking(move || worktree::create_worktree(&plot))
    }

    fn diff(
        &self,
        folder: PathBuf,
        since: String,
        limit: usize,
    ) -> Boxed<'_, Result<String, Error>> {
        run_blocking(move || worktree::diff(&folder, &since, limit))
    }

    fn commit(&self, operation: CommitRequest) -> Boxed<'_, Result<CommitOutcome, Error>> {
        run_blocking(move || worktree::commit(&operation))
    }
}
