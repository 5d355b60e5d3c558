//! Request bodies and events of the Messages API.

use segno_core::agent::{Error, ErrorKind, Event, Listener};
use segno_core::model::{Call, Message, Part, Reply, Stop};
use segno_core::tool::ToolCall;
use segno_core::usage::Usage;
use serde_json::{Map, Value, json};

use crate::http::{Inference, protocol_error, stream_error};

/// The API requires a limit; this is the largest that all its models accept.
const MAX_TOKENS: u32 = 8192;

pub(super) fn request(model: &str, inference: &Inference, call: &Call<'_>) -> Value {
    let messages: Vec<Value> = call.messages.iter().map(message).collect();
    let mut body = json!({
        "model": model,
        "max_tokens": inference.max_tokens.unwrap_or(MAX_TOKENS),
        "messages": messages,
        "stream": true,
    });
    if !call.system.is_empty() {
        body["system"] = call.system.into();
    }
    for (key, value) in [
        ("temperature", inference.temperature),
        ("top_p", inference.top_p),
    ] {
        if let Some(value) = value {
            body[key] = value.into();
        }
    }
    if !call.tools.is_empty() {
        let tool = |tool: &segno_core::tool::Tool| {
            json!({
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.schema,
            })
        };
        body["tools"] = call.tools.iter().map(tool).collect();
    }
    body
}

fn message(message: &Message) -> Value {
    match message {
        Message::User { text } => json!({"role": "user", "content": text}),
        Message::Assistant { parts } => {
            let parts: Vec<Value> = parts.iter().map(part).collect();
            json!({"role": "assistant", "content": parts})
        }
        Message::Tools { results } => {
            let results: Vec<Value> = results
                .iter()
                .map(|result| {
                    json!({
                        "type": "tool_result",
                        "tool_use_id": result.id,
                        "content": result.output,
                        "is_error": result.is_error,
                    })
                })
                .collect();
            json!({"role": "user", "content": results})
        }
    }
}

fn part(part: &Part) -> Value {
    match part {
        Part::Text { text } => json!({"type": "text", "text": text}),
        Part::Call(call) => {
            json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input})
        }
        Part::Raw { value } => value.clone(),
    }
}

/// A reply, as far as it has arrived.
#[derive(Default)]
pub(super) struct ReplyBuilder {
    blocks: Vec<Block>,
    usage: Usage,
    stop: Option<Stop>,
}

/// A content block, and the JSON of a tool's input as far as it has arrived.
struct Block {
    value: Value,
    input: String,
}

