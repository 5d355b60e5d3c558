//! What an agent is asked and answers, where the spec says what it looks like.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::place::Place;

/// How many problems are told.
const TOLD: usize = 5;

/// A JSON schema. Two are equal if their texts are.
#[derive(Clone)]
pub struct Schema {
    text: Value,
    checks: Arc<jsonschema::Validator>,
}

impl Schema {
    /// From a block; reports what is wrong with it.
    pub(super) fn read(place: &Place<'_>) -> Option<Self> {
        let text = place.json();
        // A file that could not be read was told.
        if text.is_string() {
            return None;
        }
        if !text.is_object() && !text.is_boolean() {
            place.invalid("must be a schema, or a file with one");
            return None;
        }
        match jsonschema::validator_for(&text) {
            Ok(checks) => Some(Self {
                text,
                checks: Arc::new(checks),
            }),
            Err(error) => {
                place.invalid(format!("is not a JSON schema: {error}"));
                None
            }
        }
    }

    /// What is wrong with a value, in a line.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        let problems: Vec<String> = self
            .checks
            .iter_errors(value)
            .take(TOLD)
            .map(|error| match error.instance_path().to_string().as_str() {
                "" => error.to_string(),
                place => format!("{place}: {error}"),
            })
            .collect();
        if problems.is_empty() {
            Ok(())
        } else {
            Err(problems.join("; "))
        }
    }

    /// The schema itself.
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
