//! The addresses of an earlier design, with its names, for its clients: sessions are workflows, and
//! checkpoints are snapshots.

use axum::Json;
use axum::extract::{Path, State};
use segno_core::checkpoint::Manifest;
use segno_core::error::{Diagnose, Kind};
use segno_sessions::checkpoint::{self, Content, Overview};
use segno_sessions::json::{self as shapes, Section};
use serde_json::{Value, json};

use crate::Server;
use crate::error::{Failed, Refusal};
use crate::request::{Checkpoint, Session};
use crate::routes::checkpoints;
use crate::routes::openapi::Doc;

pub(super) const SNAPSHOTS: Doc = Doc::new(
    "List the checkpoints of a session, newest first",
    "SnapshotList",
);

pub(super) async fn snapshots(
    State(server): State<Server>,
    Session(summary): Session,
) -> Result<Json<Value>, Failed> {
    let (mut manifests, _) = checkpoint::list(&server.env, Some(&summary)).await?;
    manifests.reverse();
    let overviews = checkpoint::overviews(&server.env, &manifests).await;
    let items = manifests
        .iter()
        .map(|manifest| snapshot(manifest, overviews.get(&manifest.id)));
    Ok(Json(json!({
        "workflow_id": summary.id,
        "snapshots": items.collect::<Vec<_>>(),
    })))
}

fn snapshot(manifest: &Manifest, overview: Option<&Overview>) -> Value {
    let progress = overview.map(|overview| &overview.progress);
    json!({
        "id": manifest.id,
        "session_number": overview.map(|overview| overview.session_number),
        "trigger": manifest.trigger,
        "created_at": manifest.at.to_string(),
        "tasks_completed": progress.map(|progress| progress.done),
        "tasks_remaining": progress.and_then(|progress| progress.remaining),
    })
}

pub(super) const SNAPSHOT: Doc = Doc::new("Show what a session knew at a checkpoint", "Checkpoint");

/// A checkpoint with the names of both designs.
pub(super) async fn show(
    State(server): State<Server>,
    Checkpoint(manifest): Checkpoint,
) -> Result<Json<Value>, Failed> {
    let content = Content::of(&server.env, &manifest).await?;
    let overview = content.as_ref().map(|content| &content.overview);
    let mut line = checkpoints::whole(&manifest, content.as_ref());
    let more = snapshot(&manifest, overview);
    if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
        line.extend(more);
    }
    for (theirs, ours) in [
        ("workflow_id", "session"),
        ("pause_reason", "reason"),
        ("task_dag", "plan"),
        ("current_task_id", "current"),
        ("next_task_id", "next"),
        ("git_state", "git"),
        ("reviewer_feedback", "feedback"),
        ("test_state", "tests"),
    ] {
        line[theirs] = line[ours].clone();
    }
    Ok(Json(line))
}

pub(super) const PART: Doc = Doc::new(
    "The decisions, errors, reviewer-feedback or git-changes of a checkpoint; empty if it is absent",
    "SnapshotPart",
);

pub(super) async fn part(
    State(server): State<Server>,
    Path((_, reference, name)): Path<(String, String, String)>,
    Session(summary): Session,
) -> Result<Json<Value>, Failed> {
    let section = match &*name {
        "decisions" => Section::Decisions,
        "errors" => Section::Errors,
        "reviewer-feedback" => Section::Feedback,
        "git-changes" => Section::Git,
        _ => {
            let reason = format!("a snapshot has no part `{name}`");
            return Err(Refusal::Malformed { reason }.into());
        }
    };
    let found = match checkpoint::find(&server.env, &reference).await {
        Ok(manifest) => Some(manifest),
        Err(error) if error.kind() == Kind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    let Some(manifest) = found.filter(|found| found.session == summary.id) else {
        return Ok(Json(json!([])));
    };
    let content = Content::of(&server.env, &manifest).await?;
    let mut sections = shapes::checkpoint_sections(&[section], &manifest, content.as_ref());
    let part = sections.remove(section.as_str());
    Ok(Json(part.filter(Value::is_array).unwrap_or(json!([]))))
}
