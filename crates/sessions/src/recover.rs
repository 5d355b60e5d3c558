//! Finds sessions whose run was lost, creates a checkpoint of what the run left, and marks them.
//!
//! The journal of a killed run ends without an event, and its session still has the status
//! `running`. Readers see that the owner of its lease is gone. This module appends that fact to the
//! journal, after a checkpoint of the workspace, before anything else changes the files.

use segno_core::checkpoint::{Manifest, Trigger};
use segno_core::journal::{Event, RunLost};
use segno_core::session::Status;
use segno_core::snapshot::Progress;
use segno_core::step::Path;
use segno_core::store::{Error as StoreError, Filter, Summary};
use segno_engine::between_runs::{self, BetweenRuns};
use segno_engine::{Env, checkpoint, steps};

use crate::listing::{self, ListedSession};

#[derive(Debug)]
pub struct Recovered {
    /// The session after the recovery.
    pub summary: Summary,
    /// The checkpoint of what the run left, or why there is none.
    pub checkpoint: Result<Manifest, checkpoint::Error>,
    /// The steps whose outcome is unknown.
    pub unknown: Vec<Path>,
}

/// The sessions whose run was lost and that are not marked yet, and the errors of unreadable ones.
pub async fn find_lost(env: &Env) -> Result<(Vec<Summary>, Vec<StoreError>), StoreError> {
    let filter = Filter {
        statuses: Some(vec![Status::Running]),
        ..Filter::default()
    };
    let (listed, damaged) = listing::list(env, filter).await?;
    let is_lost = |listed: &ListedSession| {
        (listed.summary.status, listed.status) == (Status::Running, Status::Interrupted)
    };
    let lost = listed.into_iter().filter(is_lost);
    Ok((lost.map(|listed| listed.summary).collect(), damaged))
}

/// Creates a checkpoint of what a lost run left, and marks its session as interrupted. `None` if
/// the run was not lost, or if another process has resumed the session.
pub async fn recover(
    env: &Env,
    summary: &Summary,
    progress: &Progress,
) -> Result<Option<Recovered>, between_runs::Error> {
    let between_runs = match BetweenRuns::acquire(env, summary).await {
        Err(error) if error.is_held() => return Ok(None),
        begun => begun?,
    };
    if between_runs.state.status != Status::Running {
        between_runs.release().await;
        return Ok(None);
    }
    // If this process is killed here, the next recovery finds the session again and creates another
    // checkpoint.
    let taken = checkpoint::create(env, summary, Trigger::Crash, None, progress).await;
    let unknown = steps::unknown_step_events(&between_runs.state);
    let steps = unknown.iter().filter_map(Event::step);
    let steps = steps.map(|(path, _)| path.clone()).collect();
    let lost = RunLost {
        lost: between_runs.state.run,
    };
    let events = std::iter::once(lost.into()).chain(unknown).collect();
    between_runs.append(events).await?;
    Ok(Some(Recovered {
        summary: env.store.summary(summary.id).await?,
        checkpoint: taken.map(|taken| taken.manifest),
        unknown: steps,
    }))
}
