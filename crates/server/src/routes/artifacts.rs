//! The files that sessions wrote for the user.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::Response;
use segno_sessions::artifacts;
use serde_json::{Value, json};

use crate::Server;
use crate::download;
use crate::error::Failed;
use crate::request::Session;
use crate::routes::openapi::Doc;

pub(super) const LIST: Doc = Doc::new(
    "List the artifacts that a session has written",
    "ArtifactList",
);

pub(super) async fn list(
    State(server): State<Server>,
    Session(summary): Session,
) -> Result<Json<Value>, Failed> {
    let written = artifacts::list(&server.env, &summary).await?;
    let items = written.items.iter();
    let items = items.map(|it| json!({"path": it.path, "digest": it.digest}));
    Ok(Json(json!({
        "v": 1,
        "kind": "artifacts",
        "session": summary.id,
        "folder": written.folder,
        "items": items.collect::<Vec<_>>(),
    })))
}

pub(super) const DOWNLOAD: Doc = Doc::file(
    "Download an artifact, if it is still what the session wrote. A slash in its path is `%2F`",
);

pub(super) async fn download(
    State(server): State<Server>,
    Path((_, path)): Path<(String, String)>,
    Session(summary): Session,
) -> Result<Response, Failed> {
    let (folder, artifact) = artifacts::find(&server.env, &summary, &path).await?;
    let digest = artifact.digest;
    let reading = tokio::task::spawn_blocking(move || download::read(&folder, &path, digest));
    let bytes = reading.await.expect("reading a file does not panic")?;
    Ok(download::attachment(&artifact.path, digest, bytes))
}
