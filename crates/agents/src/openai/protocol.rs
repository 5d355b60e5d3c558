//! Bodies and events of chat completions.

use segno_core::agent::{Error, ErrorKind, Event, Listener};
use segno_core::model::{Call, Message, Part, Reply, Stop, ToolCall};
use segno_core::usage::Usage;
use serde_json::{Map, Value, json};

use crate::http::{Inference, named, unexpected};

/// `vendor` if this goes to OpenAI itself, whose newer models know the limit by another name.
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
    if let Some(most) = inference.max_tokens {
        let key = if vendor {
            "max_completion_tokens"
        } else {
            "max_tokens"
        };
        body[key] = most.into();
    }
    if !call.tools.is_empty() {
        let tool = |tool: &segno_core::model::Tool| {
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
                    Part::Call(call) => Some(json!({
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": call.input.to_string()},
                    })),
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

/// An answer, as far as it has come.
#[derive(Default)]
pub(super) struct Reading {
    text: String,
    calls: Vec<Asked>,
    usage: Usage,
    stop: Option<Stop>,
}

#[derive(Default)]
struct Asked {
    id: String,
    name: String,
    arguments: String,
}

impl Reading {
    /// Takes an event in.
    pub(super) fn take(&mut self, data: &str, listener: &dyn Listener) -> Result<(), Error> {
        let event: Value = serde_json::from_str(data)
            .map_err(|error| unexpected(format!("an event is not JSON: {error}")))?;
        if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
            let word = |key: &str| error[key].as_str().unwrap_or_default();
            let name = if word("code").is_empty() {
                word("type")
            } else {
                word("code")
            };
            return Err(named(name, word("message")));
        }
        let choice = &event["choices"][0];
        let delta = &choice["delta"];
        if let Some(piece) = delta["content"].as_str() {
            listener.hear(Event::Text(piece));
            self.text.push_str(piece);
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.grow(call)?;
        }
        if let Some(word) = choice["finish_reason"].as_str() {
            self.stop = Some(stop(word));
        }
        if event["usage"].is_object() {
            let count = |key: &str| event["usage"][key].as_u64().unwrap_or_default();
            self.usage.input_tokens = count("prompt_tokens");
            self.usage.output_tokens = count("completion_tokens");
            listener.hear(Event::Usage(self.usage));
        }
        Ok(())
    }

    fn grow(&mut self, call: &Value) -> Result<(), Error> {
        let index = call["index"].as_u64().unwrap_or(self.calls.len() as u64);
        let index = usize::try_from(index).ok().filter(|index| *index < 1000);
        let index = index.ok_or_else(|| unexpected("more tools at once than anyone asks for"))?;
        if self.calls.len() <= index {
            self.calls.resize_with(index + 1, Asked::default);
        }
        let asked = &mut self.calls[index];
        for (piece, field) in [
            (&call["id"], &mut asked.id),
            (&call["function"]["name"], &mut asked.name),
            (&call["function"]["arguments"], &mut asked.arguments),
        ] {
            field.push_str(piece.as_str().unwrap_or_default());
        }
        Ok(())
    }

    pub(super) fn reply(self) -> Result<Reply, Error> {
        let Some(stop) = self.stop else {
            let what = if self.text.is_empty() && self.calls.is_empty() {
                "the server sent no answer"
            } else {
                "the answer was cut off"
            };
            return Err(Error::new(ErrorKind::Network, what));
        };
        let mut parts = Vec::new();
        if !self.text.is_empty() {
            parts.push(Part::Text { text: self.text });
        }
        // Some servers say `stop` and ask for tools all the same.
        let stop = if self.calls.is_empty() {
            stop
        } else {
            Stop::Tools
        };
        for (number, asked) in self.calls.into_iter().enumerate() {
            parts.push(Part::Call(asked.call(number)?));
        }
        Ok(Reply {
            parts,
            stop,
            usage: self.usage,
        })
    }
}

impl Asked {
    fn call(self, number: usize) -> Result<ToolCall, Error> {
        let input = if self.arguments.trim().is_empty() {
            Value::Object(Map::new())
        } else {
            serde_json::from_str(&self.arguments)
                .map_err(|error| unexpected(format!("a tool's input is not JSON: {error}")))?
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

fn stop(word: &str) -> Stop {
    match word {
        "tool_calls" | "function_call" => Stop::Tools,
        "length" => Stop::Length,
        "content_filter" => Stop::Refused,
        _ => Stop::End,
    }
}
