//! Writes the turns of a conversation as records of a rollout.

use std::collections::HashSet;

use segno_core::conversation::turns::{Loss, Losses, ModelPart, Turn};
use segno_core::conversation::{Answer, Image, Origin, Outcome, Part};
use segno_core::time::Timestamp;
use serde_json::{Value, json};

use crate::transcript::{Target, TimedTurn, ToolCallFormat};

/// The version whose format this is.
const VERSION: &str = "0.166.0";

/// A function takes an object, and a custom tool takes a string.
pub(crate) const TOOL_CALL_FORMAT: ToolCallFormat = ToolCallFormat {
    input: |input| (input.is_object() || input.is_string()).then(|| input.clone()),
};

/// The session's metadata and one record for each part of the conversation.
pub(crate) fn records(turns: &[TimedTurn], target: &Target, losses: &mut Losses) -> Vec<Vec<u8>> {
    let started = turns.first().map_or(target.now, |(when, _)| *when);
    let mut rollout = Rollout {
        records: Vec::new(),
        custom_calls: HashSet::new(),
    };
    let meta = json!({
        "id": target.session,
        "timestamp": started.to_string(),
        "cwd": target.cwd,
        "originator": "segno",
        "cli_version": VERSION,
        "source": "exec",
    });
    rollout.record(started, "session_meta", &meta);
    for (when, turn) in turns {
        rollout.turn(*when, turn, losses);
    }
    rollout.records
}

struct Rollout {
    records: Vec<Vec<u8>>,
    /// The calls whose input is a string.
    custom_calls: HashSet<String>,
}

impl Rollout {
    fn record(&mut self, when: Timestamp, kind: &str, payload: &Value) {
        let record = json!({"timestamp": when.to_string(), "type": kind, "payload": payload});
        self.records.push(record.to_string().into_bytes());
    }

    fn turn(&mut self, when: Timestamp, turn: &Turn, losses: &mut Losses) {
        let items: Vec<_> = match turn {
            Turn::User { origin, parts, .. } => {
                if *origin == Origin::CliAgent {
                    losses.add(Loss::Origin);
                }
                let content: Vec<_> = parts.iter().map(item).collect();
                vec![json!({"type": "message", "role": "user", "content": content})]
            }
            Turn::Assistant { parts, .. } => {
                parts.iter().map(|part| self.assistant_item(part)).collect()
            }
            Turn::Results { answers, .. } => answers
                .iter()
                .map(|answer| {
                    if answer.outcome == Outcome::Failed {
                        losses.add(Loss::Outcome);
                    }
                    self.answer(answer)
                })
                .collect(),
        };
        for item in items {
            self.record(when, "response_item", &item);
        }
    }

    fn assistant_item(&mut self, part: &ModelPart) -> Value {
        let call = match part {
            ModelPart::Text(text) => {
                let content = json!([{"type": "output_text", "text": text}]);
                return json!({"type": "message", "role": "assistant", "content": content});
            }
            ModelPart::Call(call) => call,
        };
        match &call.input {
            Value::String(text) => {
                self.custom_calls.insert(call.id.clone());
                json!({
                    "type": "custom_tool_call",
                    "call_id": call.id,
                    "name": call.name,
                    "input": text,
                })
            }
            input => json!({
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": input.to_string(),
            }),
        }
    }

    fn answer(&self, answer: &Answer) -> Value {
        let kind = if self.custom_calls.contains(&answer.id) {
            "custom_tool_call_output"
        } else {
            "function_call_output"
        };
        let output = match answer.parts.as_slice() {
            [Part::Text { text }] => json!(text),
            [] => json!(""),
            parts => parts.iter().map(item).collect(),
        };
        json!({"type": kind, "call_id": answer.id, "output": output})
    }
}

fn item(part: &Part) -> Value {
    match part {
        Part::Text { text } => json!({"type": "input_text", "text": text}),
        Part::Image {
            media_type,
            content,
        } => {
            let url = match content {
                Image::Url(url) => url.clone(),
                Image::Inline(data) => format!("data:{media_type};base64,{data}"),
                Image::External { .. } => String::new(),
            };
            json!({"type": "input_image", "image_url": url})
        }
        Part::Raw { value } => value.clone(),
    }
}
