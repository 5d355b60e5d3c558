//! MCP tools that read and change what the agent stored.

use std::time::Duration;

use segno_core::agent_state::{Expected, Key};
use segno_sessions::agent_state::{self, Change, Changed};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::schema::{anything, object, text};
use super::{Effect, Tool, parse_args};
use crate::mcp::{BoundSession, Error};

/// How long to wait until the session's run has decided a change.
const RUN_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) fn definitions() -> Vec<Tool> {
    vec![
        Tool {
            name: "get_state",
            title: "Get what you stored",
            description: "Use it to read values that you stored in an earlier step or run. Without `key` it returns all of them.",
            input_schema: object(&[], &json!({"key": text("Its key")})),
            effect: Effect::Reads,
        },
        Tool {
            name: "set_state",
            title: "Store a value",
            description: "Use it for small facts that your later steps need exactly: a counter, a cursor, an id. Long content belongs into files.",
            input_schema: object(
                &["key", "value"],
                &json!({
                    "key": text("A letter or `_`, then letters, digits and `_`"),
                    "value": anything("Any JSON value; null deletes the key"),
                    "expected": anything("Store it only if this is the value now; null: only if there is none"),
                }),
            ),
            effect: Effect::Adds,
        },
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GetArgs {
    key: Option<Key>,
}

pub(super) async fn get(bound: &BoundSession, value: Value) -> Result<Value, Error> {
    let GetArgs { key } = parse_args(value)?;
    let (env, summary) = bound.session().await?;
    let agent = bound.state_owner(env, &summary).await?;
    let states = agent_state::read(env, &summary).await?;
    if let Some(key) = key {
        let stored = states.get(&agent, &key);
        return Ok(json!({"key": key, "value": stored.map(|stored| &stored.value)}));
    }
    let values = states.values(&agent);
    let values = values.map(|(key, stored)| (key.to_string(), stored.value.clone()));
    Ok(json!({"values": values.collect::<Map<_, _>>()}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetArgs {
    key: Key,
    value: Value,
    #[serde(default, deserialize_with = "present")]
    expected: Option<Value>,
}

/// A field that is there, `null` included.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

pub(super) async fn set(bound: &BoundSession, value: Value) -> Result<Value, Error> {
    let SetArgs {
        key,
        value,
        expected,
    } = parse_args(value)?;
    let _turn = bound.write_order.lock().await;
    let (env, summary) = bound.session().await?;
    let change = Change {
        agent: bound.state_owner(env, &summary).await?,
        key,
        value: (!value.is_null()).then_some(value),
        expected: expected.map(Expected::of),
    };
    let changed = agent_state::change(env, &summary, bound.author(), change, RUN_TIMEOUT).await?;
    Ok(match changed {
        Changed::Written => json!({"stored": true}),
        Changed::Posted => json!({
            "stored": false,
            "note": "the request is safe, and the session's run decides it when it can; read the value before you rely on it",
        }),
    })
}
