//! Cancels a session permanently.

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::journal::{Event, RunEnded, RunPurpose, StopMode, StopRequested};
use segno_core::session::Status;
use segno_core::store::{Error as StoreError, InboxMessage, Summary};
use segno_engine::journal::Writer;
use segno_engine::{Env, Observer, history, lease, steps};

use crate::next_run::SessionEnded;

/// Why a session was not cancelled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Lease(#[from] lease::Error),
    #[error(transparent)]
    History(#[from] history::Error),
    #[error(transparent)]
    Ended(#[from] SessionEnded),
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::Lease(error) => error.diagnosis(),
            Self::History(error) => error.diagnosis(),
            Self::Ended(error) => error.diagnosis(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    Done,
    /// A stop request was sent to its run.
    Requested,
}

/// Cancels a session: immediately if no run holds it, otherwise by a request to its run.
pub async fn cancel(
    env: &Env,
    summary: &Summary,
    mode: StopMode,
    by: &str,
    observer: std::sync::Arc<dyn Observer>,
) -> Result<Cancelled, Error> {
    if summary.status.is_final() {
        return Err(SessionEnded::new(summary, summary.status).into());
    }
    let lease = match lease::acquire(env, summary).await {
        Ok(lease) => lease,
        Err(error) if error.is_held() => {
            let message = InboxMessage::Stop(stop_request(mode, by));
            let now = env.clock.now();
            env.store.post(summary.id, now, message).await?;
            return Ok(Cancelled::Requested);
        }
        Err(error) => return Err(error.into()),
    };
    let ended = end(env, summary, lease.run, mode, by, observer).await;
    if ended
        .as_ref()
        .is_err_and(|error| error.kind() != Kind::Fenced)
    {
        let _ = env.store.release(summary.id, lease.run).await;
    }
    ended.map(|()| Cancelled::Done)
}

fn stop_request(mode: StopMode, by: &str) -> StopRequested {
    StopRequested {
        by: by.to_owned(),
        mode,
        status: Status::Cancelled,
        reason: None,
        checkpoint: None,
    }
}

async fn end(
    env: &Env,
    summary: &Summary,
    run: segno_core::journal::Run,
    mode: StopMode,
    by: &str,
    observer: std::sync::Arc<dyn Observer>,
) -> Result<(), Error> {
    let state = history::load_state(env, summary.id).await?;
    if state.status.is_final() {
        return Err(SessionEnded::new(summary, state.status).into());
    }
    let mut events: Vec<Event> = vec![env.run_started(RunPurpose::Bookkeeping)];
    events.extend(steps::unknown_step_events(&state));
    events.push(stop_request(mode, by).into());
    events.push(
        RunEnded {
            status: Status::Cancelled,
            error: None,
            output: None,
        }
        .into(),
    );
    let requests = env.store.pending(summary.id).await?;
    let (journal, _writer) = Writer::new(env, summary.id, run, state, observer);
    journal
        .close(
            events,
            requests.into_iter().map(|(number, _)| number).collect(),
        )
        .await?;
    Ok(())
}
