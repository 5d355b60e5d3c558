//! The `inputs` block: the variables of a workflow.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::cursor::Cursor;
use super::fields::Keys;

const KEYS: Keys = Keys {
    required: &[],
    optional: &["required", "optional", "values"],
};
const INPUT_KEYS: Keys = Keys {
    required: &["type"],
    optional: &["description", "default", "enum"],
};

/// Names with a fixed meaning in templates; an input cannot have them.
const RESERVED: [&str; 4] = ["steps", "last_response", "hitl_response", "TRACE"];

/// The type of an input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Type {
    #[default]
    String,
    Number,
    Integer,
    Boolean,
    Array,
    Object,
}

impl Type {
    const NAMES: [(&'static str, Self); 6] = [
        ("string", Self::String),
        ("number", Self::Number),
        ("integer", Self::Integer),
        ("boolean", Self::Boolean),
        ("array", Self::Array),
        ("object", Self::Object),
    ];

    /// Whether `value` is of this type.
    pub fn holds(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            Self::Number => value.is_number(),
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Boolean => value.is_boolean(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }

    /// Parses `text` from the command line; `None` if it is not of this type.
    pub fn convert(self, text: &str) -> Option<Value> {
        let value = match self {
            Self::String => Some(Value::from(text)),
            _ => serde_json::from_str(text.trim()).ok(),
        };
        value.filter(|value| self.holds(value))
    }

    fn of(value: &Value) -> Self {
        match value {
            Value::Bool(_) => Self::Boolean,
            Value::Number(_) => Self::Number,
            _ => Self::String,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, candidate)| candidate == self);
        f.pad(name.map_or("", |(name, _)| *name))
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Input {
    pub kind: Type,
    /// The workflow does not start without it.
    pub required: bool,
    pub description: Option<String>,
    /// The allowed values (`enum`).
    pub choices: Option<Vec<Value>>,
    /// The value unless the command line gives one: from `values`, else its `default`.
    pub value: Option<Value>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inputs(pub BTreeMap<String, Input>);

pub(super) fn read(cursor: &Cursor<'_>) -> Inputs {
    let fields = cursor.fields(&KEYS);
    let mut inputs = BTreeMap::new();
    for (block, required) in [("required", true), ("optional", false)] {
        let declared = fields.read(block, |cursor| variables(&cursor));
        for (name, cursor) in declared {
            let input = input(&cursor, required);
            if inputs.insert(name.to_owned(), input).is_some() {
                cursor.invalid("is both required and optional");
            }
        }
    }
    let values = fields.read("values", |cursor| variables(&cursor));
    for (name, cursor) in values {
        let value = cursor.scalar();
        let input = inputs.entry(name.to_owned()).or_insert_with(|| Input {
            kind: Type::of(&value),
            ..Input::default()
        });
        if !value.is_null() {
            check_value(&cursor, input, &value);
            input.value = Some(value);
        }
    }
    Inputs(inputs)
}

/// Named values that templates see. Rejects names with a fixed meaning.
pub(super) fn variables<'a>(cursor: &Cursor<'a>) -> Vec<(&'a str, Cursor<'a>)> {
    let entries = cursor.identifier_entries();
    for (name, cursor) in &entries {
        if RESERVED.contains(name) {
            cursor.invalid(format!("`{name}` is reserved in templates"));
        }
    }
    entries
}

fn input(cursor: &Cursor<'_>, required: bool) -> Input {
    if !cursor.is_map() {
        return Input {
            kind: cursor.choice(&Type::NAMES),
            required,
            ..Input::default()
        };
    }
    let fields = cursor.fields(&INPUT_KEYS);
    let mut input = Input {
        kind: fields.read("type", |cursor| cursor.choice(&Type::NAMES)),
        required,
        description: fields.get("description").map(|cursor| cursor.text()),
        choices: None,
        value: None,
    };
    if let Some(choices) = fields.get("enum") {
        let mut allowed = Vec::new();
        for choice in choices.list(1) {
            let value = choice.json();
            check_value(&choice, &input, &value);
            if allowed.contains(&value) {
                choice.invalid("is listed twice");
            }
            allowed.push(value);
        }
        input.choices = Some(allowed);
    }
    if let Some(default) = fields.get("default") {
        let value = default.json();
        check_value(&default, &input, &value);
        input.value = Some(value);
    }
    input
}

fn check_value(cursor: &Cursor<'_>, input: &Input, value: &Value) {
    if !input.kind.holds(value) {
        let quote = match (input.kind, value) {
            (Type::String, Value::Number(_) | Value::Bool(_)) => "; put it in quotes",
            _ => "",
        };
        cursor.invalid(format!(
            "must be of type {}, not {value}{quote}",
            input.kind
        ));
    } else if let Some(choices) = &input.choices
        && !choices.contains(value)
    {
        cursor.invalid(format!("must be one of {}, not {value}", joined(choices)));
    }
}

/// Formats as `"a", "b"`.
pub(super) fn joined(values: &[Value]) -> String {
    let values: Vec<_> = values.iter().map(Value::to_string).collect();
    values.join(", ")
}
