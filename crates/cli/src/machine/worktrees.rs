//! The git repositories of this machine, worked in.

use std::path::PathBuf;

use segno_core::ports::Boxed;
use segno_core::worktree::{Deed, Error, Ground, Made, Plot, Worktrees};
use segno_snapshot::git::work;

pub(crate) struct MachineWorktrees;

/// Lets git work on a thread of its own: agents are heard meanwhile.
fn beside<'a, T: Send + 'static>(
    act: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Boxed<'a, Result<T, Error>> {
    Box::pin(async {
        let job = tokio::task::spawn_blocking(act);
        job.await.expect("what git does ends")
    })
}

impl Worktrees for MachineWorktrees {
    fn survey(&self, folder: PathBuf) -> Boxed<'_, Result<Ground, Error>> {
        beside(move || work::survey(&folder))
    }

    fn branch(&self, folder: PathBuf, branch: String) -> Boxed<'_, Result<Option<String>, Error>> {
        beside(move || work::branch(&folder, &branch))
    }

    fn branch_off(&self, plot: Plot) -> Boxed<'_, Result<(), Error>> {
        beside(move || work::branch_off(&plot))
    }

    fn diff(
        &self,
        folder: PathBuf,
        since: String,
        limit: usize,
    ) -> Boxed<'_, Result<String, Error>> {
        beside(move || work::diff(&folder, &since, limit))
    }

    fn commit(&self, deed: Deed) -> Boxed<'_, Result<Made, Error>> {
        beside(move || work::commit(&deed))
    }
}
