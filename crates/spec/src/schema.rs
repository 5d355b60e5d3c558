//! JSON schemas for the prompts and answers of agents.
//!
//! Validation is bounded: regular expressions in their backtracking, references in their
//! [chains](super::schema_refs), and the whole, where references can multiply the work, in time.

use std::fmt;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use jsonschema::PatternOptions;
use serde_json::Value;

use super::cursor::Cursor;
use super::schema_refs;

/// How many problems of a value are reported.
const MAX_REPORTED: usize = 5;

/// The longest text of a schema.
const MOST_BYTES: usize = 1024 * 1024;

const MOST_BACKTRACKS: usize = 100_000;
const MOST_REGEX_BYTES: usize = 1024 * 1024;

/// How long a validation with references may take.
const MOST_TIME: Duration = Duration::from_secs(2);

/// The stack for such a validation: enough for the deepest value and the longest chain.
const STACK_BYTES: usize = 64 * 1024 * 1024;

/// The keywords that say something about a value. An object with none of them is no schema.
const KEYWORDS: [&str; 52] = [
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicRef",
    "$id",
    "$recursiveRef",
    "$ref",
    "$schema",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "default",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "description",
    "else",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "then",
    "title",
    "type",
];

/// A JSON schema. Two schemas are equal if their texts are.
#[derive(Clone)]
pub struct Schema {
    text: Value,
    validator: Arc<jsonschema::Validator>,
    has_references: bool,
}

impl Schema {
    /// Reads a schema; reports it if it is invalid.
    pub(super) fn read(cursor: &Cursor<'_>) -> Option<Self> {
        let text = cursor.json();
        // The name of a file that could not be read is already reported.
        if text.is_string() {
            return None;
        }
        match Self::new(text) {
            Ok(schema) => Some(schema),
            Err(problem) => {
                cursor.invalid(problem);
                None
            }
        }
    }

    fn new(text: Value) -> Result<Self, String> {
        match &text {
            Value::Bool(_) => {}
            Value::Object(fields) => {
                let is_keyword = |key: &String| KEYWORDS.contains(&key.as_str());
                if !fields.is_empty() && !fields.keys().any(is_keyword) {
                    return Err("is no JSON schema: it has none of its keywords".to_owned());
                }
            }
            _ => return Err("must be a JSON schema, or a file with one".to_owned()),
        }
        if text.to_string().len() > MOST_BYTES {
            return Err(format!("is larger than {MOST_BYTES} bytes (1 MB)"));
        }
        schema_refs::check(&text).map_err(|problem| format!("the JSON schema {problem}"))?;
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(MOST_BACKTRACKS)
            .size_limit(MOST_REGEX_BYTES);
        let options = jsonschema::options().with_pattern_options(patterns);
        match options.build(&text) {
            Ok(validator) => Ok(Self {
                has_references: schema_refs::has_references(&text),
                text,
                validator: Arc::new(validator),
            }),
            Err(error) => Err(format!("is not a valid JSON schema: {error}")),
        }
    }

    /// Validates a value; the error lists the problems in one line.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        if !self.has_references {
            return check(&self.validator, value);
        }
        let (sender, receiver) = mpsc::channel();
        let (validator, value) = (Arc::clone(&self.validator), value.clone());
        let checking = std::thread::Builder::new().stack_size(STACK_BYTES);
        let started = checking.spawn(move || {
            // Nobody listens any more if it took too long.
            let _ = sender.send(check(&validator, &value));
        });
        started.map_err(|error| format!("it cannot be checked: {error}"))?;
        receiver.recv_timeout(MOST_TIME).unwrap_or_else(|_| {
            let seconds = MOST_TIME.as_secs();
            Err(format!("checking it takes more than {seconds} s"))
        })
    }

    pub fn text(&self) -> &Value {
        &self.text
    }
}

fn check(validator: &jsonschema::Validator, value: &Value) -> Result<(), String> {
    let problems: Vec<String> = validator
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schema_that_cannot_be_checked_within_bounds_is_rejected() {
        let mut chain = serde_json::Map::new();
        for n in 0..1000 {
            let next = format!("#/$defs/d{}", n + 1);
            chain.insert(format!("d{n}"), json!({"allOf": [{"$ref": next}]}));
        }
        chain.insert("d1000".to_owned(), json!(true));
        for (schema, problem) in [
            (json!({"$ref": "#"}), "never ends"),
            (json!({"items": {"$ref": "#/items"}}), "never ends"),
            (
                json!({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
                "never ends",
            ),
            (
                json!({"$ref": "#/$defs/d0", "$defs": chain}),
                "chain of more than 64",
            ),
            (
                json!({"$ref": "http://127.0.0.1:1/x.json"}),
                "does not fetch",
            ),
            (json!({"$ref": "file:///etc/passwd"}), "does not fetch"),
            (json!({"name": "x", "version": 1}), "none of its keywords"),
            (
                json!({"$ref": "#/%24defs/a", "$defs": {"a": {}}}),
                "without `%`",
            ),
            (
                json!({"properties": {"a": {"$id": "http://x/y"}}}),
                "`$id` inside",
            ),
            (json!(["type"]), "must be a JSON schema"),
            (json!({"type": "nonsense"}), "not a valid JSON schema"),
            (
                json!({"description": "x".repeat(MOST_BYTES)}),
                "larger than",
            ),
        ] {
            let error = Schema::new(schema).map(|_| ()).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn recursive_schema_checks_values_of_any_depth() {
        let schema = json!({"type": "object", "properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}});
        let schema = Schema::new(schema).unwrap();
        let mut value = json!({"n": 1});
        for _ in 0..120 {
            value = json!({"next": value});
        }
        assert_eq!(schema.check(&value), Ok(()));
        assert!(schema.check(&json!({"next": {"n": "x"}})).is_err());
    }

    #[test]
    fn validation_ends_in_time() {
        let pattern = Schema::new(json!({"type": "string", "pattern": "^(a+)+(?=b)$"})).unwrap();
        assert!(pattern.check(&json!("a".repeat(64))).is_err());
        let mut value = json!("x");
        for _ in 0..100 {
            value = json!([value]);
        }
        let doubling = json!({"items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}});
        let error = Schema::new(doubling).unwrap().check(&value).unwrap_err();
        assert!(error.contains("takes more than"), "{error}");
    }
}
