//! Questions to people.

use axum::Json;
use axum::extract::State;
use segno_core::id::SessionId;
use segno_sessions::{answer, json as shapes};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Server;
use crate::error::{Failed, Refusal};
use crate::request::{Limit, Query, Session};
use crate::routes::openapi::{Doc, Parameter};
use crate::routes::sessions::finding;

/// How many questions a page has, unless the client asks for another number.
const PAGE: usize = 100;

pub(super) const OF_SESSION: Doc = Doc::new("The open questions of a session", "QuestionList");

pub(super) async fn of_session(
    State(server): State<Server>,
    Session(summary): Session,
) -> Result<Json<Value>, Failed> {
    let open = answer::open_questions(&server.env, &summary).await?;
    let items: Vec<Value> = open.iter().map(shapes::question).collect();
    Ok(Json(json!({"v": 1, "kind": "questions", "items": items})))
}

pub(super) const ALL: Doc = Doc::new(
    "The open questions of all sessions, newest session first",
    "QuestionPage",
)
.query(&[
    Parameter::text("before", "The value of `next` of the page before"),
    Parameter::number("limit", "How many questions, at most 500", 1, 500),
]);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AllQuery {
    before: Option<String>,
    limit: Option<Limit<500>>,
}

pub(super) async fn all(
    State(server): State<Server>,
    Query(query): Query<AllQuery>,
) -> Result<Json<Value>, Failed> {
    let before = query.before.as_deref().map(str::parse::<SessionId>);
    let before = before.transpose().map_err(|error| Refusal::Malformed {
        reason: format!("before: {error}"),
    })?;
    let limit = query.limit.map_or(PAGE, |limit| limit.0);
    let page = answer::all_open_questions(&server.env, before, limit).await?;
    let items = page.items.iter();
    let items = items.map(|(summary, asked)| shapes::question_of(summary, asked));
    Ok(Json(json!({
        "v": 1,
        "kind": "questions",
        "items": items.collect::<Vec<_>>(),
        "damaged": page.damaged.iter().map(|error| finding(&server, error)).collect::<Vec<_>>(),
        "next": page.next,
    })))
}
