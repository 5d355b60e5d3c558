//! Cancels a session permanently.

use segno_core::error::{Diagnose, Kind};
use segno_core::journal::{Event, RunEnded, StopMode, StopRequested};
use segno_core::session::{Status, Summary};
use segno_core::store::Message;

use crate::error::Error;
use crate::observe::Observer;
use crate::pen::Pen;
use crate::world::World;
use crate::{claim, flow, history};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    Done,
    /// A stop request was sent to its run.
    Told,
}

/// Cancels a session: immediately if no run holds it, otherwise by a request to its run.
pub async fn cancel(
    world: &World,
    summary: &Summary,
    mode: StopMode,
    by: &str,
    observer: std::sync::Arc<dyn Observer>,
) -> Result<Cancelled, Error> {
    if summary.status.is_final() {
        return Err(Error::Over {
            session: summary.id,
            name: summary.name.clone(),
            status: summary.status,
        });
    }
    let lease = match claim::claim(world, summary).await {
        Ok(lease) => lease,
        Err(Error::Held { .. }) => {
            let message = Message::Stop(stop_request(mode, by));
            let now = world.clock.now();
            world.store.post(summary.id, now, message).await?;
            return Ok(Cancelled::Told);
        }
        Err(error) => return Err(error),
    };
    let ended = end(world, summary, lease.run, mode, by, observer).await;
    if ended
        .as_ref()
        .is_err_and(|error| error.kind() != Kind::Fenced)
    {
        let _ = world.store.release(summary.id, lease.run).await;
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
    world: &World,
    summary: &Summary,
    run: segno_core::journal::Run,
    mode: StopMode,
    by: &str,
    observer: std::sync::Arc<dyn Observer>,
) -> Result<(), Error> {
    let state = history::look(world, summary.id).await?;
    if state.status.is_final() {
        return Err(Error::Over {
            session: summary.id,
            name: summary.name.clone(),
            status: state.status,
        });
    }
    let mut events: Vec<Event> = vec![world.run_started()];
    events.extend(flow::unknown(&state));
    events.push(stop_request(mode, by).into());
    events.push(
        RunEnded {
            status: Status::Cancelled,
            error: None,
        }
        .into(),
    );
    let requests = world.store.pending(summary.id).await?;
    let (pen, _scribe) = Pen::new(world, summary.id, run, state, observer);
    pen.close(
        events,
        requests.into_iter().map(|(number, _)| number).collect(),
    )
    .await?;
    Ok(())
}
