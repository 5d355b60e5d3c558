//! Sessions as they are stored, for programs that read or keep copies of them: summaries, records
//! of journals, blobs, manifests.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_TYPE, ETAG};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use segno_core::digest::Digest;
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Head, Seq};
use segno_core::store::{Error as StoreError, Filter, Summary};
use segno_engine::lease;
use segno_sessions::stored::{
    StoredLease, StoredRecord, StoredSession, StoredState, StoredSummary, StoredTrash,
};
use segno_sessions::{checkpoint, find};
use serde::Deserialize;
use serde_json::{Value, json};

use super::events::{check_position, stream_of};
use super::sessions::{finding, malformed, words};
use crate::Server;
use crate::error::{Failed, Refusal};
use crate::request::{Limit, Query, Session};
use crate::routes::openapi::{Doc, Parameter};

/// How many sessions or records a page has, unless the client asks for another number.
const PAGE: usize = 500;
const MOST: usize = 2000;

pub(super) const LIST: Doc = Doc::new(
    "List sessions with their stored statuses, newest first",
    "StoredSessionPage",
)
.query(&[
    Parameter::text("name", "Only the session with exactly this name"),
    Parameter::text(
        "status",
        "Only sessions with one of these stored statuses, separated by commas",
    ),
    Parameter::text(
        "kind",
        "Only sessions of these kinds (workflow, agent, chat), separated by commas",
    ),
    Parameter::text("workspace", "Only sessions in this folder"),
    Parameter::text(
        "text",
        "Only sessions with this text in their name or folder, in any case",
    ),
    Parameter::text("prefix", "Only sessions whose name or id begins with this"),
    Parameter::text("before", "The value of `next` of the page before"),
    Parameter::number("limit", "How many sessions, at most 2000", 1, 2000),
]);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    name: Option<String>,
    status: Option<String>,
    kind: Option<String>,
    workspace: Option<String>,
    text: Option<String>,
    prefix: Option<String>,
    before: Option<String>,
    limit: Option<Limit<MOST>>,
}

