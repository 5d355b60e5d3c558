//! Tools that read a session's past.

use segno_engine::details::{self, Category, Cursor};
use segno_engine::search::{self, Find, Query};
use serde::Deserialize;
use serde_json::{Value, json};

use super::schema::{count, object, text, word};
use super::{Effect, Tool, given};
use crate::failure::Failure;
use crate::mcp::Desk;

/// How many items there are on a page unless more are wanted.
const USUAL: usize = 20;

/// How many finds are told at most.
const MOST_FINDS: usize = 50;

pub(super) fn offered() -> Vec<Tool> {
    let limit = |most: usize| count("How many at most", 1, Some(most as u64));
    vec![
        Tool {
            name: "read_history",
            title: "Read the history",
            about: "Use it when you go on with work that was begun before you, and need more than a summary of one category. The newest come first; `next` of an answer is the `cursor` of the next page.",
            takes: object(
                &["category"],
                &json!({
                    "category": word("Of what", Category::ALL.iter().map(|category| category.as_str())),
                    "cursor": text("Where the page begins; the newest if you leave it out"),
                    "limit": limit(details::MOST),
                }),
            ),
            effect: Effect::Reads,
        },
        Tool {
            name: "search_history",
            title: "Search the history",
            about: "Use it to find where something was asked, answered or said in this session. It finds the text as it stands, whatever its case.",
            takes: object(
                &["text"],
                &json!({"text": text("What is looked for"), "limit": limit(MOST_FINDS)}),
            ),
            effect: Effect::Reads,
        },
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    category: Category,
    cursor: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn read(desk: &Desk, value: Value) -> Result<Value, Failure> {
    let wanted: Wanted = given(value)?;
    let cursor = wanted.cursor.as_deref().map(str::parse::<Cursor>);
    let cursor = cursor.transpose();
    let cursor = cursor.map_err(|reason| Failure::usage(reason, None))?;
    let limit = within(wanted.limit, details::MOST)?;
    let (world, summary) = desk.session().await?;
    let page = details::read(world, &summary, wanted.category, cursor, limit).await?;
    Ok(json!({
        "items": page.items,
        "next": page.next.map(|cursor| cursor.to_string()),
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Looked {
    text: String,
    limit: Option<usize>,
}

pub(super) async fn search(desk: &Desk, value: Value) -> Result<Value, Failure> {
    let Looked { text, limit } = given(value)?;
    if text.trim().is_empty() {
        return Err(Failure::usage("there is nothing to look for", None));
    }
    let limit = within(limit, MOST_FINDS)?;
    let (world, summary) = desk.session().await?;
    let query = Query {
        text,
        session: Some(summary.id),
        folder: None,
        agent: None,
        limit,
    };
    let found = search::search(world, &query, |_, _| {}).await?;
    let shape = |find: &Find| {
        json!({
            "at": find.at,
            "step": find.path,
            "entry": find.seq,
            "who": find.who,
            "snippet": find.snippet,
        })
    };
    let finds: Vec<Value> = found.finds.iter().map(shape).collect();
    Ok(json!({"finds": finds, "unlisted": found.unlisted}))
}

fn within(limit: Option<usize>, most: usize) -> Result<usize, Failure> {
    let limit = limit.unwrap_or(USUAL);
    if (1..=most).contains(&limit) {
        return Ok(limit);
    }
    Err(Failure::usage(
        format!("`limit` must be from 1 to {most}"),
        None,
    ))
}
