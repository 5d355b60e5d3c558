//! Checkpoints of sessions.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use segno_core::checkpoint::{Manifest, Trigger};
use segno_engine::retention;
use segno_sessions::checkpoint::{self, Content};
use segno_sessions::json::{self as shapes, Section};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Server;
use crate::error::{Failed, Refusal};
use crate::idempotency::Operation;
use crate::request::{Checkpoint, JsonBody, Session};
use crate::routes::openapi::Doc;
use crate::routes::sessions::finding;

pub(super) const LIST: Doc = Doc::new(
    "List the checkpoints of a session, newest first",
    "CheckpointList",
);

pub(super) async fn list(
    State(server): State<Server>,
    Session(summary): Session,
) -> Result<Json<Value>, Failed> {
    let (mut manifests, damaged) = checkpoint::list(&server.env, Some(&summary)).await?;
    manifests.reverse();
    let overviews = checkpoint::overviews(&server.env, &manifests).await;
    let items = manifests
        .iter()
        .map(|manifest| shapes::checkpoint_overview(manifest, overviews.get(&manifest.id)));
    Ok(Json(json!({
        "v": 1,
        "kind": "checkpoints",
        "items": items.collect::<Vec<_>>(),
        "damaged": damaged.iter().map(|error| finding(&server, error)).collect::<Vec<_>>(),
    })))
}

pub(super) const SHOW: Doc = Doc::new("Show what a session knew at a checkpoint", "Checkpoint");

pub(super) async fn show(
    State(server): State<Server>,
    Checkpoint(manifest): Checkpoint,
) -> Result<Json<Value>, Failed> {
    let content = Content::of(&server.env, &manifest).await?;
    Ok(Json(whole(&manifest, content.as_ref())))
}

/// A checkpoint with all its sections.
pub(super) fn whole(manifest: &Manifest, content: Option<&Content>) -> Value {
    let overview = content.map(|content| &content.overview);
    let mut line = shapes::checkpoint_overview(manifest, overview);
    let sections = shapes::checkpoint_sections(&Section::ALL, manifest, content);
    if let Value::Object(line) = &mut line {
        line.extend(sections);
    }
    line
}

pub(super) const SECTION: Doc = Doc::new(
    "Show one section of a checkpoint: plan, decisions, errors, feedback (or reviewer-feedback), tests, git (or git-changes) or usage",
    "CheckpointSection",
);

pub(super) async fn section(
    State(server): State<Server>,
    Path(parts): Path<Vec<String>>,
    Checkpoint(manifest): Checkpoint,
) -> Result<Json<Value>, Failed> {
    let name = parts.last().map_or("", String::as_str);
    let name = match name {
        "reviewer-feedback" => "feedback",
        "git-changes" => "git",
        name => name,
    };
    let mut all = Section::ALL.into_iter();
    let Some(section) = all.find(|section| section.as_str() == name) else {
        let reason = format!("a checkpoint has no section `{name}`");
        return Err(Refusal::Malformed { reason }.into());
    };
    let content = Content::of(&server.env, &manifest).await?;
    let mut sections = shapes::checkpoint_sections(&[section], &manifest, content.as_ref());
    Ok(Json(json!({
        "v": 1,
        "kind": "checkpoint_section",
        "checkpoint": manifest.id,
        "section": section.as_str(),
        "content": sections.remove(section.as_str()),
    })))
}

pub(super) const CREATE: Doc =
    Doc::new("Take a checkpoint of a session", "Checkpoint").body("NewCheckpoint");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCheckpoint {
    note: Option<String>,
}

pub(super) async fn create(
    State(server): State<Server>,
    operation: Option<Extension<Operation>>,
    Session(summary): Session,
    JsonBody(new): JsonBody<NewCheckpoint>,
) -> Result<(StatusCode, Json<Value>), Failed> {
    let env = &server.env;
    let id = match operation {
        Some(Extension(operation)) => operation.checkpoint(),
        None => checkpoint::new_id(env),
    };
    let (trigger, note) = (Trigger::Manual, new.note);
    let taken = checkpoint::create_with_id(env, &summary, id, trigger, note, &|_, _| {}).await?;
    // The checkpoint is there, whatever becomes of older ones; `doctor` reports those.
    let _ = retention::enforce(env, &summary).await;
    Ok((StatusCode::CREATED, Json(shapes::checkpoint_taken(&taken))))
}

pub(super) const VERIFY: Doc =
    Doc::new("Verify the data of a checkpoint", "Verified").body("Nothing");

/// No choices.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

pub(super) async fn verify(
    State(server): State<Server>,
    Checkpoint(manifest): Checkpoint,
    JsonBody(Nothing {}): JsonBody<Nothing>,
) -> Result<Json<Value>, Failed> {
    let problems = checkpoint::verify(&server.env, &manifest, &|_, _| {}).await?;
    Ok(Json(json!({
        "v": 1,
        "kind": "verified",
        "checkpoint": manifest.id,
        "session": manifest.session,
        "problems": problems,
    })))
}
