//! Parses JSON-RPC messages and renders answers.

use serde_json::{Map, Value, json};

/// The line is not JSON.
pub(super) const NO_JSON: i64 = -32700;
/// The line is JSON, but not a request.
pub(super) const NO_REQUEST: i64 = -32600;
/// Unknown method.
pub(super) const NO_METHOD: i64 = -32601;
/// The parameters do not fit the method.
pub(super) const WRONG_PARAMS: i64 = -32602;
/// Internal error.
pub(super) const INTERNAL: i64 = -32603;
/// Unknown resource.
pub(super) const NO_RESOURCE: i64 = -32002;

/// A received message.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// A request that expects an answer.
    Request {
        id: Value,
        method: String,
        params: Map<String, Value>,
    },
    /// Needs no answer: a notification, or an answer to a request that the server never sent.
    Notice,
}

/// A JSON-RPC error.
#[derive(Debug, PartialEq)]
pub(super) struct Fault {
    pub(super) code: i64,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// Parses a line. On error also returns the id of the message, as far as it is known.
pub(super) fn read(line: &[u8]) -> Result<Message, (Value, Fault)> {
    let parsed: Result<Value, _> = serde_json::from_slice(line);
    let Value::Object(mut message) = parsed.map_err(|error| {
        let reason = format!("this is no JSON: {error}");
        (Value::Null, Fault::new(NO_JSON, reason))
    })?
    else {
        let reason = "a message is one object; batches are not taken";
        return Err((Value::Null, Fault::new(NO_REQUEST, reason)));
    };
    let id = message.remove("id");
    let known = match &id {
        Some(id @ (Value::String(_) | Value::Number(_))) => id.clone(),
        _ => Value::Null,
    };
    let refuse = |code, reason: &str| Err((known.clone(), Fault::new(code, reason)));
    if message
        .get("jsonrpc")
        .is_none_or(|version| version != "2.0")
    {
        return refuse(NO_REQUEST, "`jsonrpc` must be \"2.0\"");
    }
    let method = match message.remove("method") {
        Some(Value::String(method)) => method,
        None if message.contains_key("result") || message.contains_key("error") => {
            return Ok(Message::Notice);
        }
        _ => return refuse(NO_REQUEST, "`method` must be a text"),
    };
    if id.is_none() {
        return Ok(Message::Notice);
    }
    if known.is_null() {
        return refuse(NO_REQUEST, "`id` must be a text or a number");
    }
    match message.remove("params") {
        None => Ok(Message::Request {
            id: known,
            method,
            params: Map::new(),
        }),
        Some(Value::Object(params)) => Ok(Message::Request {
            id: known,
            method,
            params,
        }),
        Some(_) => refuse(WRONG_PARAMS, "`params` must be an object"),
    }
}

/// Renders an answer.
pub(super) fn answer(id: &Value, outcome: Result<Value, Fault>) -> Value {
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(Fault { code, message }) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_are_parsed_or_refused_with_a_code() {
        let request = |id: Value, params: Value| {
            let params = params.as_object().cloned().unwrap_or_default();
            Ok(Message::Request {
                id,
                method: "x".into(),
                params,
            })
        };
        for (line, wanted) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#,
                request(json!(1), json!({})),
            ),
            (
                r#"{"jsonrpc":"2.0","id":"a","method":"x","params":{"y":2}}"#,
                request(json!("a"), json!({"y": 2})),
            ),
            (r#"{"jsonrpc":"2.0","method":"x"}"#, Ok(Message::Notice)),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
                Ok(Message::Notice),
            ),
            ("{", Err((Value::Null, NO_JSON))),
            ("\u{feff}", Err((Value::Null, NO_JSON))),
            ("[]", Err((Value::Null, NO_REQUEST))),
            (r#"{"id":1,"method":"x"}"#, Err((json!(1), NO_REQUEST))),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
                Err((json!(1), NO_REQUEST)),
            ),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#,
                Err((Value::Null, NO_REQUEST)),
            ),
            (
                r#"{"jsonrpc":"2.0","id":[],"method":"x"}"#,
                Err((Value::Null, NO_REQUEST)),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#,
                Err((json!(1), WRONG_PARAMS)),
            ),
        ] {
            let got = read(line.as_bytes()).map_err(|(id, fault)| (id, fault.code));
            assert_eq!(got, wanted, "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Err((_, fault)) = read(&bytes) {
                prop_assert!(fault.code < 0);
            }
        }
    }

    #[test]
    fn deep_nesting_is_refused() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let (_, fault) = read(deep.as_bytes()).unwrap_err();
        assert_eq!(fault.code, NO_JSON);
    }
}
