//! How it is written down what a tool takes.

use serde_json::{Value, json};

/// An object of these properties and no others.
pub(super) fn object(required: &[&str], properties: &Value) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

pub(super) fn text(about: &str) -> Value {
    json!({"type": "string", "description": about})
}

pub(super) fn texts(about: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": about})
}

pub(super) fn choice(about: &str) -> Value {
    json!({"type": "boolean", "description": about})
}

pub(super) fn count(about: &str, least: u64, most: Option<u64>) -> Value {
    let mut schema = json!({"type": "integer", "minimum": least, "description": about});
    if let Some(most) = most {
        schema["maximum"] = most.into();
    }
    schema
}

/// One of some words.
pub(super) fn word<'a>(about: &str, words: impl IntoIterator<Item = &'a str>) -> Value {
    let words: Vec<&str> = words.into_iter().collect();
    json!({"type": "string", "enum": words, "description": about})
}
