//! Changes a chat without calling an agent: each change is a short run of its own.

use std::sync::Arc;

use segno_core::journal::{
    ChatCleared, Event, Head, Run, RunEnded, RunPurpose, StopMode, StopRequested,
};
use segno_core::session::Status;
use segno_core::store::{InboxMessage, Summary};
use segno_engine::journal::Writer;
use segno_engine::{Env, Observer, Outcome, history, lease, steps};

use super::{Audience, Error, is_chat, release_on_error};
use crate::next_run;

/// Clears the conversation: agents no longer receive it. It stays in the journal.
pub async fn clear(
    env: &Env,
    summary: &Summary,
    by: &str,
    audience: Audience,
    observer: Arc<dyn Observer>,
) -> Result<Outcome, Error> {
    is_chat(summary)?;
    next_run::check_resumable(summary)?;
    let cleared = ChatCleared { by: by.to_owned() };
    let run = lease::acquire(env, summary).await?.run;
    let status = audience.idle_status();
    let written = write_run(env, summary, run, vec![cleared.into()], status, observer).await;
    release_on_error(env, summary, run, written).await
}

/// Moves a chat without an active run to `Paused` or `Expired`. Does nothing and returns `None` if
/// its journal no longer ends at `seen`, because someone continued it.
pub async fn set_idle(
    env: &Env,
    summary: &Summary,
    seen: Head,
    status: Status,
    by: &str,
    observer: Arc<dyn Observer>,
) -> Result<Option<Outcome>, Error> {
    is_chat(summary)?;
    next_run::check_resumable(summary)?;
    let run = lease::acquire(env, summary).await?.run;
    let now = env.store.summary(summary.id).await;
    let now = release_on_error(env, summary, run, now).await?;
    if now.head != seen {
        env.store.release(summary.id, run).await?;
        return Ok(None);
    }
    let asked = StopRequested {
        by: by.to_owned(),
        mode: StopMode::Boundary,
        status,
        reason: None,
        checkpoint: None,
    };
    let written = write_run(env, summary, run, vec![asked.into()], status, observer).await;
    release_on_error(env, summary, run, written).await.map(Some)
}

/// Writes a run without steps, under its lease.
pub(super) async fn write_run(
    env: &Env,
    summary: &Summary,
    run: Run,
    changes: Vec<Event>,
    status: Status,
    observer: Arc<dyn Observer>,
) -> Result<Outcome, Error> {
    let (state, _) = history::load_verified(env, summary.id).await?;
    // Checked again under the lease: the session may have ended in between.
    next_run::check_resumable(&Summary {
        status: state.status,
        ..summary.clone()
    })?;
    let mut events = vec![env.run_started(RunPurpose::Bookkeeping)];
    events.extend(steps::unknown_step_events(&state));
    events.extend(changes);
    let error = None;
    events.push(
        RunEnded {
            status,
            error,
            output: None,
        }
        .into(),
    );
    let stop_requests = env.store.pending(summary.id).await?;
    // An answer stays in the inbox until its question consumes it.
    let stop_requests = stop_requests
        .into_iter()
        .filter(|(_, message)| matches!(message, InboxMessage::Stop(_)));
    let stop_requests = stop_requests.map(|(number, _)| number).collect();
    let (journal, writer) = Writer::new(env, summary.id, run, state, observer);
    let closed = journal.close(events, stop_requests).await;
    let state = journal.state();
    drop(journal);
    let _ = writer.await;
    closed?;
    Ok(Outcome {
        session: summary.id,
        name: summary.name.clone(),
        run,
        output: String::new(),
        saved: steps::Saved::default(),
        state,
    })
}
