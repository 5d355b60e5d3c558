//! MCP tools that show checkpoints of the session.

use segno_core::checkpoint::Manifest;
use segno_core::store::Summary;
use segno_engine::Env;
use segno_sessions::checkpoint::{self, Content};
use segno_sessions::json::{Section, checkpoint_overview, checkpoint_sections};
use serde::Deserialize;
use serde_json::{Value, json};

use super::schema::{count, object, text};
use super::{Effect, Tool, parse_args};
use crate::mcp::{BoundSession, Error};

/// Default number of listed checkpoints.
const DEFAULT_LIMIT: usize = 10;

/// Maximum number of listed checkpoints.
const MAX_CHECKPOINTS: usize = 50;

pub(super) fn definitions() -> Vec<Tool> {
    vec![
        Tool {
            name: "list_checkpoints",
            title: "List checkpoints",
            description: "Use it to find a checkpoint of this session: when and why it was taken, and how far the work was. The newest come first.",
            input_schema: object(
                &[],
                &json!({"limit": count("How many at most", 1, Some(MAX_CHECKPOINTS as u64))}),
            ),
            effect: Effect::Reads,
        },
        Tool {
            name: "show_checkpoint",
            title: "Show a checkpoint",
            description: "Use it to learn what was known at a checkpoint: plan, decisions, errors, feedback, tests, git and usage. `read_history` with `checkpoint` reads one of them page by page.",
            input_schema: object(
                &["checkpoint"],
                &json!({"checkpoint": text("Its id, or a part of it at the beginning or end")}),
            ),
            effect: Effect::Reads,
        },
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArgs {
    limit: Option<usize>,
}

pub(super) async fn list(bound: &BoundSession, value: Value) -> Result<Value, Error> {
    let ListArgs { limit } = parse_args(value)?;
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_CHECKPOINTS).contains(&limit) {
        return Err(Error::Limit {
            most: MAX_CHECKPOINTS,
        });
    }
    let (env, summary) = bound.session().await?;
    let (mut manifests, _) = checkpoint::list(env, Some(&summary)).await?;
    let count = manifests.len();
    manifests.reverse();
    manifests.truncate(limit);
    let overviews = checkpoint::overviews(env, &manifests).await;
    let shape = |manifest: &Manifest| checkpoint_overview(manifest, overviews.get(&manifest.id));
    let listed: Vec<Value> = manifests.iter().map(shape).collect();
    Ok(json!({"checkpoints": listed, "unlisted": count - listed.len()}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShowArgs {
    checkpoint: String,
}

pub(super) async fn show(bound: &BoundSession, value: Value) -> Result<Value, Error> {
    let ShowArgs { checkpoint } = parse_args(value)?;
    let (env, summary) = bound.session().await?;
    let manifest = find_checkpoint(env, &summary, checkpoint).await?;
    let content = Content::of(env, &manifest).await?;
    let overview = content.as_ref().map(|content| &content.overview);
    let mut shape = checkpoint_overview(&manifest, overview);
    for (name, value) in checkpoint_sections(&Section::ALL, &manifest, content.as_ref()) {
        shape[name] = value;
    }
    Ok(shape)
}

/// The checkpoint that an agent means. It must be one of its session.
pub(super) async fn find_checkpoint(
    env: &Env,
    summary: &Summary,
    reference: String,
) -> Result<Manifest, Error> {
    let manifest = checkpoint::find(env, &reference).await?;
    if manifest.session != summary.id {
        return Err(Error::OtherSession { reference });
    }
    Ok(manifest)
}
