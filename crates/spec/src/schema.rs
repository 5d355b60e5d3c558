//! JSON schemas for the prompts and answers of agents.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::cursor::Cursor;

/// How many problems of a value are reported.
const MAX_REPORTED: usize = 5;

/// A JSON schema. Two schemas are equal if their texts are.
#[derive(Clone)]
pub struct Schema {
    text: Value,
    validator: Arc<jsonschema::Validator>,
}

impl Schema {
    /// Reads a schema; reports it if it is invalid.
    pub(super) fn read(cursor: &Cursor<'_>) -> Option<Self> {
        let text = cursor.json();
        // A file that could not be read is already reported.
        if text.is_string() {
            return None;
        }
        if !text.is_object() && !text.is_boolean() {
            cursor.invalid("must be a JSON schema, or a file with one");
            return None;
        }
        match jsonschema::validator_for(&text) {
            Ok(validator) => Some(Self {
                text,
                validator: Arc::new(validator),
            }),
            Err(error) => {
                cursor.invalid(format!("is not a valid JSON schema: {error}"));
                None
            }
        }
    }

    /// Validates a value; the error lists the problems in one line.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        let problems: Vec<String> = self
            .validator
            .iter_errors(value)
            .take(MAX_REPORTED)
            .map(|error| match error.instance_path().to_string().as_str() {
                "" => error.to_string(),
                at => format!("{at}: {error}"),
            })
            .collect();
        if problems.is_empty() {
            Ok(())
        } else {
            Err(problems.join("; "))
        }
    }

    pub fn text(&self) -> &Value {
        &self.text
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}
