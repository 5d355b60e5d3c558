//! Request bodies and events of the Converse API.

use std::collections::BTreeMap;

use segno_core::agent::{Error, ErrorKind, Event, Listener};
use segno_core::model::{Call, Message, Part, Reply, Stop};
use segno_core::tool::{Tool, ToolCall};
use segno_core::usage::Usage;
use serde_json::{Map, Value, json};

use super::errors;
use super::frames::Frame;
use crate::http::{Inference, protocol_error};

/// More blocks than any answer has.
const MAX_BLOCKS: usize = 1000;

pub(super) fn request(inference: &Inference, call: &Call<'_>) -> Value {
    let mut body = json!({"messages": messages(call.messages)});
    if !call.system.is_empty() {
        body["system"] = json!([{"text": call.system}]);
    }
    let settings = [
        ("maxTokens", inference.max_tokens.map(Value::from)),
        ("temperature", inference.temperature.map(Value::from)),
        ("topP", inference.top_p.map(Value::from)),
    ];
    for (key, value) in settings {
        if let Some(value) = value {
            body["inferenceConfig"][key] = value;
        }
    }
    if !call.tools.is_empty() {
        let tools: Vec<Value> = call.tools.iter().map(tool).collect();
        body["toolConfig"] = json!({"tools": tools});
    }
    body
}

fn tool(tool: &Tool) -> Value {
    let mut spec = json!({"name": tool.name, "inputSchema": {"json": tool.schema}});
    // Bedrock rejects an empty description.
    if !tool.description.is_empty() {
        spec["description"] = tool.description.as_str().into();
    }
    json!({"toolSpec": spec})
}

/// Bedrock requires alternating roles, so consecutive messages of one role become one message.
fn messages(said: &[Message]) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in said {
        let (role, content) = match message {
            Message::User { text } => ("user", vec![json!({"text": text})]),
            Message::Assistant { parts } => ("assistant", parts.iter().filter_map(part).collect()),
            Message::Tools { results } => ("user", results.iter().map(result).collect()),
        };
        match turns.last_mut() {
            Some((last, so_far)) if *last == role => so_far.extend(content),
            _ if content.is_empty() => {}
            _ => turns.push((role, content)),
        }
    }
    let turn = |(role, content): (&str, Vec<Value>)| json!({"role": role, "content": content});
    turns.into_iter().map(turn).collect()
}

fn part(part: &Part) -> Option<Value> {
    match part {
        // Bedrock rejects blank text.
        Part::Text { text } if text.trim().is_empty() => None,
        Part::Text { text } => Some(json!({"text": text})),
        Part::Call(call) => {
            let (id, name, input) = (&call.id, &call.name, &call.input);
            Some(json!({"toolUse": {"toolUseId": id, "name": name, "input": input}}))
        }
        Part::Raw { value } => Some(value.clone()),
    }
}

fn result(result: &segno_core::tool::ToolResult) -> Value {
    let mut json = json!({"toolUseId": result.id, "content": [{"text": result.output}]});
    // Not all models accept it, and it is optional.
    if result.is_error {
        json["status"] = "error".into();
    }
    json!({"toolResult": json})
}

/// A reply, as far as it has arrived.
#[derive(Default)]
pub(super) struct ReplyBuilder {
    blocks: BTreeMap<u64, Block>,
    usage: Usage,
    stop: Option<String>,
}

/// A content block, as far as it has arrived. Only tool calls are announced; the type of other
/// blocks shows in their deltas.
#[derive(Default)]
struct Block {
    text: String,
    tool: Option<(String, String)>,
    input: String,
    thought: Map<String, Value>,
    hidden: Option<Value>,
}

