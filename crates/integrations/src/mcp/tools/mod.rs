//! The tools of the MCP server: definitions and dispatch.

mod checkpoints;
mod history;
mod notes;
mod schema;
mod state;
mod work;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::rpc::{self, Fault};
use super::{BoundSession, Error};

/// What a tool does. Clients use it to decide whether to ask the user for approval.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Reads only.
    Reads,
    /// Adds to what is stored.
    Adds,
}

/// The definition of a tool.
struct Tool {
    name: &'static str,
    title: &'static str,
    /// When to use the tool, in two sentences.
    description: &'static str,
    input_schema: Value,
    effect: Effect,
}

/// Lists all tools as the protocol defines them.
pub(super) fn list() -> Vec<Value> {
    let shape = |tool: Tool| {
        json!({
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": tool.input_schema,
            "annotations": {
                "title": tool.title,
                "readOnlyHint": tool.effect == Effect::Reads,
                "destructiveHint": false,
                "openWorldHint": false,
            },
        })
    };
    let all = notes::definitions()
        .into_iter()
        .chain(history::definitions());
    all.chain(checkpoints::definitions())
        .chain(state::definitions())
        .chain(work::definitions())
        .map(shape)
        .collect()
}

/// Calls a tool. An error of the tool is an answer for the model, which may correct its call; only
/// an unknown tool is a protocol error.
pub(super) async fn call(
    bound: &BoundSession,
    mut params: Map<String, Value>,
) -> Result<Value, Fault> {
    let Some(Value::String(name)) = params.remove("name") else {
        return Err(Fault::new(rpc::WRONG_PARAMS, "`name` must be a text"));
    };
    let given = match params.remove("arguments") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(given)) => given,
        Some(_) => {
            return Err(Fault::new(
                rpc::WRONG_PARAMS,
                "`arguments` must be an object",
            ));
        }
    };
    let given = Value::Object(given);
    let outcome = match name.as_str() {
        "record_decision" => notes::decision(bound, given).await,
        "record_error" => notes::error(bound, given).await,
        "resolve_error" => notes::resolve(bound, given).await,
        "record_feedback" => notes::feedback(bound, given).await,
        "address_feedback" => notes::address(bound, given).await,
        "add_todo" => notes::add_todo(bound, given).await,
        "update_todo" => notes::update_todo(bound, given).await,
        "record_tests" => notes::tests(bound, given).await,
        "withdraw" => notes::withdraw(bound, given).await,
        "read_history" => history::read(bound, given).await,
        "search_history" => history::search(bound, given).await,
        "list_checkpoints" => checkpoints::list(bound, given).await,
        "show_checkpoint" => checkpoints::show(bound, given).await,
        "get_state" => state::get(bound, given).await,
        "set_state" => state::set(bound, given).await,
        "checkpoint" => work::checkpoint(bound, given).await,
        "pause" => work::pause(bound, given).await,
        "status" => work::status(bound, given).await,
        _ => {
            let reason = "there is no such tool; `tools/list` names all";
            return Err(Fault::new(rpc::WRONG_PARAMS, reason));
        }
    };
    let (text, failed) = match outcome {
        Ok(answer) => (answer.to_string(), false),
        Err(error) => (bound.error_text(&error), true),
    };
    Ok(json!({"content": [{"type": "text", "text": text}], "isError": failed}))
}

/// Parses the arguments of a tool.
fn parse_args<T: DeserializeOwned>(given: Value) -> Result<T, Error> {
    serde_json::from_value(given).map_err(Error::Arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_schemas_allow_no_other_arguments() {
        let all = list();
        assert_eq!(all.len(), 18);
        for tool in all {
            let schema = &tool["inputSchema"];
            assert_eq!(schema["type"], "object", "{tool}");
            assert_eq!(schema["additionalProperties"], false, "{tool}");
            let properties = schema["properties"].as_object().unwrap();
            assert!(!properties.contains_key("session"), "{tool}");
            for required in schema["required"].as_array().unwrap() {
                assert!(
                    properties.contains_key(required.as_str().unwrap()),
                    "{tool}"
                );
            }
            let sentences = tool["description"].as_str().unwrap().matches(". ").count();
            assert!((1..=2).contains(&sentences), "{tool}");
        }
    }
}
