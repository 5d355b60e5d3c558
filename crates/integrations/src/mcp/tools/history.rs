//! MCP tools that read and search the history of a session.

use segno_sessions::details::{self, Category, Cursor};
use segno_sessions::search::{self, Match, Query};
use serde::Deserialize;
use serde_json::{Value, json};

use super::checkpoints::find_checkpoint;
use super::schema::{count, object, text, word};
use super::{Effect, Tool, parse_args};
use crate::mcp::{BoundSession, Error};

/// Default page size.
const DEFAULT_LIMIT: usize = 20;

/// Maximum number of search results.
const MAX_RESULTS: usize = 50;

pub(super) fn definitions() -> Vec<Tool> {
    let limit = |most: usize| count("How many at most", 1, Some(most as u64));
    vec![
        Tool {
            name: "read_history",
            title: "Read the history",
            description: "Use it when you resume work that another agent started, and need more than a summary of one category. The newest come first; `next` of an answer is the `cursor` of the next page, and `checkpoint` asks for what was known then.",
            input_schema: object(
                &["category"],
                &json!({
                    "category": word("Of what", Category::ALL.iter().map(|category| category.as_str())),
                    "checkpoint": text("The id of a checkpoint of this session; what is known now if you leave it out"),
                    "cursor": text("Where the page begins; the newest if you leave it out"),
                    "limit": limit(details::MAX_ITEMS),
                }),
            ),
            effect: Effect::Reads,
        },
        Tool {
            name: "search_history",
            title: "Search the history",
            description: "Use it to find where something was asked, answered or said in this session. It finds the text as it stands, whatever its case.",
            input_schema: object(
                &["text"],
                &json!({"text": text("What is looked for"), "limit": limit(MAX_RESULTS)}),
            ),
            effect: Effect::Reads,
        },
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadArgs {
    category: Category,
    checkpoint: Option<String>,
    cursor: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn read(bound: &BoundSession, value: Value) -> Result<Value, Error> {
    let wanted: ReadArgs = parse_args(value)?;
    let cursor = wanted.cursor.as_deref().map(str::parse::<Cursor>);
    let cursor = cursor.transpose();
    let cursor = cursor.map_err(Error::Cursor)?;
    let limit = check_limit(wanted.limit, details::MAX_ITEMS)?;
    let (env, summary) = bound.session().await?;
    let category = wanted.category;
    let page = match wanted.checkpoint {
        None => details::read(env, &summary, category, cursor, limit).await?,
        Some(reference) => {
            let manifest = find_checkpoint(env, &summary, reference).await?;
            let reading = details::read_at(env, &manifest, category, cursor, limit);
            let absent = || Error::NoJournal {
                checkpoint: manifest.id,
            };
            reading.await?.ok_or_else(absent)?
        }
    };
    Ok(json!({
        "items": page.items,
        "next": page.next.map(|cursor| cursor.to_string()),
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArgs {
    text: String,
    limit: Option<usize>,
}

pub(super) async fn search(bound: &BoundSession, value: Value) -> Result<Value, Error> {
    let SearchArgs { text, limit } = parse_args(value)?;
    if text.trim().is_empty() {
        return Err(Error::EmptySearch);
    }
    let limit = check_limit(limit, MAX_RESULTS)?;
    let (env, summary) = bound.session().await?;
    let query = Query {
        text,
        session: Some(summary.id),
        folder: None,
        agent: None,
        limit,
    };
    let found = search::search(env, &query, |_, _| {}).await?;
    let shape = |find: &Match| {
        json!({
            "at": find.at.to_string(),
            "step": find.path,
            "entry": find.seq,
            "who": find.who,
            "snippet": find.snippet,
        })
    };
    let finds: Vec<Value> = found.matches.iter().map(shape).collect();
    Ok(json!({"finds": finds, "unlisted": found.not_listed}))
}

fn check_limit(limit: Option<usize>, most: usize) -> Result<usize, Error> {
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    if (1..=most).contains(&limit) {
        return Ok(limit);
    }
    Err(Error::Limit { most })
}
