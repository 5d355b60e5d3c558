//! The journal of sessions: as pages, and as streams.

use std::convert::Infallible;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};
use segno_core::id::SessionId;
use segno_core::journal::Seq;
use segno_core::store::Summary;
use segno_sessions as sessions;
use segno_sessions::json as shapes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::stored;
use crate::Server;
use crate::error::{Failed, Refusal};
use crate::feed::Reader;
use crate::request::{Query, Session};
use crate::routes::openapi::{Doc, Parameter};

/// How many events a page has.
const PAGE: usize = 200;
/// How many sessions one stream follows.
const MAX_SESSIONS: usize = 50;

const AFTER: Parameter =
    Parameter::number("after", "The number of the last known event", 0, i64::MAX);

pub(super) const EVENTS: Doc = Doc::new(
    "Read the journal; with `Accept: text/event-stream`, follow it",
    "EventPage",
)
.query(&[AFTER])
.streams();

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    after: Option<u64>,
}

pub(super) async fn events(
    State(server): State<Server>,
    Session(summary): Session,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let after = Seq(query.after.unwrap_or(0));
    if wants_stream(&headers) {
        let after = last_event_id(&headers)?.map_or(Ok(after), |ids| match ids[..] {
            [seq] => Ok(seq),
            _ => Err(not_an_id()),
        })?;
        return stream(&server, vec![(summary, after)]).await;
    }
    Ok(Json(page(&server, &summary, after).await?).into_response())
}

async fn page(server: &Server, summary: &Summary, after: Seq) -> Result<Value, Failed> {
    check_position(summary, after)?;
    let head = stored::head(server, summary, after).await?;
    let events = server.env.store.read(summary.id, head, PAGE).await?;
    let next = events.last().filter(|_| events.len() == PAGE);
    Ok(json!({
        "v": 1,
        "kind": "events",
        "items": events.iter().map(|event| shapes::entry(summary.id, event)).collect::<Vec<_>>(),
        "next": next.map(|last| last.seq),
    }))
}

pub(super) const FEED: Doc = Doc::new("Follow the journals of several sessions", "EventPage")
    .query(&[
        Parameter::text(
            "sessions",
            "Session ids or names, separated by commas, at most 50",
        )
        .required(),
        Parameter::text(
            "after",
            "The numbers of the last known events in the order of `sessions`, separated by commas",
        ),
    ])
    .only_streams();

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FeedQuery {
    sessions: String,
    after: Option<String>,
}

pub(super) async fn feed(
    State(server): State<Server>,
    Query(query): Query<FeedQuery>,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let references: Vec<&str> = query.sessions.split(',').collect();
    if references.len() > MAX_SESSIONS {
        let reason = format!("a stream follows at most {MAX_SESSIONS} sessions");
        return Err(Refusal::Malformed { reason }.into());
    }
    let positions = match last_event_id(&headers)? {
        Some(positions) => positions,
        None => match &query.after {
            Some(after) => numbers(after)?,
            None => vec![Seq(0); references.len()],
        },
    };
    if positions.len() != references.len() {
        return Err(not_an_id().into());
    }
    let mut followed = Vec::new();
    for (reference, after) in references.iter().zip(positions) {
        followed.push((sessions::find(&server.env, reference).await?, after));
    }
    stream(&server, followed).await
}

async fn stream(server: &Server, followed: Vec<(Summary, Seq)>) -> Result<Response, Failed> {
    let mut positions: Vec<(SessionId, Seq)> = Vec::new();
    for (summary, after) in &followed {
        check_position(summary, *after)?;
        positions.push((summary.id, *after));
    }
    let reader = Reader::open(&server.env, &server.feed, positions, server.stop.clone()).await?;
    Ok(stream_of(reader.frames().map(Ok)))
}

/// A response that sends frames as they come.
pub(super) fn stream_of(
    frames: impl Stream<Item = Result<String, Infallible>> + Send + 'static,
) -> Response {
    let mut response = Body::from_stream(frames).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // A proxy in between must not collect events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

pub(super) fn check_position(summary: &Summary, after: Seq) -> Result<(), Refusal> {
    if after <= summary.head.seq {
        return Ok(());
    }
    Err(Refusal::Malformed {
        reason: format!(
            "event {after} of session {} does not exist; the newest is {}",
            summary.name, summary.head.seq
        ),
    })
}

fn wants_stream(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter();
    accepted.any(|value| {
        value
            .to_str()
            .is_ok_and(|it| it.contains("text/event-stream"))
    })
}

/// Where a client that reconnects stopped.
fn last_event_id(headers: &HeaderMap) -> Result<Option<Vec<Seq>>, Refusal> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let text = value.to_str().map_err(|_| not_an_id())?;
    numbers(text).map(Some)
}

fn numbers(text: &str) -> Result<Vec<Seq>, Refusal> {
    let numbers = text.split(',').map(|number| number.trim().parse().map(Seq));
    numbers.collect::<Result<_, _>>().map_err(|_| not_an_id())
}

fn not_an_id() -> Refusal {
    Refusal::Malformed {
        reason: "the position has one number for each session".to_owned(),
    }
}
