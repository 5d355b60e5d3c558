//! The Messages API for Claude Code: answers with its tools as a stream of events, and error
//! responses.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::http::event;
use super::script::{Call, Fault, Usage};
use super::scripted::Reply;

/// The events of an answer, one string each.
pub(super) fn events(reply: &Reply) -> Vec<String> {
    let Reply { id, usage, .. } = reply;
    let start = json!({"message": {
        "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": reply.model,
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": counts(*usage, 1),
    }});
    let mut out = vec![event("message_start", start)];
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        let begin = json!({"index": index, "content_block": start});
        out.push(event("content_block_start", begin));
        for delta in deltas {
            let delta = json!({"index": index, "delta": delta});
            out.push(event("content_block_delta", delta));
        }
        out.push(event("content_block_stop", json!({"index": index})));
        index += 1;
    };
    if let Some(thought) = &reply.thinking {
        let start = json!({"type": "thinking", "thinking": "", "signature": ""});
        let thought = json!({"type": "thinking_delta", "thinking": thought});
        let signature = json!({"type": "signature_delta", "signature": "c2NyaXB0ZWQ="});
        block(start, vec![thought, signature]);
    }
    let words = reply.text.split_inclusive(' ');
    let words = words.map(|word| json!({"type": "text_delta", "text": word}));
    block(json!({"type": "text", "text": ""}), words.collect());
    for (number, call) in reply.calls.iter().enumerate() {
        let (name, input) = tool(call);
        let id = format!("toolu_{id}_{number}");
        let start = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        let input = input.to_string();
        let middle = input.floor_char_boundary(input.len() / 2);
        let (one, two) = input.split_at(middle);
        let delta = |half| json!({"type": "input_json_delta", "partial_json": half});
        block(start, vec![delta(one), delta(two)]);
    }
    let stop = if reply.calls.is_empty() {
        "end_turn"
    } else {
        "tool_use"
    };
    let end = json!({
        "delta": {"stop_reason": stop, "stop_sequence": null},
        "usage": counts(*usage, usage.output),
    });
    out.push(event("message_delta", end));
    out.push(event("message_stop", json!({})));
    out
}

/// The same answer in one piece, for an agent that gave up on streams.
pub(super) fn message(reply: &Reply) -> String {
    let mut content = vec![json!({"type": "text", "text": reply.text})];
    for (number, call) in reply.calls.iter().enumerate() {
        let (name, input) = tool(call);
        let id = format!("toolu_{}_{number}", reply.id);
        content.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
    }
    let stop = if reply.calls.is_empty() {
        "end_turn"
    } else {
        "tool_use"
    };
    let message = json!({
        "id": format!("msg_{}", reply.id), "type": "message", "role": "assistant",
        "model": reply.model, "content": content, "stop_reason": stop, "stop_sequence": null,
        "usage": counts(reply.usage, reply.usage.output),
    });
    message.to_string()
}

/// Status, header lines and body of an error response.
pub(super) fn refusal(fault: Fault, now: u64) -> Option<(&'static str, String, Value)> {
    let (status, kind, words) = match fault {
        Fault::Unauthorized => (
            "401 Unauthorized",
            "authentication_error",
            "invalid x-api-key",
        ),
        Fault::Limited(_) => (
            "429 Too Many Requests",
            "rate_limit_error",
            "This request would exceed your rate limit",
        ),
        Fault::Overloaded => ("529 Overloaded", "overloaded_error", "Overloaded"),
        Fault::TooLong => (
            "400 Bad Request",
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
        ),
        Fault::Cut | Fault::HangUp => return None,
    };
    let mut headers = String::new();
    if let Fault::Limited(wait) = fault {
        let (wait, reset) = (wait.as_secs(), now + wait.as_secs());
        headers = format!(
            "retry-after: {wait}\r\nanthropic-ratelimit-unified-status: rejected\r\nanthropic-ratelimit-unified-reset: {reset}\r\n"
        );
    }
    let body = json!({"type": "error", "error": {"type": kind, "message": words}});
    Some((status, headers, body))
}

fn tool(call: &Call) -> (Cow<'_, str>, Value) {
    let (name, input) = match call {
        Call::McpTool {
            server,
            tool,
            input,
        } => {
            let name = format!("mcp__{server}__{tool}");
            return (name.into(), input.clone());
        }
        Call::Shell { command, .. } => (
            "Bash",
            json!({"command": command, "description": "Run a command"}),
        ),
        Call::Background { command } => (
            "Bash",
            json!({"command": command, "description": "Run a command", "run_in_background": true}),
        ),
        Call::Write { path, text } => ("Write", json!({"file_path": path, "content": text})),
        Call::Edit { path, old, new } => (
            "Edit",
            json!({"file_path": path, "old_string": old, "new_string": new}),
        ),
        Call::Delegate { prompt } => (
            "Agent",
            json!({"description": "A part of the task", "prompt": prompt, "subagent_type": "general-purpose", "run_in_background": false}),
        ),
        Call::Raw { name, input } => (name.as_str(), input.clone()),
    };
    (name.into(), input)
}

fn counts(usage: Usage, output: u64) -> Value {
    json!({
        "input_tokens": usage.input - usage.cached, "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached, "output_tokens": output,
        "service_tier": "standard",
    })
}
