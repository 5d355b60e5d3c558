//! Runs several futures concurrently.
//!
//! When one fails, the others start nothing new; what they have in flight is paid for, so it is
//! awaited and kept. A step that waits for a human does not stop the others.

use std::sync::atomic::Ordering;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use segno_core::error::{Diagnose, Kind};

use crate::error::Error;
use crate::steps::Runner;

/// Runs all futures concurrently. Returns the results in the given order, or the most important
/// error.
pub(super) async fn run_all<T>(
    runner: &Runner,
    work: impl IntoIterator<Item = impl Future<Output = Result<T, Error>>>,
) -> Result<Vec<T>, Error> {
    let numbered = |(index, work)| async move { (index, work.await) };
    let mut running: FuturesUnordered<_> = work.into_iter().enumerate().map(numbered).collect();
    let (mut done, mut worst) = (Vec::new(), None);
    while let Some((index, result)) = running.next().await {
        match result {
            Ok(value) => done.push((index, value)),
            Err(error) => worst = Some(record_error(runner, worst, error)),
        }
    }
    if let Some(error) = worst {
        return Err(error);
    }
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, value)| value).collect())
}

/// Records an error, and returns the most important one so far.
pub(super) fn record_error(runner: &Runner, known: Option<Error>, error: Error) -> Error {
    if rank(&error) > 0 {
        runner.limits.failing.store(true, Ordering::Relaxed);
    }
    match known {
        Some(known) if rank(&known) >= rank(&error) => known,
        _ => error,
    }
}

/// How important an error is. A run that waits may continue, so it ranks lowest.
fn rank(error: &Error) -> u32 {
    match error {
        Error::WaitingForHuman { .. } => 0,
        Error::ConcurrentStepFailed => 1,
        Error::Budget { .. } => 2,
        Error::Stopped { .. } => 3,
        error if error.kind() == Kind::Fenced => 5,
        _ => 4,
    }
}
