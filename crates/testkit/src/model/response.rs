//! One answer, for tests that choose the answer to each request themselves: the answers and
//! failures of models behind an API, in both vendors' stream formats.

use std::io::Write;
use std::net::TcpStream;

use serde_json::{Value, json};

use super::http::{ModelRequest, event};

/// How the server answers a request.
#[derive(Debug, Clone)]
pub enum ModelResponse {
    Text(String),
    /// A text and tool calls: name and input.
    Tools(String, Vec<(String, Value)>),
    /// A text that was cut at the token limit.
    TokenLimit(String),
    /// A response with this status, these header lines and this body.
    Status(u16, &'static str, String),
    /// A stream that ends in the middle of an answer.
    Cut,
    /// A stream that reports an error in the middle of an answer.
    ErrorInStream,
    /// An empty stream.
    Empty,
    /// A page of HTML.
    Html,
    /// The connection is closed before anything is sent.
    HangUp,
}

/// The input and output tokens of every answer.
const USED: (u64, u64) = (11, 7);

/// Answers a request; `None` if the connection is closed.
pub(super) fn answer(
    stream: &mut TcpStream,
    request: &ModelRequest,
    play: &ModelResponse,
) -> Option<()> {
    let anthropic = request.path.ends_with("/messages");
    let events = |play: &ModelResponse| {
        if anthropic {
            anthropic_events(play)
        } else {
            openai_events(play)
        }
    };
    let (head, body) = match play {
        ModelResponse::Text(_)
        | ModelResponse::Tools(..)
        | ModelResponse::TokenLimit(_)
        | ModelResponse::ErrorInStream => {
            ("200 OK\r\ncontent-type: text/event-stream", events(play))
        }
        ModelResponse::Cut => {
            let whole = events(&ModelResponse::Text("this is cut".into()));
            let half = whole.len() / 2;
            // A client sees a cut connection as a body that is shorter than its length.
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{}",
                whole.len(),
                &whole[..half]
            );
            let _ = stream.write_all(head.as_bytes());
            return None;
        }
        ModelResponse::HangUp => return None,
        ModelResponse::Empty => ("200 OK\r\ncontent-type: text/event-stream", String::new()),
        ModelResponse::Html => (
            "200 OK\r\ncontent-type: text/html",
            "<!doctype html><html>Hello</html>".to_owned(),
        ),
        ModelResponse::Status(status, headers, body) => {
            let head = format!(
                "HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n{body}",
                body.len()
            );
            return stream.write_all(head.as_bytes()).ok();
        }
    };
    let whole = format!(
        "HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(whole.as_bytes()).ok()
}

fn anthropic_events(play: &ModelResponse) -> String {
    let (text, calls, stop) = parts(play, ["end_turn", "tool_use", "max_tokens"]);
    let mut out = event(
        "message_start",
        json!({"message": {"usage": {"input_tokens": USED.0, "output_tokens": 1}}}),
    );
    out += ": a comment\n\n";
    let mut index = 0;
    let start = json!({"index": index, "content_block": {"type": "text", "text": ""}});
    out += &event("content_block_start", start);
    for piece in text.split_inclusive(' ') {
        let delta = json!({"index": index, "delta": {"type": "text_delta", "text": piece}});
        out += &event("content_block_delta", delta);
    }
    if matches!(play, ModelResponse::ErrorInStream) {
        let error = json!({"error": {"type": "overloaded_error", "message": "too busy"}});
        return out + &event("error", error);
    }
    out += &event("content_block_stop", json!({"index": index}));
    for (name, input) in calls {
        index += 1;
        let block =
            json!({"type": "tool_use", "id": format!("call-{index}"), "name": name, "input": {}});
        out += &event(
            "content_block_start",
            json!({"index": index, "content_block": block}),
        );
        let json = input.to_string();
        let (one, two) = json.split_at(json.len() / 2);
        for piece in [one, two] {
            let delta = json!({"index": index, "delta": {"type": "input_json_delta", "partial_json": piece}});
            out += &event("content_block_delta", delta);
        }
        out += &event("content_block_stop", json!({"index": index}));
    }
    let end = json!({"delta": {"stop_reason": stop}, "usage": {"output_tokens": USED.1}});
    out += &event("message_delta", end);
    out + &event("message_stop", json!({}))
}

pub(super) fn openai_events(play: &ModelResponse) -> String {
    let (text, calls, stop) = parts(play, ["stop", "tool_calls", "length"]);
    let chunk = |delta: Value, stop: Option<&str>| {
        let data = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": stop}]});
        format!("data: {data}\n\n")
    };
    let mut out = chunk(json!({"role": "assistant", "content": ""}), None);
    for piece in text.split_inclusive(' ') {
        out += &chunk(json!({"content": piece}), None);
    }
    if matches!(play, ModelResponse::ErrorInStream) {
        let error = json!({"error": {"type": "server_error", "message": "too busy"}});
        return out + &format!("data: {error}\n\n");
    }
    for (index, (name, input)) in calls.iter().enumerate() {
        let id = format!("call-{index}");
        let function = json!({"name": name, "arguments": ""});
        out += &chunk(
            json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}),
            None,
        );
        let json = input.to_string();
        let (one, two) = json.split_at(json.len() / 2);
        for piece in [one, two] {
            let function = json!({"arguments": piece});
            out += &chunk(
                json!({"tool_calls": [{"index": index, "function": function}]}),
                None,
            );
        }
    }
    out += &chunk(json!({}), Some(stop));
    let usage =
        json!({"choices": [], "usage": {"prompt_tokens": USED.0, "completion_tokens": USED.1}});
    out + &format!("data: {usage}\n\ndata: [DONE]\n\n")
}

fn parts<'a>(
    play: &'a ModelResponse,
    stops: [&'static str; 3],
) -> (&'a str, &'a [(String, Value)], &'static str) {
    match play {
        ModelResponse::Tools(text, calls) => (text, calls, stops[1]),
        ModelResponse::TokenLimit(text) => (text, &[], stops[2]),
        ModelResponse::Text(text) => (text, &[], stops[0]),
        _ => ("half of it", &[], stops[0]),
    }
}
