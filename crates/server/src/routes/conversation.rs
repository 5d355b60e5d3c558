//! The conversation of a session, and the plan that it works through.

use axum::Json;
use axum::extract::State;
use segno_sessions::conversation::{self, Cursor, MAX_MESSAGES};
use segno_sessions::{json as shapes, work};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Server;
use crate::error::{Failed, Refusal};
use crate::request::{Limit, Query, Session};
use crate::routes::openapi::{Doc, Parameter};

pub(super) const CONVERSATION: Doc = Doc::new(
    "Read the messages of a session and its agents, oldest first",
    "ConversationPage",
)
.query(&[
    Parameter::text("after", "The value of `next` of the page before"),
    Parameter::number("limit", "How many messages, at most 100", 1, 100),
]);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConversationQuery {
    after: Option<String>,
    limit: Option<Limit<MAX_MESSAGES>>,
}

pub(super) async fn conversation(
    State(server): State<Server>,
    Session(summary): Session,
    Query(query): Query<ConversationQuery>,
) -> Result<Json<Value>, Failed> {
    let after = query.after.as_deref().map(str::parse::<Cursor>);
    let after = after.transpose().map_err(|error| Refusal::Malformed {
        reason: format!("after: {error}"),
    })?;
    let limit = query.limit.map_or(MAX_MESSAGES, |limit| limit.0);
    let page = conversation::read(&server.env, &summary, after, limit).await?;
    Ok(Json(json!({
        "v": 1,
        "kind": "conversation",
        "session": summary.id,
        "items": page.messages,
        "next": page.next.map(|next| next.to_string()),
    })))
}

pub(super) const PLAN: Doc = Doc::new(
    "The plan that a session works through, with the status of each task; null without one",
    "SessionPlan",
);

pub(super) async fn plan(
    State(server): State<Server>,
    Session(summary): Session,
) -> Result<Json<Value>, Failed> {
    let plan = work::plan(&server.env, &summary).await?;
    Ok(Json(json!({
        "v": 1,
        "kind": "session_plan",
        "session": summary.id,
        "name": summary.name,
        "plan": plan.as_ref().map(shapes::work_plan),
    })))
}
