//! Builds the JSON schemas of tool arguments.

use serde_json::{Value, json};

/// An object with these properties and no others.
pub(super) fn object(required: &[&str], properties: &Value) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

pub(super) fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

/// Any JSON value.
pub(super) fn anything(description: &str) -> Value {
    json!({"description": description})
}

pub(super) fn texts(description: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": description})
}

pub(super) fn choice(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

pub(super) fn count(description: &str, least: u64, most: Option<u64>) -> Value {
    let mut schema = json!({"type": "integer", "minimum": least, "description": description});
    if let Some(most) = most {
        schema["maximum"] = most.into();
    }
    schema
}

/// One of a set of words.
pub(super) fn word<'a>(description: &str, words: impl IntoIterator<Item = &'a str>) -> Value {
    let words: Vec<&str> = words.into_iter().collect();
    json!({"type": "string", "enum": words, "description": description})
}
