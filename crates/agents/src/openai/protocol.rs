//! Request bodies and events of chat completions.

use segno_core::agent::{Error, ErrorKind, Event, Listener};
use segno_core::model::{Call, Message, Part, Reply, Stop};
use segno_core::tool::ToolCall;
use segno_core::usage::Usage;
use serde_json::{Map, Value, json};

use crate::http::{Inference, protocol_error, stream_error, unwrap_list};

/// `vendor` is set for OpenAI itself, whose newer models use another name for the token limit.
pub(super) fn request(model: &str, inference: &Inference, vendor: bool, call: &Call<'_>) -> Value {
    let mut messages = Vec::new();
    if !call.system.is_empty() {
        messages.push(json!({"role": "system", "content": call.system}));
    }
    call.messages
        .iter()
        .for_each(|said| message(said, &mut messages));
    let mut body = json!({
        "model": model,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    for (key, value) in [
        ("temperature", inference.temperature),
        ("top_p", inference.top_p),
    ] {
        if let Some(value) = value {
            body[key] = value.into();
        }
    }
    if let Some(limit) = inference.max_tokens {
        let key = if vendor {
            "max_completion_tokens"
        } else {
            "max_tokens"
        };
        body[key] = limit.into();
    }
    if !call.tools.is_empty() {
        let tool = |tool: &segno_core::tool::Tool| {
            json!({
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                },
            })
        };
        body["tools"] = call.tools.iter().map(tool).collect();
    }
    body
}

fn message(message: &Message, into: &mut Vec<Value>) {
    match message {
        Message::User { text } => into.push(json!({"role": "user", "content": text})),
        Message::Assistant { parts } => {
            let text: String = parts
                .iter()
                .filter_map(|part| match part {
                    Part::Text { text } => Some(text.as_str()),
                    _ => None,
                })
                .collect();
            let calls: Vec<Value> = parts
                .iter()
                .filter_map(|part| match part {
                    Part::Call(call) => Some(call_json(call, parts)),
                    _ => None,
                })
                .collect();
            let mut said = json!({"role": "assistant", "content": text});
            if !calls.is_empty() {
                said["tool_calls"] = calls.into();
            }
            into.push(said);
        }
        Message::Tools { results } => {
            for result in results {
                into.push(json!({
                    "role": "tool",
                    "tool_call_id": result.id,
                    "content": result.output,
                }));
            }
        }
    }
}

/// A call, with the extra content that its vendor wants back.
fn call_json(call: &ToolCall, parts: &[Part]) -> Value {
    let mut json = json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.input.to_string()},
    });
    let extra = parts.iter().find_map(|part| match part {
        Part::Raw { value } if value["tool_call"] == call.id.as_str() => value.get(EXTRA),
        _ => None,
    });
    if let Some(extra) = extra {
        json[EXTRA] = extra.clone();
    }
    json
}

/// The field in which Gemini puts signatures of its thoughts; without them it rejects what follows
/// a call.
const EXTRA: &str = "extra_content";

/// A reply, as far as it has arrived.
#[derive(Default)]
pub(super) struct ReplyBuilder {
    text: String,
    calls: Vec<PartialCall>,
    usage: Usage,
    stop: Option<Stop>,
}

#[derive(Default)]
struct PartialCall {
    id: String,
    name: String,
    arguments: String,
    extra: Option<Value>,
}

impl ReplyBuilder {
    pub(super) fn handle(&mut self, data: &str, listener: &dyn Listener) -> Result<(), Error> {
        let event: Value = serde_json::from_str(data)
            .map_err(|error| protocol_error(format!("an event is not JSON: {error}")))?;
        let error = unwrap_list(&event).get("error");
        if let Some(error) = error.filter(|error| !error.is_null()) {
            let word = |key: &str| error[key].as_str().unwrap_or_default();
            let names = ["code", "type", "status"].map(word);
            let name = names.into_iter().find(|name| !name.is_empty());
            return Err(stream_error(name.unwrap_or_default(), word("message")));
        }
        let choice = &event["choices"][0];
        let delta = &choice["delta"];
        if let Some(piece) = delta["content"].as_str() {
            listener.on_event(Event::Text(piece));
            self.text.push_str(piece);
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.apply_delta(call)?;
        }
        if let Some(word) = choice["finish_reason"].as_str() {
            self.stop = Some(stop_reason(word)?);
        }
        if event["usage"].is_object() {
            let count = |key: &str| event["usage"][key].as_u64().unwrap_or_default();
            self.usage.input_tokens = count("prompt_tokens");
            // Gemini counts thinking tokens in the total only.
            let rest = count("total_tokens").saturating_sub(self.usage.input_tokens);
            self.usage.output_tokens = count("completion_tokens").max(rest);
            listener.on_event(Event::Usage(self.usage));
        }
        Ok(())
    }

