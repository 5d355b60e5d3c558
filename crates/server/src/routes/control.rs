//! Changes what a session does.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use segno_core::id::CheckpointId;
use segno_core::journal::StopMode;
use segno_core::note::{Note, NoteId, Source, WrittenNote};
use segno_core::session::Status;
use segno_core::step::Path;
use segno_core::store::Summary;
use segno_engine::observe::NoObserver;
use segno_sessions::notes::{Author, Change, Recorded};
use segno_sessions::pause::{Paused, Requested};
use segno_sessions::{answer as questions, cancel as cancelling, notes, pause as pausing};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

use crate::Server;
use crate::error::{Failed, Refusal};
use crate::guard::Caller;
use crate::request::{JsonBody, Session};
use crate::routes::openapi::Doc;

pub(super) const PAUSE: Doc = Doc::new("Pause a running session", "PauseResult").body("Stop");

/// When a session stops.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stop {
    /// Stop at once instead of after the step.
    #[serde(default)]
    now: bool,
    reason: Option<String>,
    /// Answer once the run has stopped and its checkpoint is there.
    #[serde(default)]
    wait: bool,
}

fn stop_mode(now: bool) -> StopMode {
    if now {
        StopMode::Now
    } else {
        StopMode::Boundary
    }
}

pub(super) async fn pause(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Session(summary): Session,
    JsonBody(stop): JsonBody<Stop>,
) -> Result<(StatusCode, Json<Value>), Failed> {
    let wait = stop.wait;
    let asked = send(&server, &caller, &summary, stop).await?;
    answer_pause(&server, &summary, asked, wait).await
}

pub(super) const STOP: Doc = Doc::new(
    "Pause a running session at once, without waiting for its step",
    "PauseResult",
)
.body("StopNow");

/// A stop does not wait for the step.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StopNow {
    reason: Option<String>,
    #[serde(default)]
    wait: bool,
}

pub(super) async fn stop(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Session(summary): Session,
    JsonBody(StopNow { reason, wait }): JsonBody<StopNow>,
) -> Result<(StatusCode, Json<Value>), Failed> {
    let now = true;
    let asked = send(&server, &caller, &summary, Stop { now, reason, wait }).await?;
    answer_pause(&server, &summary, asked, wait).await
}

/// Says that a pause was requested or, with `wait`, that the session is paused.
async fn answer_pause(
    server: &Server,
    summary: &Summary,
    asked: Requested,
    wait: bool,
) -> Result<(StatusCode, Json<Value>), Failed> {
    let sent = match asked {
        Requested::Sent(sent) => sent,
        Requested::Withdrawn(summary) => {
            let body = paused_body(&summary, summary.status, None, None);
            return Ok((StatusCode::OK, Json(body)));
        }
    };
    if !wait {
        let body = requested("requested", summary);
        return Ok((StatusCode::ACCEPTED, Json(body)));
    }
    let paused = pausing::wait(&server.env, summary, &sent).await?;
    let (checkpoint, problem) = checkpoint_of(server, &paused);
    let status = paused.summary.status;
    let body = paused_body(summary, status, checkpoint, problem.as_deref());
    Ok((StatusCode::OK, Json(body)))
}

fn paused_body(
    summary: &Summary,
    status: Status,
    checkpoint: Option<CheckpointId>,
    problem: Option<&str>,
) -> Value {
    json!({
        "v": 1,
        "kind": "paused",
        "session": summary.id,
        "name": summary.name,
        "status": status,
        "checkpoint": checkpoint,
        "problem": problem,
    })
}

pub(super) const PAUSE_WORKFLOW: Doc = Doc::new(
    "Pause a running session, and wait for its checkpoint",
    "PausedWorkflow",
)
.body("Stop");

/// As in an earlier design, with its names.
pub(super) async fn pause_workflow(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Session(summary): Session,
    JsonBody(stop): JsonBody<Stop>,
) -> Result<Json<Value>, Failed> {
    let (status, checkpoint) = match send(&server, &caller, &summary, stop).await? {
        Requested::Sent(sent) => {
            let paused = pausing::wait(&server.env, &summary, &sent).await?;
            let (checkpoint, _) = checkpoint_of(&server, &paused);
            (paused.summary.status, checkpoint)
        }
        Requested::Withdrawn(summary) => (summary.status, None),
    };
    Ok(Json(json!({
        "status": status,
        "workflow_id": summary.id,
        "snapshot_id": checkpoint,
    })))
}

async fn send(
    server: &Server,
    caller: &Caller,
    summary: &Summary,
    stop: Stop,
) -> Result<Requested, pausing::Error> {
    let request = pausing::Request {
        mode: stop_mode(stop.now),
        by: caller.name(),
        reason: stop.reason,
    };
    pausing::request(&server.env, summary, request).await
}

