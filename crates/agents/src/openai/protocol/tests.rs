//! Gemini's deviations from other implementations of chat completions.

use segno_core::digest::Digest;

use super::*;

struct NoListener;

impl Listener for NoListener {
    fn on_event(&self, _: Event<'_>) {}
}

fn read(events: &[Value]) -> Result<Reply, Error> {
    let mut builder = ReplyBuilder::default();
    for event in events {
        builder.handle(&event.to_string(), &NoListener)?;
    }
    builder.reply()
}

fn piece(tool_calls: &Value, stop: Option<&str>) -> Value {
    json!({"choices": [{"delta": {"tool_calls": tool_calls}, "finish_reason": stop}]})
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"index": 0, "id": id, "function": {"name": name, "arguments": arguments}})
}

fn calls(reply: &Reply) -> Vec<(&str, &str, String)> {
    let input = |call: &ToolCall| call.input.to_string();
    reply
        .calls()
        .map(|call| (call.id.as_str(), call.name.as_str(), input(call)))
        .collect()
}

#[test]
fn calls_with_the_same_index_are_separated() {
    let whole = [
        piece(
            &json!([call("a", "f", "{\"x\":1}"), call("b", "g", "{}")]),
            None,
        ),
        piece(&json!([call("c", "f", "{}")]), Some("stop")),
    ];
    let reply = read(&whole).unwrap();
    assert_eq!(reply.stop, Stop::Tools);
    let expected = [
        ("a", "f", "{\"x\":1}".to_owned()),
        ("b", "g", "{}".to_owned()),
        ("c", "f", "{}".to_owned()),
    ];
    assert_eq!(calls(&reply), expected);
    let nameless = piece(
        &json!([call("", "f", "{}"), call("", "f", "{\"y\":2}")]),
        Some("stop"),
    );
    let reply = read(&[nameless]).unwrap();
    let expected = [
        ("call_0", "f", "{}".to_owned()),
        ("call_1", "f", "{\"y\":2}".to_owned()),
    ];
    assert_eq!(calls(&reply), expected);
}

#[test]
fn call_in_chunks_is_one_call() {
    let more = |text: &str| json!([{"index": 0, "function": {"arguments": text}}]);
    let reply = read(&[
        piece(&json!([call("a", "f", "")]), None),
        piece(&more("{\"x\":"), None),
        // Some servers repeat the id.
        piece(&json!([call("a", "", "1}")]), None),
        piece(&json!([]), Some("tool_calls")),
    ]);
    let expected = [("a", "f", "{\"x\":1}".to_owned())];
    assert_eq!(calls(&reply.unwrap()), expected);
}

#[test]
fn thought_signature_is_sent_back_with_its_call() {
    let extra = json!({"google": {"thought_signature": "sig"}});
    let mut signed = call("a", "f", "{}");
    signed["extra_content"] = extra.clone();
    let reply = read(&[piece(&json!([signed, call("b", "g", "{}")]), Some("stop"))]).unwrap();
    let messages = [Message::Assistant { parts: reply.parts }];
    let asked = Call {
        key: Digest::of(b"key"),
        system: "",
        messages: &messages,
        tools: &[],
    };
    let body = request("m", &Inference::default(), false, &asked);
    let calls = &body["messages"][0]["tool_calls"];
    assert_eq!(calls[0]["extra_content"], extra);
    assert_eq!(calls[1].get("extra_content"), None);
}

#[test]
fn thinking_tokens_are_counted() {
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40});
    let event = json!({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage});
    let used = read(&[event]).unwrap().usage;
    assert_eq!((used.input_tokens, used.output_tokens), (10, 30));
}

#[test]
fn gemini_finish_reasons_are_mapped() {
    for (word, expected) in [
        ("stop", Some(Stop::End)),
        ("length", Some(Stop::Length)),
        ("content_filter", Some(Stop::Refused)),
        ("content_filter: PROHIBITED_CONTENT", Some(Stop::Refused)),
        ("SAFETY", Some(Stop::Refused)),
        ("MAX_TOKENS", Some(Stop::Length)),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", None),
        ("MALFORMED_FUNCTION_CALL", None),
    ] {
        let event = json!({"choices": [{"delta": {}, "finish_reason": word}]});
        let read = read(&[event]).map(|reply| reply.stop);
        let failed = read.as_ref().is_err_and(|error| error.kind.is_transient());
        assert_eq!(read.clone().ok(), expected, "{word}");
        assert_eq!(failed, expected.is_none(), "{word}");
    }
}

#[test]
fn error_in_a_list_is_an_error() {
    for (status, expected) in [
        ("RESOURCE_EXHAUSTED", ErrorKind::RateLimited(None)),
        ("UNAVAILABLE", ErrorKind::Server),
        ("PERMISSION_DENIED", ErrorKind::Auth),
        ("INVALID_ARGUMENT", ErrorKind::Invalid),
    ] {
        let event = json!([{"error": {"code": 400, "status": status, "message": "no"}}]);
        assert_eq!(read(&[event]).unwrap_err().kind, expected, "{status}");
    }
}
