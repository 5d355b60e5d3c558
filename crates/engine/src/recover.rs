//! Sessions whose run was lost: found, kept as they are, and marked.
//!
//! A run that is killed says nothing more, and its session still says that it is running. Whoever looks
//! sees that its owner is gone. Here that is written down, after a checkpoint of what the run left
//! behind, so that it is known before anybody changes anything.

use segno_core::checkpoint::{Manifest, Trigger};
use segno_core::journal::{Event, RunLost};
use segno_core::session::{Status, Summary};
use segno_core::snapshot::Progress;
use segno_core::step::Path;
use segno_core::store::Error as StoreError;

use crate::error::Error;
use crate::interlude::Interlude;
use crate::sessions::{self, Listed};
use crate::world::World;
use crate::{checkpoint, flow};

/// A session whose run was lost.
#[derive(Debug)]
pub struct Recovered {
    /// The session, as it stands now.
    pub summary: Summary,
    /// The checkpoint of what was left, or why there is none.
    pub checkpoint: Result<Manifest, Error>,
    /// The steps whose outcome nobody knows.
    pub unknown: Vec<Path>,
}

/// The sessions whose run was lost and that nobody has marked yet, and what is wrong with those that
/// cannot be read.
pub async fn lost(world: &World) -> Result<(Vec<Summary>, Vec<StoreError>), Error> {
    let (listed, damaged) = sessions::list(world).await?;
    let is_lost = |listed: &Listed| {
        (listed.summary.status, listed.standing) == (Status::Running, Status::Interrupted)
    };
    let lost = listed.into_iter().filter(is_lost);
    Ok((lost.map(|listed| listed.summary).collect(), damaged))
}

/// Keeps what a lost run left behind, and marks its session as interrupted. `None` if it was not lost, or
/// if somebody goes on with it.
pub async fn recover(
    world: &World,
    summary: &Summary,
    progress: &Progress,
) -> Result<Option<Recovered>, Error> {
    let interlude = match Interlude::begin(world, summary).await {
        Err(Error::Held { .. }) => return Ok(None),
        begun => begun?,
    };
    if interlude.state.status != Status::Running {
        interlude.leave().await;
        return Ok(None);
    }
    // Killed in here, it is found again, and kept once more.
    let taken = checkpoint::take(world, summary, Trigger::Crash, None, progress).await;
    let unknown = flow::unknown(&interlude.state);
    let steps = unknown.iter().filter_map(Event::step);
    let steps = steps.map(|(path, _)| path.clone()).collect();
    let lost = RunLost {
        lost: interlude.state.run,
    };
    let events = std::iter::once(lost.into()).chain(unknown).collect();
    interlude.write(events).await?;
    Ok(Some(Recovered {
        summary: world.store.summary(summary.id).await?,
        checkpoint: taken.map(|taken| taken.manifest),
        unknown: steps,
    }))
}