impl ReplyBuilder {
    /// Handles an event; returns the reply if it was the last one.
    pub(super) fn handle(
        &mut self,
        data: &str,
        listener: &dyn Listener,
    ) -> Result<Option<Reply>, Error> {
        let event: Value = serde_json::from_str(data)
            .map_err(|error| protocol_error(format!("an event is not JSON: {error}")))?;
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => self.count_usage(&event["message"]["usage"], listener),
            "content_block_start" => self.blocks.push(Block {
                value: event["content_block"].clone(),
                input: String::new(),
            }),
            "content_block_delta" => self.apply_delta(&event, listener)?,
            "message_delta" => {
                self.stop = event["delta"]["stop_reason"].as_str().map(stop_reason);
                self.count_usage(&event["usage"], listener);
            }
            "message_stop" => return self.reply().map(Some),
            "error" => {
                let error = &event["error"];
                let word = |key: &str| error[key].as_str().unwrap_or_default();
                return Err(stream_error(word("type"), word("message")));
            }
            // Ignores unknown events: the vendor may add some.
            _ => {}
        }
        Ok(None)
    }

    fn apply_delta(&mut self, event: &Value, listener: &dyn Listener) -> Result<(), Error> {
        let index = event["index"]
            .as_u64()
            .and_then(|n| usize::try_from(n).ok());
        let block = index.and_then(|index| self.blocks.get_mut(index));
        let block = block
            .ok_or_else(|| protocol_error("a delta for a content block that was not started"))?;
        let delta = &event["delta"];
        for (key, field) in [
            ("text", "text"),
            ("thinking", "thinking"),
            ("signature", "signature"),
        ] {
            if let Some(piece) = delta[key].as_str() {
                if key == "text" {
                    listener.on_event(Event::Text(piece));
                }
                let Some(fields) = block.value.as_object_mut() else {
                    return Err(protocol_error(
                        "a delta for a content block that is not an object",
                    ));
                };
                match fields.get_mut(field) {
                    Some(Value::String(so_far)) => so_far.push_str(piece),
                    _ => drop(fields.insert(field.to_owned(), piece.into())),
                }
            }
        }
        if let Some(piece) = delta["partial_json"].as_str() {
            block.input.push_str(piece);
        }
        Ok(())
    }

    fn count_usage(&mut self, usage: &Value, listener: &dyn Listener) {
        let count = |key: &str| usage[key].as_u64();
        let input = [
            "input_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
        ];
        if count("input_tokens").is_some() {
            let input = input.iter().filter_map(|key| count(key));
            self.usage.input_tokens = input.fold(0, u64::saturating_add);
        }
        if let Some(output) = count("output_tokens") {
            self.usage.output_tokens = output;
        }
        listener.on_event(Event::Usage(self.usage));
    }

    fn reply(&mut self) -> Result<Reply, Error> {
        let blocks = std::mem::take(&mut self.blocks);
        let parts: Result<Vec<Part>, Error> = blocks.into_iter().map(Block::part).collect();
        let stop = self.stop.ok_or_else(|| self.cut_off())?;
        Ok(Reply {
            parts: parts?,
            stop,
            usage: self.usage,
        })
    }

    pub(super) fn cut_off(&self) -> Error {
        let what = if self.blocks.is_empty() && self.stop.is_none() {
            "the server sent no response"
        } else {
            "the response was cut off"
        };
        Error::new(ErrorKind::Network, what)
    }
}

impl Block {
    fn part(self) -> Result<Part, Error> {
        match self.value["type"].as_str() {
            Some("text") => Ok(Part::Text {
                text: self.value["text"].as_str().unwrap_or_default().to_owned(),
            }),
            Some("tool_use") => {
                let word = |key: &str| self.value[key].as_str().unwrap_or_default().to_owned();
                let input = if self.input.is_empty() {
                    Value::Object(Map::new())
                } else {
                    serde_json::from_str(&self.input).map_err(|error| {
                        protocol_error(format!("a tool's input is not JSON: {error}"))
                    })?
                };
                Ok(Part::Call(ToolCall {
                    id: word("id"),
                    name: word("name"),
                    input,
                }))
            }
            _ => Ok(Part::Raw { value: self.value }),
        }
    }
}

fn stop_reason(word: &str) -> Stop {
    match word {
        "tool_use" => Stop::Tools,
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        "refusal" => Stop::Refused,
        _ => Stop::End,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NoListener;

    impl Listener for NoListener {
        fn on_event(&self, _: Event<'_>) {}
    }

    #[test]
    fn delta_for_a_block_without_fields_is_an_error() {
        for block in [json!("words"), json!([]), json!(7), Value::Null] {
            let mut builder = ReplyBuilder::default();
            let start = json!({"type": "content_block_start", "content_block": block});
            let piece =
                json!({"type": "content_block_delta", "index": 0, "delta": {"text": "more"}});
            assert_eq!(builder.handle(&start.to_string(), &NoListener), Ok(None));
            let error = builder.handle(&piece.to_string(), &NoListener).unwrap_err();
            assert!(error.message.contains("is not an object"), "{error}");
        }
    }

    #[test]
    fn token_sums_saturate() {
        let mut builder = ReplyBuilder::default();
        let usage = json!({"input_tokens": u64::MAX, "cache_read_input_tokens": 1});
        let event = json!({"type": "message_start", "message": {"usage": usage}});
        let taken = builder.handle(&event.to_string(), &NoListener);
        assert_eq!(taken, Ok(None));
        assert_eq!(builder.usage.input_tokens, u64::MAX);
    }
}
