//! Whether a request with a key had its effect before the server was killed, for each route.
//!
//! docs/decisions/0093 says what is guaranteed for which route, and why.

use axum::Json;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use segno_core::journal::Event;
use segno_core::ports::Boxed;
use segno_core::store::{Error as StoreError, InboxMessage, Summary};
use segno_engine::history;
use segno_sessions::{json as shapes, notes};
use serde_json::{Value, json};

use super::{control, runs};
use crate::Server;
use crate::error::Failed;
use crate::idempotency::{Interrupted, Mark, Recovered, newest_run};

type Recovery<'a> = Boxed<'a, Result<Recovered, Failed>>;

/// A pause. A message that is neither in the inbox nor in the journal was not posted, or a run
/// consumed it with another one and ended; then a new one would pause a later run.
pub(super) fn pause<'a>(server: &'a Server, request: &'a Interrupted) -> Recovery<'a> {
    Box::pin(async move {
        let (_, summary) = match pause_effect(server, request).await? {
            Ok(found) => found,
            Err(other) => return Ok(other),
        };
        Ok(done(
            StatusCode::ACCEPTED,
            control::requested("requested", &summary),
        ))
    })
}

/// The same, with the names of an earlier design.
pub(super) fn pause_workflow<'a>(server: &'a Server, request: &'a Interrupted) -> Recovery<'a> {
    Box::pin(async move {
        let (_, summary) = match pause_effect(server, request).await? {
            Ok(found) => found,
            Err(other) => return Ok(other),
        };
        let body = json!({
            "status": summary.status,
            "workflow_id": summary.id,
            "snapshot_id": Value::Null,
        });
        Ok(done(StatusCode::OK, body))
    })
}

async fn pause_effect(
    server: &Server,
    request: &Interrupted,
) -> Result<Result<(Mark, Summary), Recovered>, Failed> {
    let (session, at) = request.session()?;
    // Read first: a run that starts after it does not matter.
    let run = newest_run(server, session).await?;
    Ok(match request.effect(server).await? {
        Some(mark) => Ok((mark, server.env.store.summary(session).await?)),
        None if run == at.run => Err(Recovered::NotDone),
        None => Err(Recovered::Unknown),
    })
}

/// A cancellation. To cancel a session again changes nothing, so it can be tried again.
pub(super) fn cancel<'a>(server: &'a Server, request: &'a Interrupted) -> Recovery<'a> {
    Box::pin(async move {
        let (status, kind) = match request.effect(server).await? {
            None => return Ok(Recovered::NotDone),
            Some(Mark::Posted(_)) => (StatusCode::ACCEPTED, "requested"),
            Some(Mark::Journaled(_)) => (StatusCode::OK, "cancelled"),
        };
        let (session, _) = request.session()?;
        let summary = server.env.store.summary(session).await?;
        Ok(done(status, control::requested(kind, &summary)))
    })
}

/// An answer. It stays in the inbox until its question consumes it, with an event.
pub(super) fn answer<'a>(server: &'a Server, request: &'a Interrupted) -> Recovery<'a> {
    Box::pin(async move {
        let path = match request.effect(server).await? {
            Some(Mark::Posted(InboxMessage::Answer { path, .. })) => path,
            Some(Mark::Journaled(entry)) => match entry.event {
                Event::QuestionAnswered(event) => event.path,
                _ => return Ok(Recovered::Unknown),
            },
            Some(Mark::Posted(_)) => return Ok(Recovered::Unknown),
            None => return Ok(Recovered::NotDone),
        };
        let (session, _) = request.session()?;
        let summary = server.env.store.summary(session).await?;
        Ok(done(StatusCode::OK, control::answered(&summary, &path)))
    })
}

/// Notes. They leave the inbox only with their event.
pub(super) fn note<'a>(server: &'a Server, request: &'a Interrupted) -> Recovery<'a> {
    Box::pin(async move {
        let recorded = match request.effect(server).await? {
            None => return Ok(Recovered::NotDone),
            Some(Mark::Posted(_)) => notes::Recorded::Posted,
            Some(Mark::Journaled(entry)) => {
                let (session, _) = request.session()?;
                let ids = notes::written_at(&server.env, session, entry.seq).await?;
                notes::Recorded::Written(ids)
            }
        };
        let (session, _) = request.session()?;
        let summary = server.env.store.summary(session).await?;
        Ok(done(StatusCode::OK, control::noted(&summary, recorded)))
    })
}

/// A checkpoint, whose id follows from the operation.
pub(super) fn checkpoint<'a>(server: &'a Server, request: &'a Interrupted) -> Recovery<'a> {
    Box::pin(async move {
        let (session, _) = request.session()?;
        let (id, _) = request.operation.checkpoint();
        let taken = server.env.store.get_checkpoint(session, id).await?;
        Ok(match taken {
            None => Recovered::NotDone,
            Some(manifest) => done(
                StatusCode::CREATED,
                shapes::checkpoint("checkpoint_taken", &manifest),
            ),
        })
    })
}

/// A new session, whose id follows from the operation. A chat without its first message was not
/// finished: its client cannot tell which message is missing.
pub(super) fn start<'a>(server: &'a Server, request: &'a Interrupted) -> Recovery<'a> {
    Box::pin(async move {
        let session = request.operation.new_session();
        let summary = match server.env.store.summary(session).await {
            Err(StoreError::NoSession(_)) => return Ok(Recovered::NotDone),
            found => found?,
        };
        let state = history::load_state(&server.env, session).await?;
        Ok(match state.background {
            None => Recovered::Unknown,
            Some(_) => Recovered::Done(runs::created(&summary)),
        })
    })
}

/// A request for a run, which is one event.
pub(super) fn resume<'a>(server: &'a Server, request: &'a Interrupted) -> Recovery<'a> {
    Box::pin(async move {
        let (session, _) = request.session()?;
        if request.effect(server).await?.is_none() {
            return Ok(Recovered::NotDone);
        }
        let summary = server.env.store.summary(session).await?;
        Ok(done(StatusCode::ACCEPTED, runs::requested(&summary)))
    })
}

/// The same, with the names of an earlier design.
pub(super) fn resume_workflow<'a>(server: &'a Server, request: &'a Interrupted) -> Recovery<'a> {
    Box::pin(async move {
        let (session, _) = request.session()?;
        if request.effect(server).await?.is_none() {
            return Ok(Recovered::NotDone);
        }
        let summary = server.env.store.summary(session).await?;
        Ok(done(StatusCode::OK, runs::resumed_workflow(&summary)))
    })
}

/// What only reads, or may be done any number of times.
pub(super) fn repeat<'a>(_: &'a Server, _: &'a Interrupted) -> Recovery<'a> {
    Box::pin(std::future::ready(Ok(Recovered::NotDone)))
}

fn done(status: StatusCode, body: Value) -> Recovered {
    Recovered::Done((status, Json(body)).into_response())
}