impl ReplyBuilder {
    /// Handles a frame; returns the reply if it was the last one.
    pub(super) fn handle(
        &mut self,
        frame: &Frame,
        listener: &dyn Listener,
    ) -> Result<Option<Reply>, Error> {
        let payload = || -> Result<Value, Error> {
            serde_json::from_slice(&frame.payload)
                .map_err(|error| protocol_error(format!("an event is not JSON: {error}")))
        };
        match frame.header(":message-type") {
            "event" => {}
            "exception" => {
                let json = payload().unwrap_or_default();
                let message = json["message"].as_str().unwrap_or("no message");
                return Err(errors::stream_error(
                    frame.header(":exception-type"),
                    message,
                ));
            }
            "error" => {
                let message = frame.header(":error-message");
                return Err(errors::stream_error(frame.header(":error-code"), message));
            }
            // Ignores unknown message types: the vendor may add some.
            _ => return Ok(None),
        }
        match frame.header(":event-type") {
            "contentBlockStart" => self.begin(&payload()?)?,
            "contentBlockDelta" => self.apply_delta(&payload()?, listener)?,
            "messageStop" => {
                let reason = payload()?["stopReason"].as_str().map(str::to_owned);
                self.stop = Some(reason.unwrap_or_default());
            }
            "metadata" => {
                self.count_usage(&payload()?["usage"], listener);
                if self.stop.is_some() {
                    return self.reply().map(Some);
                }
            }
            _ => {}
        }
        Ok(None)
    }

    fn block(&mut self, event: &Value) -> Result<&mut Block, Error> {
        let index = event["contentBlockIndex"].as_u64();
        let index = index.ok_or_else(|| protocol_error("a delta without a content block"))?;
        if self.blocks.len() >= MAX_BLOCKS && !self.blocks.contains_key(&index) {
            return Err(protocol_error("the response has too many content blocks"));
        }
        Ok(self.blocks.entry(index).or_default())
    }

    fn begin(&mut self, event: &Value) -> Result<(), Error> {
        let tool = &event["start"]["toolUse"];
        let block = self.block(event)?;
        if let (Some(id), Some(name)) = (tool["toolUseId"].as_str(), tool["name"].as_str()) {
            block.tool = Some((id.to_owned(), name.to_owned()));
        }
        Ok(())
    }

    fn apply_delta(&mut self, event: &Value, listener: &dyn Listener) -> Result<(), Error> {
        let delta = &event["delta"];
        let block = self.block(event)?;
        if let Some(piece) = delta["text"].as_str() {
            listener.on_event(Event::Text(piece));
            block.text.push_str(piece);
        }
        if let Some(piece) = delta["toolUse"]["input"].as_str() {
            block.input.push_str(piece);
        }
        let thought = &delta["reasoningContent"];
        for key in ["text", "signature"] {
            if let Some(piece) = thought[key].as_str() {
                match block.thought.get_mut(key) {
                    Some(Value::String(so_far)) => so_far.push_str(piece),
                    _ => drop(block.thought.insert(key.to_owned(), piece.into())),
                }
            }
        }
        if let Some(hidden) = thought.get("redactedContent") {
            block.hidden = Some(hidden.clone());
        }
        Ok(())
    }

    fn count_usage(&mut self, usage: &Value, listener: &dyn Listener) {
        let count = |key: &str| usage[key].as_u64().unwrap_or_default();
        // Cache reads and writes are counted separately.
        let input = [
            "inputTokens",
            "cacheReadInputTokens",
            "cacheWriteInputTokens",
        ];
        let input = input.iter().map(|key| count(key));
        self.usage.input_tokens = input.fold(0, u64::saturating_add);
        self.usage.output_tokens = count("outputTokens");
        listener.on_event(Event::Usage(self.usage));
    }

    /// The reply, at the end of the stream.
    pub(super) fn reply(&mut self) -> Result<Reply, Error> {
        let Some(word) = self.stop.take() else {
            let what = if self.blocks.is_empty() {
                "the server sent no response"
            } else {
                "the response was cut off"
            };
            return Err(Error::new(ErrorKind::Network, what));
        };
        let mut stop = stop_reason(&word)?;
        let mut parts = Vec::new();
        for block in std::mem::take(&mut self.blocks).into_values() {
            match block.part() {
                Ok(part) => parts.extend(part),
                // A truncated call is dropped.
                Err(_) if stop == Stop::Length => {}
                Err(error) => return Err(error),
            }
        }
        let calls = parts.iter().any(|part| matches!(part, Part::Call(_)));
        if calls && stop == Stop::End {
            stop = Stop::Tools;
        }
        Ok(Reply {
            parts,
            stop,
            usage: self.usage,
        })
    }
}

