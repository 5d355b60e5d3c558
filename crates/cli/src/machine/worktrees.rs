//! Creates git worktrees and commits on this machine.

use std::path::PathBuf;

use segno_core::ports::Boxed;
use segno_core::worktree::{Deed, Error, Ground, Made, Plot, Worktrees};
use segno_snapshot::git::work as git_work;

pub(crate) struct MachineWorktrees;

/// Runs git on a blocking thread, so that agent events are processed meanwhile.
fn run_blocking<'a, T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Boxed<'a, Result<T, Error>> {
    Box::pin(async {
        let job = tokio::task::spawn_blocking(work);
        job.await.expect("what git does ends")
    })
}

impl Worktrees for MachineWorktrees {
    fn survey(&self, folder: PathBuf) -> Boxed<'_, Result<Ground, Error>> {
        run_blocking(move || git_work::survey(&folder))
    }

    fn branch(&self, folder: PathBuf, branch: String) -> Boxed<'_, Result<Option<String>, Error>> {
        run_blocking(move || git_work::branch(&folder, &branch))
    }

    fn branch_off(&self, plot: Plot) -> Boxed<'_, Result<(), Error>> {
        run_blocking(move || git_work::branch_off(&plot))
    }

    fn diff(
        &self,
        folder: PathBuf,
        since: String,
        limit: usize,
    ) -> Boxed<'_, Result<String, Error>> {
        run_blocking(move || git_work::diff(&folder, &since, limit))
    }

    fn commit(&self, deed: Deed) -> Boxed<'_, Result<Made, Error>> {
        run_blocking(move || git_work::commit(&deed))
    }
}
