//! What is done to a chat without asking anyone: each a run of its own, and a short one.

use std::sync::Arc;

use segno_core::journal::{ChatCleared, Event, Head, Run, RunEnded, StopMode, StopRequested};
use segno_core::session::{Status, Summary};
use segno_core::store::Message;

use super::{Audience, is_chat, released};
use crate::error::Error as Failure;
use crate::observe::Observer;
use crate::pen::Pen;
use crate::run::Outcome;
use crate::world::World;
use crate::{claim, flow, history, resume};

/// Forgets what was said: no agent is told of it any more. It stays in the journal.
pub async fn clear(
    world: &World,
    summary: &Summary,
    by: &str,
    audience: Audience,
    observer: Arc<dyn Observer>,
) -> Result<Outcome, Failure> {
    is_chat(summary)?;
    resume::over(summary)?;
    let cleared = ChatCleared { by: by.to_owned() };
    let run = claim::claim(world, summary).await?.run;
    let status = audience.rest();
    let written = write(world, summary, run, vec![cleared.into()], status, observer).await;
    released(world, summary, run, written).await
}

/// Puts a chat to rest that nobody runs: `Paused`, or `Expired`. Nothing is done, and `None` returned, if
/// its journal does not end at `seen` any more: somebody went on with it.
pub async fn rest(
    world: &World,
    summary: &Summary,
    seen: Head,
    status: Status,
    by: &str,
    observer: Arc<dyn Observer>,
) -> Result<Option<Outcome>, Failure> {
    is_chat(summary)?;
    resume::over(summary)?;
    let run = claim::claim(world, summary).await?.run;
    let now = world.store.summary(summary.id).await;
    let now = released(world, summary, run, now.map_err(Failure::from)).await?;
    if now.head != seen {
        world.store.release(summary.id, run).await?;
        return Ok(None);
    }
    let asked = StopRequested {
        by: by.to_owned(),
        mode: StopMode::Boundary,
        status,
        reason: None,
        checkpoint: None,
    };
    let written = write(world, summary, run, vec![asked.into()], status, observer).await;
    released(world, summary, run, written).await.map(Some)
}

/// Writes a run in which nothing is asked, under its lease.
pub(super) async fn write(
    world: &World,
    summary: &Summary,
    run: Run,
    said: Vec<Event>,
    status: Status,
    observer: Arc<dyn Observer>,
) -> Result<Outcome, Failure> {
    let (state, _) = history::open(world, summary.id).await?;
    // Read again under the lease: it may have ended between the look and the grant.
    resume::over(&Summary {
        status: state.status,
        ..summary.clone()
    })?;
    let mut events = vec![world.run_started()];
    events.extend(flow::unknown(&state));
    events.extend(said);
    let error = None;
    events.push(RunEnded { status, error }.into());
    let wishes = world.store.pending(summary.id).await?;
    // An answer stays until its question takes it.
    let wishes = wishes
        .into_iter()
        .filter(|(_, wish)| matches!(wish, Message::Stop(_)));
    let wishes = wishes.map(|(number, _)| number).collect();
    let (pen, scribe) = Pen::new(world, summary.id, run, state, observer);
    let closed = pen.close(events, wishes).await;
    let state = pen.state();
    drop(pen);
    let _ = scribe.await;
    closed?;
    Ok(Outcome {
        session: summary.id,
        name: summary.name.clone(),
        run,
        output: String::new(),
        saved: flow::Saved::default(),
        state,
    })
}
