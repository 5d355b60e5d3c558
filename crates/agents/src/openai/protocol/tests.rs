//! What Gemini does otherwise than others that speak chat completions.

use segno_core::digest::Digest;

use super::*;

struct Nobody;

impl Listener for Nobody {
    fn hear(&self, _: Event<'_>) {}
}

fn read(events: &[Value]) -> Result<Reply, Error> {
    let mut reading = Reading::default();
    for event in events {
        reading.take(&event.to_string(), &Nobody)?;
    }
    reading.reply()
}

fn piece(tool_calls: &Value, stop: Option<&str>) -> Value {
    json!({"choices": [{"delta": {"tool_calls": tool_calls}, "finish_reason": stop}]})
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"index": 0, "id": id, "function": {"name": name, "arguments": arguments}})
}

fn calls(reply: &Reply) -> Vec<(&str, &str, String)> {
    let told = |call: &ToolCall| call.input.to_string();
    reply
        .calls()
        .map(|call| (call.id.as_str(), call.name.as_str(), told(call)))
        .collect()
}

#[test]
fn calls_that_all_have_the_number_0_are_told_apart() {
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
fn a_call_in_pieces_stays_one() {
    let more = |text: &str| json!([{"index": 0, "function": {"arguments": text}}]);
    let reply = read(&[
        piece(&json!([call("a", "f", "")]), None),
        piece(&more("{\"x\":"), None),
        // Some repeat who they are.
        piece(&json!([call("a", "", "1}")]), None),
        piece(&json!([]), Some("tool_calls")),
    ]);
    let expected = [("a", "f", "{\"x\":1}".to_owned())];
    assert_eq!(calls(&reply.unwrap()), expected);
}

#[test]
fn the_signature_of_a_thought_is_shown_again_with_its_call() {
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
fn thoughts_are_counted() {
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40});
    let event = json!({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage});
    let used = read(&[event]).unwrap().usage;
    assert_eq!((used.input_tokens, used.output_tokens), (10, 30));
}

#[test]
fn why_it_stopped_is_understood_in_its_own_words() {
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
        let failed = read.as_ref().is_err_and(|error| error.kind.is_passing());
        assert_eq!(read.clone().ok(), expected, "{word}");
        assert_eq!(failed, expected.is_none(), "{word}");
    }
}

#[test]
fn an_error_in_a_list_is_an_error() {
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