/// The checkpoint of a pause, and why there is none.
fn checkpoint_of(server: &Server, paused: &Paused) -> (Option<CheckpointId>, Option<String>) {
    match &paused.checkpoint {
        None => (None, None),
        Some(Ok(manifest)) => (Some(manifest.id), None),
        Some(Err(error)) => {
            let problem = server.env.redactor.redact(&error.to_string()).into_owned();
            (None, Some(problem))
        }
    }
}

pub(super) const CANCEL: Doc = Doc::new("Cancel a session permanently", "Requested").body("Cancel");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cancel {
    #[serde(default)]
    now: bool,
}

pub(super) async fn cancel(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Session(summary): Session,
    JsonBody(Cancel { now }): JsonBody<Cancel>,
) -> Result<(StatusCode, Json<Value>), Failed> {
    let mode = stop_mode(now);
    let by = caller.name();
    let done = cancelling::cancel(&server.env, &summary, mode, &by, Arc::new(NoObserver)).await?;
    let (status, kind) = match done {
        cancelling::Cancelled::Done => (StatusCode::OK, "cancelled"),
        cancelling::Cancelled::Requested => (StatusCode::ACCEPTED, "requested"),
    };
    Ok((status, Json(requested(kind, &summary))))
}

/// What became of a request to stop.
pub(super) fn requested(kind: &str, summary: &Summary) -> Value {
    json!({"v": 1, "kind": kind, "session": summary.id, "name": summary.name})
}

pub(super) const ANSWER: Doc =
    Doc::new("Answer a question of a session", "Answered").body("Answer");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    text: String,
    /// Which question, if there are several.
    step: Option<String>,
}

pub(super) async fn answer(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Session(summary): Session,
    JsonBody(given): JsonBody<Answer>,
) -> Result<Json<Value>, Failed> {
    let (step, by) = (given.step.as_deref(), caller.name());
    let path = questions::answer(&server.env, &summary, step, &given.text, &by).await?;
    Ok(Json(answered(&summary, &path)))
}

pub(super) fn answered(summary: &Summary, path: &Path) -> Value {
    json!({
        "v": 1,
        "kind": "answered",
        "session": summary.id,
        "name": summary.name,
        "path": path,
    })
}

pub(super) const NOTE: Doc = Doc::new("Write notes for the next run", "Noted").body("Notes");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoteChange {
    notes: Vec<Note>,
    /// The step that the notes are about.
    step: Option<String>,
    /// The note that the one note replaces.
    corrects: Option<NoteId>,
    withdraw: Option<Withdraw>,
}

/// A note that no longer holds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Withdraw {
    note: NoteId,
    reason: Option<String>,
}

impl NoteChange {
    /// What is asked for, which is one thing.
    fn change(self) -> Result<Change, Refusal> {
        let reason = match (self.notes.len(), self.corrects, self.withdraw) {
            (0, None, Some(Withdraw { note, reason })) => {
                return Ok(Change::Withdraw { note, reason });
            }
            (_, None, None) => {
                return Ok(Change::Write(
                    self.notes.into_iter().map(Into::into).collect(),
                ));
            }
            (1, corrects, None) => {
                let written = |note: Note| WrittenNote {
                    corrects,
                    ..note.into()
                };
                return Ok(Change::Write(self.notes.into_iter().map(written).collect()));
            }
            (_, Some(_), None) => "`corrects` needs exactly one note",
            (_, _, Some(_)) => "`withdraw` excludes `notes` and `corrects`",
        };
        Err(Refusal::Malformed {
            reason: reason.to_owned(),
        })
    }
}

pub(super) async fn note(
    State(server): State<Server>,
    Extension(caller): Extension<Caller>,
    Session(summary): Session,
    JsonBody(given): JsonBody<NoteChange>,
) -> Result<Json<Value>, Failed> {
    let path = given.step.as_deref().map(Path::new).transpose();
    let path = path.map_err(|error| Refusal::Malformed {
        reason: format!("step: {error}"),
    })?;
    let author = Author {
        source: Source::User,
        by: caller.name(),
        path,
    };
    let recorded = notes::record(&server.env, &summary, author, given.change()?).await?;
    Ok(Json(noted(&summary, recorded)))
}

pub(super) fn noted(summary: &Summary, recorded: Recorded) -> Value {
    let (ids, waits) = match recorded {
        Recorded::Written(ids) => (ids, false),
        Recorded::Posted => (Vec::new(), true),
    };
    json!({
        "v": 1,
        "kind": "noted",
        "session": summary.id,
        "name": summary.name,
        "notes": ids.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "waits_for_run": waits,
    })
}
