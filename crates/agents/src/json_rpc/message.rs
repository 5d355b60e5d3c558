//! Parses and renders messages.

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// The longest id of a request that is repeated in its response.
const LONGEST_ID: usize = 1 << 10;

pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;

/// A message from the program.
#[derive(Debug, PartialEq)]
pub(crate) enum Message {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    Response {
        id: Value,
        outcome: Result<Value, ErrorResponse>,
    },
}

/// The `error` of a response.
#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct ErrorResponse {
    pub(crate) code: i64,
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) data: Value,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Line {
    Message(Message),
    /// Not a message.
    Noise,
    /// A message that cannot be parsed, and why.
    Damaged(String),
}

/// Every field at most once: if a message holds two responses, neither is used.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    jsonrpc: Value,
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    error: Option<ErrorResponse>,
}

/// Distinguishes `null` from a missing field.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// Parses a line. Whatever begins like an object was meant to be one.
pub(crate) fn read(line: &[u8]) -> Line {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    if !line.trim_ascii_start().starts_with(b"{") {
        return Line::Noise;
    }
    let envelope: Envelope = match serde_json::from_slice(line) {
        Ok(envelope) => envelope,
        Err(error) => return Line::Damaged(error.to_string()),
    };
    if envelope.jsonrpc != "2.0" {
        return Line::Noise;
    }
    if let Some(id) = &envelope.id
        && !is_valid_id(id)
    {
        return Line::Damaged("its `id` is neither an integer nor a short string".to_owned());
    }
    let damaged = |why: &str| Line::Damaged(why.to_owned());
    let Envelope {
        id, method, params, ..
    } = envelope;
    Line::Message(match (method, id, envelope.result, envelope.error) {
        (Some(method), Some(id), None, None) => Message::Request { id, method, params },
        (Some(method), None, None, None) => Message::Notification { method, params },
        (None, Some(id), Some(result), None) => Message::Response {
            id,
            outcome: Ok(result),
        },
        (None, Some(id), None, Some(error)) => Message::Response {
            id,
            outcome: Err(error),
        },
        (Some(_), ..) => return damaged("it is both a request and a response"),
        (None, _, Some(_), Some(_)) => return damaged("it has both `result` and `error`"),
        (None, Some(_), None, None) => {
            return damaged("it has neither `method`, `result` nor `error`");
        }
        (None, None, ..) => return damaged("it has neither `method` nor `id`"),
    })
}

fn is_valid_id(id: &Value) -> bool {
    match id {
        Value::String(text) => text.len() <= LONGEST_ID,
        Value::Number(number) => number.is_i64() || number.is_u64(),
        _ => false,
    }
}

pub(crate) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(crate) fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// A response; the error has a code and a message.
pub(crate) fn response(id: &Value, outcome: Result<Value, (i64, String)>) -> Value {
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err((code, message)) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_damaged(text: &str) -> bool {
        matches!(read(text.as_bytes()), Line::Damaged(_))
    }

    #[test]
    fn message_type_follows_from_its_fields() {
        let ask = r#"{"jsonrpc":"2.0","id":"a","method":"m","params":{"x":1}}"#;
        let asked = Message::Request {
            id: "a".into(),
            method: "m".into(),
            params: json!({"x": 1}),
        };
        for line in [
            ask.to_owned(),
            format!("\u{FEFF}{ask}\r\n"),
            format!("  {ask} \n"),
        ] {
            let read = read(line.as_bytes());
            assert!(
                matches!(&read, Line::Message(it) if *it == asked),
                "{line}: {read:?}"
            );
        }
        for (text, expected) in [
            (
                r#"{"jsonrpc":"2.0","method":"m"}"#,
                Message::Notification {
                    method: "m".into(),
                    params: Value::Null,
                },
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
                Message::Response {
                    id: 1.into(),
                    outcome: Ok(Value::Null),
                },
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":-3,"message":"no"}}"#,
                Message::Response {
                    id: 1.into(),
                    outcome: Err(ErrorResponse {
                        code: -3,
                        message: "no".into(),
                        data: Value::Null,
                    }),
                },
            ),
        ] {
            assert_eq!(read(text.as_bytes()), Line::Message(expected), "{text}");
        }
    }

    #[test]
    fn lines_without_jsonrpc_are_noise() {
        for text in [
            "",
            "\r\n",
            "Listening ...",
            "\u{1b}[31mred",
            "[1, 2]",
            "null",
            r#"{"level":"info","id":3}"#,
            r#"{"jsonrpc":"1.0","id":1,"result":{}}"#,
        ] {
            assert_eq!(read(text.as_bytes()), Line::Noise, "{text}");
        }
    }

    #[test]
    fn ambiguous_messages_are_damaged() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","method":"m","params":{}"#,
            "[".repeat(10_000)
        );
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"result":1,"result":2}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"result":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","result":1}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","result":1}"#,
            r#"{"jsonrpc":"2.0","id":null,"result":1}"#,
            r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":"half"#,
            r#"{"jsonrpc":"2.0","id":1,"result":"\ud800"}"#,
            &deep,
        ] {
            assert!(is_damaged(text), "{text}");
        }
        let bytes = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xFF\"}";
        assert!(matches!(read(bytes), Line::Damaged(_)));
        let long = format!(
            r#"{{"jsonrpc":"2.0","id":"{}","method":"m"}}"#,
            "x".repeat(2000)
        );
        assert!(is_damaged(&long));
    }

    proptest! {
        #[test]
        fn any_line_parses_without_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            read(&line);
        }

        #[test]
        fn any_object_parses_without_panic(
            id in "(null|[0-9]{1,20}|\"x\"|\\{\\}|-1|1e9)",
            rest in "(\"method\":(\"m\"|1)|\"result\":(null|1)|\"error\":(null|\\{\\}|1)|\"params\":1)(,\"method\":\"m\")?",
        ) {
            read(format!(r#"{{"jsonrpc":"2.0","id":{id},{rest}}}"#).as_bytes());
        }
    }
}
