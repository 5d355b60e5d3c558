//! The resources of the MCP server: the resume context, and its parts by category.

use segno_sessions::details::{self, Category};
use segno_sessions::resume_context;
use serde_json::{Map, Value, json};

use super::rpc::{self, Fault};
use super::{BoundSession, Error};

/// All resources: URI, title, description, content.
const ALL: [(&str, &str, &str, Part); 6] = [
    (
        "segno://session/context",
        "Resume context",
        "The resume context of this session: what the next agent must know",
        Part::Context,
    ),
    (
        "segno://session/decisions",
        "Decisions",
        "What was decided, and why; newest first",
        Part::Category(Category::Decisions),
    ),
    (
        "segno://session/errors",
        "Errors",
        "What went wrong, and what became of it; newest first",
        Part::Category(Category::Errors),
    ),
    (
        "segno://session/feedback",
        "Feedback",
        "What reviewers said; newest first",
        Part::Category(Category::Feedback),
    ),
    (
        "segno://session/git-changes",
        "Git changes",
        "How the repository stands, and what others changed in it",
        Part::Category(Category::GitChanges),
    ),
    (
        "segno://session/todos",
        "Things to do",
        "What is to do, and how far it is; newest first",
        Part::Category(Category::Todos),
    ),
];

#[derive(Clone, Copy)]
enum Part {
    Context,
    Category(Category),
}

impl Part {
    const fn form(self) -> &'static str {
        match self {
            Self::Context => "text/markdown",
            Self::Category(_) => "application/json",
        }
    }
}

/// Lists all resources as the protocol defines them.
pub(super) fn list() -> Vec<Value> {
    let shape = |(uri, title, about, part): &(&str, &str, &str, Part)| {
        let name = uri.rsplit('/').next();
        json!({
            "uri": uri,
            "name": name,
            "title": title,
            "description": about,
            "mimeType": part.form(),
        })
    };
    ALL.iter().map(shape).collect()
}

pub(super) async fn read(
    bound: &BoundSession,
    params: &Map<String, Value>,
) -> Result<Value, Fault> {
    let Some(uri) = params.get("uri").and_then(Value::as_str) else {
        return Err(Fault::new(rpc::WRONG_PARAMS, "`uri` must be a text"));
    };
    let known = ALL.iter().find(|(known, ..)| *known == uri);
    let Some((uri, .., part)) = known else {
        let reason = "there is no such resource; `resources/list` names all";
        return Err(Fault::new(rpc::NO_RESOURCE, reason));
    };
    let text = text(bound, *part).await;
    let text = text.map_err(|error| Fault::new(rpc::INTERNAL, bound.error_text(&error)))?;
    Ok(json!({"contents": [{"uri": uri, "mimeType": part.form(), "text": text}]}))
}

async fn text(bound: &BoundSession, part: Part) -> Result<String, Error> {
    let (env, summary) = bound.session().await?;
    match part {
        Part::Context => {
            let whole = resume_context::collect(env, summary).await?;
            let text = whole.edited.clone();
            let text = text.unwrap_or_else(|| whole.compile().text());
            Ok(resume_context::quote(&text, &*env.random))
        }
        Part::Category(category) => {
            let page = details::read(env, &summary, category, None, details::MAX_ITEMS).await?;
            let next = page.next.map(|cursor| cursor.to_string());
            Ok(json!({"items": page.items, "next": next}).to_string())
        }
    }
}
