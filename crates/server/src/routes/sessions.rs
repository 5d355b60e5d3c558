//! Reads sessions.

use std::str::FromStr;

use axum::Json;
use axum::extract::{Path, State};
use segno_core::error::Diagnose;
use segno_core::id::SessionId;
use segno_core::session::Status;
use segno_core::store::Filter;
use segno_engine::resume::context;
use segno_sessions as sessions;
use segno_sessions::details::{self, Category, Cursor};
use segno_sessions::resume::{Options, plan};
use segno_sessions::search::{self as full_text, Query as SearchQuery};
use segno_sessions::{json as shapes, resume_context};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Server;
use crate::error::{Failed, Refusal};
use crate::request::{Limit, Query, Session};
use crate::routes::openapi::{Doc, Parameter};

/// How many sessions a page has, unless the client asks for another number.
const PAGE: usize = 50;

pub(super) const LIST: Doc = Doc::new("List sessions, newest first", "SessionPage").query(&[
    Parameter::text(
        "status",
        "Only sessions with one of these statuses, separated by commas",
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
    Parameter::number("limit", "How many sessions, at most 500", 1, 500),
]);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    status: Option<String>,
    kind: Option<String>,
    workspace: Option<String>,
    text: Option<String>,
    prefix: Option<String>,
    before: Option<String>,
    limit: Option<Limit<500>>,
}

pub(super) async fn list(
    State(server): State<Server>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Value>, Failed> {
    let env = &server.env;
    let wanted = query.status.as_deref().map(|it| words("status", it));
    let wanted: Option<Vec<Status>> = wanted.transpose()?;
    let kinds = query.kind.as_deref().map(|it| words("kind", it));
    let before = query.before.as_deref().map(|text| {
        let parsed = text.parse::<SessionId>();
        parsed.map_err(|error| malformed("before", &error))
    });
    let limit = query.limit.map_or(PAGE, |limit| limit.0);
    let filter = Filter {
        statuses: wanted.as_deref().map(in_journal),
        kinds: kinds.transpose()?,
        workspace: query.workspace,
        text: query.text,
        prefix: query.prefix,
        before: before.transpose()?,
        limit: Some(limit),
    };
    let (mut listed, damaged) = sessions::list(env, filter).await?;
    let next = listed.last().filter(|_| listed.len() == limit);
    let next = next.map(|last| last.summary.id);
    // A lost run is `running` in its journal.
    listed.retain(|one| wanted.as_ref().is_none_or(|it| it.contains(&one.status)));
    let waits = sessions::suspensions(env, &listed).await;
    let items = listed.iter().map(|one| {
        let waits = waits.get(&one.summary.id);
        shapes::session_line(one, waits.map(|(path, suspension)| (path, suspension)))
    });
    Ok(Json(json!({
        "v": 1,
        "kind": "sessions",
        "items": items.collect::<Vec<_>>(),
        "damaged": damaged.iter().map(|error| finding(&server, error)).collect::<Vec<_>>(),
        "next": next,
    })))
}

/// The words of a parameter, separated by commas.
pub(super) fn words<T: FromStr>(name: &str, text: &str) -> Result<Vec<T>, Refusal> {
    let words = text.split(',').map(|word| {
        let known = word.trim().parse::<T>();
        known.map_err(|_| malformed(name, &format!("`{word}` is not known")))
    });
    words.collect()
}

/// The statuses in journals that sessions with these statuses may have.
fn in_journal(wanted: &[Status]) -> Vec<Status> {
    let mut statuses = wanted.to_vec();
    if wanted.contains(&Status::Interrupted) && !wanted.contains(&Status::Running) {
        statuses.push(Status::Running);
    }
    statuses
}

pub(super) fn malformed(name: &str, error: &dyn std::fmt::Display) -> Refusal {
    Refusal::Malformed {
        reason: format!("{name}: {error}"),
    }
}

/// A session that cannot be shown.
pub(super) fn finding(server: &Server, error: &impl Diagnose) -> Value {
    let problem = server.env.redactor.redact(&error.to_string()).into_owned();
    json!({"v": 1, "kind": "finding", "severity": "damage", "code": error.code(), "problem": problem})
}

pub(super) const SHOW: Doc = Doc::new("Show a session with its steps", "Session");

pub(super) async fn show(
    State(server): State<Server>,
    Session(summary): Session,
) -> Result<Json<Value>, Failed> {
    let shown = sessions::show(&server.env, summary).await?;
    let now = server.env.clock.now();
    Ok(Json(shapes::session_details(&shown, now)))
}

pub(super) const OUTPUT: Doc = Doc::text("The result of a workflow that is completed");

pub(super) async fn output(
    State(server): State<Server>,
    Session(summary): Session,
) -> Result<String, Failed> {
    Ok(sessions::output(&server.env, &summary).await?)
}

pub(super) const STEPS: Doc = Doc::new("List the steps of a session", "StepList");

pub(super) async fn steps(
    State(server): State<Server>,
    Session(summary): Session,
) -> Result<Json<Value>, Failed> {
    let shown = sessions::show(&server.env, summary).await?;
    let mut details = shapes::session_details(&shown, server.env.clock.now());
    Ok(Json(
        json!({"v": 1, "kind": "steps", "items": details["steps"].take()}),
    ))
}

pub(super) const HISTORY: Doc = Doc::new(
    "Read decisions, errors, feedback, todos, tests, git_changes, steps or conversation, newest first",
    "HistoryPage",
)
.query(&[
    Parameter::text("cursor", "The value of `next` of the page before"),
    Parameter::number("limit", "How many items, at most 100", 1, 100),
]);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    cursor: Option<String>,
    limit: Option<Limit<{ details::MAX_ITEMS }>>,
}

