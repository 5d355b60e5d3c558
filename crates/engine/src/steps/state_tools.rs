//! The tools with which an API model reads and changes the state of its agent.
//!
//! A change and the result of its tool call share one commit, so a crash leaves both or neither, and
//! no change is applied twice (P6).

use std::sync::Arc;

use segno_core::agent_state::{Expected, Key};
use segno_core::journal::AgentStateChanged;
use segno_core::note::Source;
use segno_core::tool::{EffectClass, OfferedTool, Tool, ToolCall};
use serde_json::{Map, Value, json};
use tokio::sync::MutexGuard;

use super::Runner;
use super::step::Step;
use crate::agent_state::Request;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateTool {
    Get,
    Set,
}

/// The result of a tool call, and the change that belongs to it.
pub(super) struct StateResult<'a> {
    pub(super) output: Result<String, String>,
    pub(super) change: Option<DecidedChange<'a>>,
}

/// A change that takes effect as soon as it is durable.
pub(super) struct DecidedChange<'a> {
    pub(super) event: AgentStateChanged,
    /// No other change is decided before this is dropped.
    _turn: MutexGuard<'a, ()>,
}

impl StateTool {
    pub(super) const ALL: [Self; 2] = [Self::Get, Self::Set];

    /// The name in specs.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Get => "state_get",
            Self::Set => "state_set",
        }
    }

    pub(super) fn offer(self) -> OfferedTool {
        let key = json!({"type": "string", "description": "letters, digits and `_`"});
        let (description, properties, required, class) = match self {
            Self::Get => (
                "Returns a value that you stored in an earlier step, as JSON, or null. Without `key` it returns all of them.",
                json!({"key": key}),
                json!([]),
                EffectClass::ReadOnly,
            ),
            Self::Set => (
                "Stores a JSON value under a key for your later steps. It survives interruptions. `null` deletes the key.",
                json!({
                    "key": key,
                    "value": {"description": "any JSON value"},
                    "expected": {"description": "store it only if this is the value now; null: only if there is none"},
                }),
                json!(["key", "value"]),
                EffectClass::Repeatable,
            ),
        };
        OfferedTool {
            tool: Tool {
                name: self.name().to_owned(),
                description: description.to_owned(),
                schema: json!({
                    "type": "object",
                    "properties": properties,
                    "required": required,
                }),
            },
            class,
        }
    }
}

impl Runner {
    /// Runs a tool for the agent of a step. The caller appends the change with the tool's result.
    pub(super) async fn run_state_tool(
        &self,
        tool: StateTool,
        step: &Step<'_>,
        call: &ToolCall,
    ) -> StateResult<'_> {
        let read = match tool {
            StateTool::Get => self.get_state(step, &call.input),
            StateTool::Set => match self.set_state(step, &call.input).await {
                Ok(change) => {
                    let done = match change.event.value {
                        Some(_) => "stored",
                        None => "deleted",
                    };
                    return StateResult {
                        output: Ok(done.to_owned()),
                        change: Some(change),
                    };
                }
                Err(reason) => Err(reason),
            },
        };
        StateResult {
            output: read,
            change: None,
        }
    }

    fn get_state(&self, step: &Step<'_>, input: &Value) -> Result<String, String> {
        let input = arguments(input, &["key"])?;
        let states = self
            .journal
            .with_state(|state| Arc::clone(&state.agent_states));
        let found = match input.get("key") {
            None | Some(Value::Null) => {
                let values = states.values(step.agent);
                let values = values.map(|(key, stored)| (key.to_string(), stored.value.clone()));
                Value::Object(values.collect())
            }
            Some(key) => {
                let stored = states.get(step.agent, &read_key(key)?);
                stored.map_or(Value::Null, |stored| stored.value.clone())
            }
        };
        Ok(found.to_string())
    }

    async fn set_state(&self, step: &Step<'_>, input: &Value) -> Result<DecidedChange<'_>, String> {
        let input = arguments(input, &["key", "value", "expected"])?;
        let key = read_key(input.get("key").ok_or("`key` is missing")?)?;
        let value = input.get("value").ok_or("`value` is missing")?.clone();
        let request = Request {
            change: AgentStateChanged {
                agent: step.agent.to_owned(),
                key,
                value: (!value.is_null()).then_some(value),
                source: Source::Agent,
                by: step.executed_by.to_owned(),
                path: Some(step.path.clone()),
                request: None,
            },
            expected: input.get("expected").cloned().map(Expected::of),
        };
        let turn = self.journal.agent_state_turn().await;
        let states = self
            .journal
            .with_state(|state| Arc::clone(&state.agent_states));
        let event = request.decide(&self.env, &states);
        Ok(DecidedChange {
            event: event.map_err(|refused| refused.to_string())?,
            _turn: turn,
        })
    }
}

/// The arguments, if all are known.
fn arguments<'a>(input: &'a Value, known: &[&str]) -> Result<&'a Map<String, Value>, String> {
    let given = input.as_object().ok_or("the input must be an object")?;
    match given.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(format!("`{name}` is not a parameter of this tool")),
        None => Ok(given),
    }
}

fn read_key(value: &Value) -> Result<Key, String> {
    let text = value.as_str().ok_or("`key` must be of type string")?;
    Key::new(text).map_err(|error| error.to_string())
}
