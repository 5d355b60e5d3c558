//! The `inputs` block: what a workflow wants to know before it starts.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::fields::Keys;
use super::place::Place;

const KEYS: Keys = Keys {
    required: &[],
    optional: &["required", "optional", "values"],
};
const INPUT_KEYS: Keys = Keys {
    required: &["type"],
    optional: &["description", "default", "enum"],
};

/// What templates of a chain find under these names is not an input.
const TAKEN: [&str; 4] = ["steps", "last_response", "hitl_response", "TRACE"];

/// What an input may hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Type {
    /// Text.
    #[default]
    String,
    /// A number, whole or not.
    Number,
    /// A whole number.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// A list.
    Array,
    /// A mapping.
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

    /// The value that `text` from a command line stands for; `None` if it is not of this type.
    pub fn convert(self, text: &str) -> Option<Value> {
        let value = match self {
            Self::String => Some(Value::from(text)),
            _ => serde_json::from_str(text.trim()).ok(),
        };
        value.filter(|value| self.holds(value))
    }

    /// The type that an undeclared value implies.
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

/// One input.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Input {
    /// What it may hold.
    pub kind: Type,
    /// Whether the workflow cannot start without it.
    pub required: bool,
    /// What it is for.
    pub description: Option<String>,
    /// The only values it may have, if there are any.
    pub choices: Option<Vec<Value>>,
    /// What it is unless a command line says otherwise: from `values`, else its `default`.
    pub value: Option<Value>,
}

/// The inputs by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inputs(pub BTreeMap<String, Input>);

pub(super) fn read(place: &Place<'_>) -> Inputs {
    let fields = place.fields(&KEYS);
    let mut inputs = BTreeMap::new();
    for (block, required) in [("required", true), ("optional", false)] {
        let declared = fields.read(block, |place| variables(&place));
        for (name, place) in declared {
            let input = input(&place, required);
            if inputs.insert(name.to_owned(), input).is_some() {
                place.invalid("is both required and optional");
            }
        }
    }
    let values = fields.read("values", |place| variables(&place));
    for (name, place) in values {
        let value = place.scalar();
        let input = inputs.entry(name.to_owned()).or_insert_with(|| Input {
            kind: Type::of(&value),
            ..Input::default()
        });
        if !value.is_null() {
            fits(&place, input, &value);
            input.value = Some(value);
        }
    }
    Inputs(inputs)
}

/// Named values that templates see.
pub(super) fn variables<'a>(place: &Place<'a>) -> Vec<(&'a str, Place<'a>)> {
    let entries = place.named();
    for (name, place) in &entries {
        if TAKEN.contains(name) {
            place.invalid(format!("`{name}` means something else in templates"));
        }
    }
    entries
}

fn input(place: &Place<'_>, required: bool) -> Input {
    if !place.is_map() {
        return Input {
            kind: place.choice(&Type::NAMES),
            required,
            ..Input::default()
        };
    }
    let fields = place.fields(&INPUT_KEYS);
    let mut input = Input {
        kind: fields.read("type", |place| place.choice(&Type::NAMES)),
        required,
        description: fields.get("description").map(|place| place.text()),
        choices: None,
        value: None,
    };
    if let Some(choices) = fields.get("enum") {
        let mut allowed = Vec::new();
        for choice in choices.list(1) {
            let value = choice.json();
            fits(&choice, &input, &value);
            if allowed.contains(&value) {
                choice.invalid("is given twice");
            }
            allowed.push(value);
        }
        input.choices = Some(allowed);
    }
    if let Some(default) = fields.get("default") {
        let value = default.json();
        fits(&default, &input, &value);
        input.value = Some(value);
    }
    input
}

fn fits(place: &Place<'_>, input: &Input, value: &Value) {
    if !input.kind.holds(value) {
        let quote = match (input.kind, value) {
            (Type::String, Value::Number(_) | Value::Bool(_)) => "; put it in quotes",
            _ => "",
        };
        place.invalid(format!(
            "must be of type {}, not {value}{quote}",
            input.kind
        ));
    } else if let Some(choices) = &input.choices
        && !choices.contains(value)
    {
        place.invalid(format!("must be one of {}, not {value}", listed(choices)));
    }
}

/// `"a", "b"`.
pub(super) fn listed(values: &[Value]) -> String {
    let values: Vec<_> = values.iter().map(Value::to_string).collect();
    values.join(", ")
}