pub(super) async fn history(
    State(server): State<Server>,
    Path((_, category)): Path<(String, String)>,
    Session(summary): Session,
    Query(query): Query<HistoryQuery>,
) -> Result<Json<Value>, Failed> {
    let mut known = Category::ALL.into_iter();
    let found = known.find(|known| known.as_str() == category);
    let category = found.ok_or_else(|| {
        let names = Category::ALL.map(Category::as_str).join(", ");
        malformed("category", &format!("use one of {names}"))
    })?;
    let cursor = query.cursor.as_deref().map(str::parse::<Cursor>);
    let cursor = cursor.transpose().map_err(|it| malformed("cursor", &it))?;
    let limit = query.limit.map_or(details::MAX_ITEMS, |limit| limit.0);
    let page = details::read(&server.env, &summary, category, cursor, limit).await?;
    Ok(Json(json!({
        "v": 1,
        "kind": "history",
        "category": category,
        "items": page.items,
        "next": page.next.map(|next| next.to_string()),
    })))
}

pub(super) const CONTEXT: Doc = Doc::new("The resume context that a new agent receives", "Context");

pub(super) async fn context(
    State(server): State<Server>,
    Session(summary): Session,
) -> Result<Json<Value>, Failed> {
    let source = resume_context::collect(&server.env, summary.clone()).await?;
    let compiled = source.compile();
    Ok(Json(json!({
        "v": 1,
        "kind": "context",
        "session": summary.id,
        "name": summary.name,
        "tokens": compiled.tokens(),
        "max_tokens": context::MAX_TOKENS,
        "fragments": compiled.fragments,
        "edited": source.edited,
    })))
}

pub(super) const RESUME_PLAN: Doc = Doc::new("What a resume would do", "ResumePlan");

pub(super) async fn resume_plan(
    State(server): State<Server>,
    Session(summary): Session,
) -> Result<Json<Value>, Failed> {
    let plan = plan::plan(&server.env, &summary, &Options::default()).await?;
    Ok(Json(shapes::plan(&summary, &plan)))
}

pub(super) const SEARCH: Doc = Doc::new(
    "Search prompts, answers and messages of all sessions",
    "MatchList",
)
.query(&[
    Parameter::text("q", "The text, in any case").required(),
    Parameter::text("workspace", "Only sessions in this folder"),
    Parameter::text("agent", "Only steps of this agent"),
    Parameter::number("limit", "How many matches, at most 500", 1, 500),
]);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchParameters {
    q: String,
    workspace: Option<String>,
    agent: Option<String>,
    limit: Option<Limit<500>>,
}

pub(super) async fn search(
    State(server): State<Server>,
    Query(query): Query<SearchParameters>,
) -> Result<Json<Value>, Failed> {
    if query.q.is_empty() {
        return Err(malformed("q", &"the search text is empty").into());
    }
    let wanted = SearchQuery {
        text: query.q,
        session: None,
        folder: query.workspace.map(Into::into),
        agent: query.agent,
        limit: query.limit.map_or(PAGE, |limit| limit.0),
    };
    let found = full_text::search(&server.env, &wanted, |_, _| {}).await?;
    Ok(Json(json!({
        "v": 1,
        "kind": "matches",
        "items": found.matches.iter().map(shapes::search_match).collect::<Vec<_>>(),
        "not_listed": found.not_listed,
        "damaged": found.damaged.iter().map(|error| finding(&server, error)).collect::<Vec<_>>(),
    })))
}
