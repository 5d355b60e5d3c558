//! What an agent stores for its later steps and runs: JSON values by key.
//!
//! `null` is no value: wherever a value is given from outside, it stands for an absent one. The limits
//! keep the state of a session small enough to be copied with every commit (P10).

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

/// How many keys an agent may have.
pub const MAX_KEYS: usize = 100;

/// How long a value may be, as JSON in bytes.
pub const MAX_VALUE: usize = 32 << 10;

/// How long all values of a session may be together, as JSON in bytes.
pub const MAX_TOTAL: usize = 1 << 20;

/// The name of a value: a letter or `_`, then letters, digits and `_`, so that templates can name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Key(String);

/// The text is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a key: a key is a letter or `_`, followed by at most {} letters, digits and `_`",
    Key::MAX - 1
)]
pub struct InvalidKey {
    pub text: String,
}

impl Key {
    /// The longest key, in characters.
    pub const MAX: usize = 64;

    pub fn new(text: &str) -> Result<Self, InvalidKey> {
        let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
        let valid = text.starts_with(letter)
            && text.len() <= Self::MAX
            && text.chars().all(|c| letter(c) || c.is_ascii_digit());
        if valid {
            return Ok(Self(text.to_owned()));
        }
        let text = text.chars().take(Self::MAX + 1).collect();
        Err(InvalidKey { text })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for Key {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        Self::new(text)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(&text).map_err(de::Error::custom)
    }
}

/// The value that must be there for a change to take effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    Absent,
    Value(Value),
}

impl Expected {
    pub fn of(value: Value) -> Self {
        match value {
            Value::Null => Self::Absent,
            value => Self::Value(value),
        }
    }

    pub fn matches(&self, found: Option<&Value>) -> bool {
        match self {
            Self::Absent => found.is_none(),
            Self::Value(value) => found == Some(value),
        }
    }
}

/// Why a change does not take effect.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refused {
    /// Another value is there than the expected one.
    #[error("`{key}` of agent `{agent}` is not what was expected: it is {}", shown(.found.as_ref()))]
    Differs {
        agent: String,
        key: Key,
        found: Option<Value>,
    },
    #[error("the value has {bytes} bytes as JSON; the limit is {MAX_VALUE}")]
    TooLong { bytes: usize },
    #[error("agent `{agent}` has {MAX_KEYS} keys, the limit")]
    TooManyKeys { agent: String },
    #[error(
        "the values of the session would have {bytes} bytes together; the limit is {MAX_TOTAL}"
    )]
    TooMuch { bytes: usize },
    /// The error does not contain the key (P12).
    #[error("the key looks like a secret")]
    SecretKey,
}

/// How long a value is as JSON, in bytes.
pub fn length(value: &Value) -> usize {
    value.to_string().len()
}

/// A value in a message: short, as JSON.
fn shown(value: Option<&Value>) -> String {
    const MAX: usize = 200;
    let Some(value) = value else {
        return "absent".to_owned();
    };
    let text = value.to_string();
    match text.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_names_that_templates_can_use() {
        let longest = "k".repeat(Key::MAX);
        for valid in ["a", "_", "Count_2", longest.as_str()] {
            assert_eq!(Key::new(valid).unwrap().as_str(), valid);
        }
        let too_long = "k".repeat(Key::MAX + 1);
        for invalid in ["", "2a", "a-b", "a.b", "a b", "é", too_long.as_str()] {
            assert!(Key::new(invalid).is_err(), "{invalid}");
            assert!(serde_json::from_value::<Key>(json!(invalid)).is_err());
        }
    }

    #[test]
    fn expected_null_is_an_absent_value() {
        assert!(Expected::of(Value::Null).matches(None));
        assert!(!Expected::of(Value::Null).matches(Some(&json!(0))));
        assert!(Expected::of(json!(1)).matches(Some(&json!(1))));
        assert!(!Expected::of(json!(1)).matches(Some(&json!("1"))));
        assert!(!Expected::of(json!(1)).matches(None));
    }

    #[test]
    fn long_values_are_shortened_in_messages() {
        assert_eq!(shown(None), "absent");
        assert_eq!(shown(Some(&json!({"a": 1}))), r#"{"a":1}"#);
        let long = shown(Some(&json!("é".repeat(300))));
        assert_eq!(long.chars().count(), 201);
    }
}
