//! Copies sessions.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use segno_core::id::Name;
use segno_sessions::fork::{self, ForkPoint, Request, TargetFolder};
use segno_sessions::{checkpoint, json as shapes};
use serde::Deserialize;
use serde_json::Value;

use crate::Server;
use crate::error::{Failed, Refusal};
use crate::folders;
use crate::request::{JsonBody, Session};
use crate::routes::openapi::Doc;

pub(super) const FORK: Doc =
    Doc::new("Fork a session into a new one, which is paused", "Forked").body("Fork");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fork {
    /// The checkpoint to fork from, with its files.
    from: Option<String>,
    /// The first step to run again.
    before: Option<String>,
    /// A folder for the files, below one that the server allows.
    into: Option<String>,
    name: Option<String>,
}

pub(super) async fn fork(
    State(server): State<Server>,
    Session(summary): Session,
    JsonBody(given): JsonBody<Fork>,
) -> Result<(StatusCode, Json<Value>), Failed> {
    let env = &server.env;
    let name = given.name.as_deref().map(Name::new).transpose();
    let name = name.map_err(|error| Refusal::Malformed {
        reason: format!("name: {error}"),
    })?;
    let into = given.into.as_deref();
    let into = into.map(|folder| folders::allowed(&server.folders, folder));
    let point = match (given.before, given.from, into.transpose()?) {
        (Some(step), None, None) => ForkPoint::Before(step),
        (Some(_), _, _) => {
            let reason = "`before` copies no files: it excludes `from` and `into`".to_owned();
            return Err(Refusal::Malformed { reason }.into());
        }
        (None, Some(from), into) => {
            let manifest = checkpoint::find(env, &from).await?;
            let place = into.map_or(TargetFolder::Beside, TargetFolder::Into);
            ForkPoint::AtCheckpoint(Box::new(manifest), place)
        }
        (None, None, Some(folder)) => ForkPoint::CopyInto(folder),
        (None, None, None) => ForkPoint::All,
    };
    let request = Request {
        point,
        name,
        out: None,
    };
    let forked = fork::fork(env, &summary, request, &|_, _| {}).await?;
    Ok((
        StatusCode::CREATED,
        Json(shapes::forked(summary.id, &forked)),
    ))
}