pub(super) async fn list(
    State(server): State<Server>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Value>, Failed> {
    let store = &server.env.store;
    if let Some(name) = &query.name {
        let name = Name::new(name).map_err(|error| malformed("name", &error))?;
        let found = match store.find_named(name).await? {
            Some(session) => vec![StoredSummary::from(store.summary(session).await?)],
            None => Vec::new(),
        };
        return Ok(Json(sessions_page(&found, &[], None)));
    }
    let statuses = query.status.as_deref().map(|it| words("status", it));
    let kinds = query.kind.as_deref().map(|it| words("kind", it));
    let before = query.before.as_deref().map(|text| {
        let parsed = text.parse::<SessionId>();
        parsed.map_err(|error| malformed("before", &error))
    });
    let limit = query.limit.map_or(PAGE, |limit| limit.0);
    let filter = Filter {
        statuses: statuses.transpose()?,
        kinds: kinds.transpose()?,
        workspace: query.workspace,
        text: query.text,
        prefix: query.prefix,
        before: before.transpose()?,
        limit: Some(limit),
    };
    let (mut found, mut damaged) = (Vec::new(), Vec::new());
    for one in store.list(filter).await? {
        match one {
            Ok(summary) => found.push(StoredSummary::from(summary)),
            Err(error) => damaged.push(finding(&server, &error)),
        }
    }
    let next = found.last().filter(|_| found.len() == limit);
    let next = next.map(|last| last.session);
    Ok(Json(sessions_page(&found, &damaged, next)))
}

fn sessions_page(found: &[StoredSummary], damaged: &[Value], next: Option<SessionId>) -> Value {
    json!({
        "v": 1,
        "kind": "stored_sessions",
        "items": found,
        "damaged": damaged,
        "next": next,
    })
}

pub(super) const SHOW: Doc = Doc::new(
    "A session's summary, its lease, and the newest stored fold of its journal",
    "StoredSession",
);

pub(super) async fn show(
    State(server): State<Server>,
    Session(summary): Session,
) -> Result<Json<Value>, Failed> {
    let (env, session) = (&server.env, summary.id);
    let lease = env.store.lease(session).await?;
    let decision = lease::verdict(env, &lease);
    let state = env.store.cached_state(session).await?;
    let stored = StoredSession {
        summary: summary.into(),
        lease: StoredLease::new(lease, decision),
        state: state.map(StoredState::from),
        inbox: env.store.pending(session).await?,
    };
    let mut answer = json!(stored);
    answer["v"] = 1.into();
    answer["kind"] = "stored_session".into();
    Ok(Json(answer))
}

pub(super) const RECORDS: Doc = Doc::new(
    "Read a journal as it is stored, with the hash of each record",
    "RecordPage",
)
.query(&[
    Parameter::number("after", "The number of the last known event", 0, i64::MAX),
    Parameter::number("limit", "How many records, at most 2000", 1, 2000),
]);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordsQuery {
    after: Option<u64>,
    limit: Option<Limit<MOST>>,
}

pub(super) async fn records(
    State(server): State<Server>,
    Session(summary): Session,
    Query(query): Query<RecordsQuery>,
) -> Result<Json<Value>, Failed> {
    let after = Seq(query.after.unwrap_or(0));
    check_position(&summary, after)?;
    let head = head(&server, &summary, after).await?;
    let limit = query.limit.map_or(PAGE, |limit| limit.0);
    let found = server.env.store.records(summary.id, head, limit).await?;
    let next = found.last().filter(|_| found.len() == limit);
    let next = next.map(|last| last.seq);
    let items = found.into_iter().map(StoredRecord::from);
    Ok(Json(json!({
        "v": 1,
        "kind": "records",
        "session": summary.id,
        "items": items.collect::<Vec<_>>(),
        "next": next,
    })))
}

/// The head of a journal after an event.
pub(super) async fn head(
    server: &Server,
    summary: &Summary,
    after: Seq,
) -> Result<Head, StoreError> {
    Ok(match after {
        Seq(0) => Head::genesis(summary.id),
        seq => Head {
            seq,
            hash: server.env.store.event(summary.id, seq).await?.hash,
        },
    })
}

pub(super) const MANIFESTS: Doc =
    Doc::new("The manifests of checkpoints, oldest first", "ManifestList")
        .query(&[Parameter::text("session", "Only those of this session")]);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ManifestsQuery {
    session: Option<String>,
}

pub(super) async fn manifests(
    State(server): State<Server>,
    Query(query): Query<ManifestsQuery>,
) -> Result<Json<Value>, Failed> {
    let summary = match &query.session {
        Some(reference) => Some(find(&server.env, reference).await?),
        None => None,
    };
    let (found, damaged) = checkpoint::list(&server.env, summary.as_ref()).await?;
    let damaged = damaged.iter().map(|error| finding(&server, error));
    Ok(Json(json!({
        "v": 1,
        "kind": "manifests",
        "items": found,
        "damaged": damaged.collect::<Vec<_>>(),
    })))
}

pub(super) const TRASH: Doc = Doc::new("List the sessions in the trash", "TrashList");

pub(super) async fn trash(State(server): State<Server>) -> Result<Json<Value>, Failed> {
    let (mut items, mut damaged) = (Vec::new(), Vec::new());
    for found in server.env.store.list_trash().await? {
        match found {
            Ok(trashed) => items.push(StoredTrash::from(trashed)),
            Err(error) => damaged.push(finding(&server, &error)),
        }
    }
    Ok(Json(
        json!({"v": 1, "kind": "trash", "items": items, "damaged": damaged}),
    ))
}

pub(super) const BLOB: Doc = Doc::file("Read a long text of a journal, by its digest");

pub(super) async fn blob(
    State(server): State<Server>,
    Path(digest): Path<String>,
) -> Result<Response, Failed> {
    let digest: Digest = digest.parse().map_err(|_| Refusal::Malformed {
        reason: "a digest has 64 hexadecimal digits".to_owned(),
    })?;
    let bytes = server.env.store.get(digest).await?;
    let mut response = (StatusCode::OK, Body::from(bytes)).into_response();
    let headers = response.headers_mut();
    // Never a page, whatever the text is.
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{digest}\"")) {
        headers.insert(ETAG, tag);
    }
    Ok(response)
}

pub(super) const CHANGES: Doc = Doc::new(
    "Follow which sessions change. `sessions` is null if any may have changed",
    "Changed",
)
.only_streams();

pub(super) async fn changes(State(server): State<Server>) -> Response {
    let frames = server.feed.changes(&server.env, server.stop.clone());
    stream_of(frames.map(Ok))
}
