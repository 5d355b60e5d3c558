//! What an agent can ask for.

mod history;
mod memos;
mod schema;
mod work;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Desk;
use super::rpc::{self, Fault};
use crate::failure::Failure;

/// What a tool does, as clients that ask people for leave want to know it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It looks.
    Reads,
    /// It adds to what is kept.
    Adds,
}

/// A tool, as it is offered.
struct Tool {
    name: &'static str,
    title: &'static str,
    /// When it is of use, in two sentences.
    about: &'static str,
    takes: Value,
    effect: Effect,
}

/// All tools, as the protocol shows them.
pub(super) fn list() -> Vec<Value> {
    let shape = |tool: Tool| {
        json!({
            "name": tool.name,
            "title": tool.title,
            "description": tool.about,
            "inputSchema": tool.takes,
            "annotations": {
                "title": tool.title,
                "readOnlyHint": tool.effect == Effect::Reads,
                "destructiveHint": false,
                "openWorldHint": false,
            },
        })
    };
    let all = memos::offered().into_iter().chain(history::offered());
    all.chain(work::offered()).map(shape).collect()
}

/// Calls a tool. What it cannot do is an answer for the model, which may do it better the next time;
/// only a tool that is not there is a fault.
pub(super) async fn call(desk: &Desk, mut params: Map<String, Value>) -> Result<Value, Fault> {
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
        "record_decision" => memos::decision(desk, given).await,
        "record_error" => memos::error(desk, given).await,
        "resolve_error" => memos::resolve(desk, given).await,
        "record_feedback" => memos::feedback(desk, given).await,
        "address_feedback" => memos::address(desk, given).await,
        "add_todo" => memos::add_todo(desk, given).await,
        "update_todo" => memos::update_todo(desk, given).await,
        "record_tests" => memos::tests(desk, given).await,
        "withdraw" => memos::withdraw(desk, given).await,
        "read_history" => history::read(desk, given).await,
        "search_history" => history::search(desk, given).await,
        "checkpoint" => work::checkpoint(desk, given).await,
        "pause" => work::pause(desk, given).await,
        "status" => work::status(desk, given).await,
        _ => {
            let reason = "there is no such tool; `tools/list` names all";
            return Err(Fault::new(rpc::WRONG_PARAMS, reason));
        }
    };
    let (text, failed) = match outcome {
        Ok(answer) => (answer.to_string(), false),
        Err(failure) => (desk.told(&failure), true),
    };
    Ok(json!({"content": [{"type": "text", "text": text}], "isError": failed}))
}

/// What a tool was given, checked.
fn given<T: DeserializeOwned>(given: Value) -> Result<T, Failure> {
    serde_json::from_value(given).map_err(|error| {
        let hint = "`tools/list` says what each tool takes".to_owned();
        Failure::usage(format!("the arguments cannot be used: {error}"), Some(hint))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_takes_nothing_but_what_it_names() {
        let all = list();
        assert_eq!(all.len(), 14);
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