impl Block {
    fn part(self) -> Result<Option<Part>, Error> {
        if let Some((id, name)) = self.tool {
            let input = if self.input.trim().is_empty() {
                Value::Object(Map::new())
            } else {
                serde_json::from_str(&self.input).map_err(|error| {
                    protocol_error(format!("a tool's input is not JSON: {error}"))
                })?
            };
            return Ok(Some(Part::Call(ToolCall { id, name, input })));
        }
        let raw = |value: Value| Part::Raw {
            value: json!({"reasoningContent": value}),
        };
        Ok(if let Some(hidden) = self.hidden {
            Some(raw(json!({"redactedContent": hidden})))
        } else if !self.thought.is_empty() {
            Some(raw(json!({"reasoningText": self.thought})))
        } else if self.text.is_empty() {
            None
        } else {
            Some(Part::Text { text: self.text })
        })
    }
}

fn stop_reason(word: &str) -> Result<Stop, Error> {
    Ok(match word {
        "tool_use" => Stop::Tools,
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        "guardrail_intervened" | "content_filtered" => Stop::Refused,
        "malformed_model_output" | "malformed_tool_use" => {
            return Err(protocol_error(format!("the model failed: {word}")));
        }
        _ => Stop::End,
    })
}

#[cfg(test)]
mod tests {
    use segno_core::digest::Digest;
    use segno_core::tool::ToolResult;

    use super::*;

    fn call<'a>(messages: &'a [Message], tools: &'a [Tool]) -> Call<'a> {
        Call {
            key: Digest::of(b"key"),
            system: "",
            messages,
            tools,
        }
    }

    fn user(text: &str) -> Message {
        Message::User { text: text.into() }
    }

    #[test]
    fn roles_alternate_and_blank_text_is_dropped() {
        let thought = json!({"reasoningContent": {"reasoningText": {"text": "hm"}}});
        let said = [
            user("one"),
            user("two"),
            Message::Assistant {
                parts: vec![
                    Part::Raw {
                        value: thought.clone(),
                    },
                    Part::Text { text: " ".into() },
                    Part::Call(ToolCall {
                        id: "c1".into(),
                        name: "f".into(),
                        input: json!({"x": 1}),
                    }),
                ],
            },
            Message::Tools {
                results: vec![ToolResult {
                    id: "c1".into(),
                    output: "bad".into(),
                    is_error: true,
                }],
            },
            user("three"),
            Message::Assistant { parts: vec![] },
            user("four"),
        ];
        let body = request(&Inference::default(), &call(&said, &[]));
        let call = json!({"toolUse": {"toolUseId": "c1", "name": "f", "input": {"x": 1}}});
        let result = json!({"toolUseId": "c1", "content": [{"text": "bad"}], "status": "error"});
        assert_eq!(
            body,
            json!({"messages": [
                {"role": "user", "content": [{"text": "one"}, {"text": "two"}]},
                {"role": "assistant", "content": [thought, call]},
                {"role": "user", "content": [
                    {"toolResult": result}, {"text": "three"}, {"text": "four"},
                ]},
            ]})
        );
    }

    #[test]
    fn token_sums_saturate() {
        struct NoListener;
        impl Listener for NoListener {
            fn on_event(&self, _: Event<'_>) {}
        }
        let mut builder = ReplyBuilder::default();
        let usage = json!({"inputTokens": u64::MAX, "cacheReadInputTokens": 1});
        builder.count_usage(&usage, &NoListener);
        assert_eq!(builder.usage.input_tokens, u64::MAX);
    }

    #[test]
    fn tools_and_inference_settings_are_sent() {
        let tools = [Tool {
            name: "f".into(),
            description: String::new(),
            schema: json!({"type": "object"}),
        }];
        let inference = Inference {
            temperature: Some(0.5),
            top_p: Some(0.25),
            max_tokens: Some(9),
        };
        let body = request(&inference, &call(&[user("hi")], &tools));
        let spec = json!({"name": "f", "inputSchema": {"json": {"type": "object"}}});
        assert_eq!(body["toolConfig"], json!({"tools": [{"toolSpec": spec}]}));
        let settings = json!({"maxTokens": 9, "temperature": 0.5, "topP": 0.25});
        assert_eq!(body["inferenceConfig"], settings);
    }
}