    fn apply_delta(&mut self, call: &Value) -> Result<(), Error> {
        let index = call["index"].as_u64().unwrap_or(self.calls.len() as u64);
        let index = usize::try_from(index).ok().filter(|index| *index < 1000);
        let index = index.filter(|_| self.calls.len() < 1000);
        let mut index =
            index.ok_or_else(|| protocol_error("the response has too many tool calls"))?;
        if self
            .calls
            .get(index)
            .is_some_and(|known| known.is_other(call))
        {
            // A chunk of the newest call, or the next call: Gemini numbers all of them 0.
            let newest = self.calls.len() - 1;
            index = newest + usize::from(self.calls[newest].is_other(call));
        }
        if self.calls.len() <= index {
            self.calls.resize_with(index + 1, PartialCall::default);
        }
        let partial = &mut self.calls[index];
        let word = |piece: &Value| piece.as_str().unwrap_or_default().to_owned();
        // Some servers repeat id and name in every chunk.
        for (piece, field) in [
            (&call["id"], &mut partial.id),
            (&call["function"]["name"], &mut partial.name),
        ] {
            if *field != word(piece) {
                field.push_str(&word(piece));
            }
        }
        partial.arguments += &word(&call["function"]["arguments"]);
        if let Some(extra) = call.get(EXTRA).filter(|extra| !extra.is_null()) {
            partial.extra = Some(extra.clone());
        }
        Ok(())
    }

    pub(super) fn reply(self) -> Result<Reply, Error> {
        let Some(stop) = self.stop else {
            let what = if self.text.is_empty() && self.calls.is_empty() {
                "the server sent no response"
            } else {
                "the response was cut off"
            };
            return Err(Error::new(ErrorKind::Network, what));
        };
        let mut parts = Vec::new();
        if !self.text.is_empty() {
            parts.push(Part::Text { text: self.text });
        }
        // Some servers report `stop` and request tools all the same.
        let stop = if self.calls.is_empty() {
            stop
        } else {
            Stop::Tools
        };
        for (number, partial) in self.calls.into_iter().enumerate() {
            let extra = partial.extra.clone();
            let call = partial.call(number)?;
            if let Some(extra) = extra {
                let value = json!({"tool_call": call.id, EXTRA: extra});
                parts.push(Part::Raw { value });
            }
            parts.push(Part::Call(call));
        }
        Ok(Reply {
            parts,
            stop,
            usage: self.usage,
        })
    }
}

impl PartialCall {
    /// Whether a chunk belongs to another call than this one.
    fn is_other(&self, piece: &Value) -> bool {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (id, name) = (word(&piece["id"]), word(&piece["function"]["name"]));
        let whole = || serde_json::from_str::<Value>(&self.arguments).is_ok();
        if id.is_empty() || self.id.is_empty() {
            !name.is_empty() && !self.name.is_empty() && whole()
        } else {
            id != self.id
        }
    }

    fn call(self, number: usize) -> Result<ToolCall, Error> {
        let input = if self.arguments.trim().is_empty() {
            Value::Object(Map::new())
        } else {
            serde_json::from_str(&self.arguments)
                .map_err(|error| protocol_error(format!("a tool's input is not JSON: {error}")))?
        };
        let id = if self.id.is_empty() {
            format!("call_{number}")
        } else {
            self.id
        };
        Ok(ToolCall {
            id,
            name: self.name,
            input,
        })
    }
}

/// Gemini also uses its own values, alone or after a colon.
fn stop_reason(word: &str) -> Result<Stop, Error> {
    let (first, second) = word.split_once(": ").unwrap_or((word, word));
    Ok(match (first, second) {
        ("tool_calls" | "function_call", _) => Stop::Tools,
        ("length" | "MAX_TOKENS", _) => Stop::Length,
        ("function_call_filter", _) | (_, "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL") => {
            return Err(protocol_error(format!("the model failed: {word}")));
        }
        ("content_filter", _)
        | (_, "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII") => {
            Stop::Refused
        }
        _ => Stop::End,
    })
}

#[cfg(test)]
mod tests;
