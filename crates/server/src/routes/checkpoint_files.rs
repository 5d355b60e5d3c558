//! The files of checkpoints: listed, compared, restored.

use axum::Json;
use axum::extract::State;
use segno_sessions::checkpoint::{self, Request};
use segno_sessions::json as shapes;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Server;
use crate::error::Failed;
use crate::folders;
use crate::request::{Checkpoint, JsonBody, Limit, Query};
use crate::routes::openapi::{Doc, Parameter};

/// How many files a page has, unless the client asks for another number.
const PAGE: usize = 1000;

pub(super) const FILES: Doc = Doc::new(
    "List the files of a checkpoint, in a fixed order",
    "FilePage",
)
.query(&[
    Parameter::number(
        "after",
        "The value of `next` of the page before",
        0,
        i64::MAX,
    ),
    Parameter::number("limit", "How many files, at most 10000", 1, 10_000),
]);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FilesQuery {
    after: Option<usize>,
    limit: Option<Limit<10_000>>,
}

pub(super) async fn files(
    State(server): State<Server>,
    Checkpoint(manifest): Checkpoint,
    Query(query): Query<FilesQuery>,
) -> Result<Json<Value>, Failed> {
    let limit = query.limit.map_or(PAGE, |limit| limit.0);
    let skipped = query.after.unwrap_or(0);
    let files = checkpoint::files(&server.env, &manifest, skipped, limit).await?;
    let next = (files.len() == limit).then(|| skipped.saturating_add(limit));
    Ok(Json(json!({
        "v": 1,
        "kind": "checkpoint_files",
        "checkpoint": manifest.id,
        "items": files.iter().map(shapes::stored_file).collect::<Vec<_>>(),
        "next": next,
    })))
}

pub(super) const DIFF: Doc = Doc::new(
    "What changed from a checkpoint to another one: files, notes, finished steps, usage",
    "CheckpointDiff",
)
.query(&[
    Parameter::text(
        "with",
        "The other checkpoint: its id, or a unique part of it",
    )
    .required(),
    Parameter::number(
        "limit",
        "How many files are listed, at most 10000",
        1,
        10_000,
    ),
]);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DiffQuery {
    with: String,
    limit: Option<Limit<10_000>>,
}

pub(super) async fn diff(
    State(server): State<Server>,
    Checkpoint(from): Checkpoint,
    Query(query): Query<DiffQuery>,
) -> Result<Json<Value>, Failed> {
    let to = checkpoint::find(&server.env, &query.with).await?;
    let found = checkpoint::diff(&server.env, &from, &to).await?;
    let limit = query.limit.map_or(PAGE, |limit| limit.0);
    let files = found.files.iter().take(limit).map(shapes::changed_file);
    let notes = found.notes.iter().flat_map(|notes| &notes.notes);
    Ok(Json(json!({
        "v": 1,
        "kind": "checkpoint_diff",
        "files": files.collect::<Vec<_>>(),
        "not_listed": found.files.len().saturating_sub(limit),
        "notes": notes.map(shapes::changed_note).collect::<Vec<_>>(),
        "difference": shapes::difference(&from, &to, &found),
    })))
}

pub(super) const RESTORE: Doc = Doc::new(
    "Restore the files of a checkpoint, in place or into a new folder",
    "Restored",
)
.body("Restore");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Restore {
    /// A new folder below one that the server allows.
    into: Option<String>,
    /// Also delete files that are not in the checkpoint.
    #[serde(default)]
    exact: bool,
    #[serde(default)]
    dry_run: bool,
}

pub(super) async fn restore(
    State(server): State<Server>,
    Checkpoint(manifest): Checkpoint,
    JsonBody(given): JsonBody<Restore>,
) -> Result<Json<Value>, Failed> {
    let dry_run = given.dry_run;
    let into = given.into.as_deref();
    let into = into.map(|folder| folders::new_folder(&server.folders, folder));
    let request = Request {
        into: into.transpose()?,
        exact: given.exact,
        dry_run,
        // What could start programs here stays disarmed: only a user at this machine trusts it.
        trusted: false,
    };
    let done = checkpoint::restore(&server.env, &manifest, request, &|_, _| {}).await?;
    Ok(Json(shapes::restored(&manifest, &done, dry_run)))
}
