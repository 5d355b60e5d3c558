//! Writes the turns of a conversation as records of Claude Code.

use segno_core::conversation::turns::{Loss, Losses, ModelPart, Turn};
use segno_core::conversation::{Answer, Image, Origin, Outcome, Part, Tokens};
use serde_json::{Value, json};

use super::encode::{Body, encode_like};
use crate::transcript::{Object, Target, TimedTurn, ToolCallFormat, uuid};

/// The version whose format this is.
const VERSION: &str = "2.1.325";

/// A call's input is an object; a string becomes its only member.
pub(crate) const TOOL_CALL_FORMAT: ToolCallFormat = ToolCallFormat {
    input: |input| match input {
        Value::Object(_) => Some(input.clone()),
        Value::String(text) => Some(json!({"input": text})),
        _ => None,
    },
};

/// One record for each turn, each the child of the previous one.
pub(crate) fn records(turns: &[TimedTurn], target: &Target, losses: &mut Losses) -> Vec<Vec<u8>> {
    let mut parent: Option<String> = None;
    let mut records = Vec::new();
    for (number, (when, turn)) in turns.iter().enumerate() {
        let position = number.to_string();
        let fields = [b"written", target.session.as_bytes(), position.as_bytes()];
        let id = uuid(&fields);
        let mut template = Object::new();
        let mut set = |key: &str, value: Value| template.insert(key.to_owned(), value);
        set("timestamp", json!(when.to_string()));
        set("userType", json!("external"));
        set("cwd", json!(target.cwd));
        set("sessionId", json!(target.session));
        set("version", json!(VERSION));
        let (kind, message) = match turn {
            Turn::User { origin, parts, .. } => {
                if *origin == Origin::CliAgent {
                    set("isMeta", json!(true));
                }
                ("user", json!({"role": "user", "content": content(parts)}))
            }
            Turn::Results { answers, .. } => {
                let results: Vec<_> = answers
                    .iter()
                    .map(|answer| result(answer, losses))
                    .collect();
                ("user", json!({"role": "user", "content": results}))
            }
            Turn::Assistant { parts, usage, .. } => {
                let name = format!("msg_{}", id.replace('-', ""));
                let message = assistant(&name, &target.model, parts, usage.unwrap_or_default());
                ("assistant", message)
            }
        };
        let body = Body::Message { message };
        records.push(encode_like(
            &template,
            parent.as_deref(),
            id.clone(),
            kind,
            body,
        ));
        parent = Some(id);
    }
    records
}

/// A single text becomes a plain string.
fn content(parts: &[Part]) -> Value {
    match parts {
        [Part::Text { text }] => json!(text),
        _ => parts.iter().map(block).collect(),
    }
}

fn block(part: &Part) -> Value {
    match part {
        Part::Text { text } => json!({"type": "text", "text": text}),
        Part::Image {
            media_type,
            content,
        } => {
            let source = match content {
                Image::Url(url) => json!({"type": "url", "url": url}),
                Image::Inline(data) => {
                    json!({"type": "base64", "media_type": media_type, "data": data})
                }
                Image::External { .. } => Value::Null,
            };
            json!({"type": "image", "source": source})
        }
        Part::Raw { value } => value.clone(),
    }
}

fn result(answer: &Answer, losses: &mut Losses) -> Value {
    let mut block = json!({
        "type": "tool_result",
        "tool_use_id": answer.id,
        "content": content(&answer.parts),
    });
    match answer.outcome {
        Outcome::Succeeded => {}
        Outcome::Failed => block["is_error"] = json!(true),
        Outcome::Unknown => losses.add(Loss::Outcome),
    }
    block
}

fn assistant(id: &str, model: &str, parts: &[ModelPart], usage: Tokens) -> Value {
    let blocks: Vec<_> = parts
        .iter()
        .map(|part| match part {
            ModelPart::Text(text) => json!({"type": "text", "text": text}),
            ModelPart::Call(call) => json!({
                "type": "tool_use",
                "id": call.id,
                "name": call.name,
                "input": call.input,
            }),
        })
        .collect();
    let called = parts.iter().any(|part| matches!(part, ModelPart::Call(_)));
    json!({
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": if called { "tool_use" } else { "end_turn" },
        "stop_sequence": null,
        "usage": {
            "input_tokens": usage.input,
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
            "output_tokens": usage.output,
        },
    })
}
