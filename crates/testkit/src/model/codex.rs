//! The Responses API for Codex: answers with its tools as a stream of events, and error responses.

use serde_json::{Value, json};

use super::http::event;
use super::script::{Call, Fault};
use super::scripted::Reply;

/// How long Codex waits for a command before it continues without it.
const PATIENCE_MS: u64 = 60_000;

/// The events of an answer, one string each.
pub(super) fn events(reply: &Reply) -> Vec<String> {
    let id = &reply.id;
    let response = format!("resp_{id}");
    let mut out = vec![event(
        "response.created",
        json!({"response": {"id": response}}),
    )];
    let done = |item: Value| event("response.output_item.done", json!({"item": item}));
    if let Some(thought) = &reply.thinking {
        let summary = json!([{"type": "summary_text", "text": thought}]);
        out.push(done(json!({
            "type": "reasoning", "id": format!("rs_{id}"), "summary": summary,
            "encrypted_content": "c2NyaXB0ZWQ=",
        })));
    }
    let message = |content: Value| {
        json!({
            "type": "message", "role": "assistant", "id": format!("msg_{id}"), "content": content,
        })
    };
    let added = json!({"item": message(json!([]))});
    out.push(event("response.output_item.added", added));
    for word in reply.text.split_inclusive(' ') {
        let delta = json!({"item_id": format!("msg_{id}"), "delta": word});
        out.push(event("response.output_text.delta", delta));
    }
    let text = json!([{"type": "output_text", "text": reply.text}]);
    out.push(done(message(text)));
    for (number, call) in reply.calls.iter().enumerate() {
        out.push(done(tool(call, &format!("{id}_{number}"))));
    }
    let usage = reply.usage;
    let usage = json!({
        "input_tokens": usage.input, "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input + usage.output,
    });
    let end = json!({"response": {"id": response, "usage": usage}});
    out.push(event("response.completed", end));
    out
}

/// Status, header lines and body of an error response.
pub(super) fn refusal(fault: Fault, now: u64) -> Option<(&'static str, String, Value)> {
    let mut headers = String::new();
    let (status, error) = match fault {
        Fault::Unauthorized => (
            "401 Unauthorized",
            json!({"type": "invalid_request_error", "code": "invalid_api_key", "message": "Incorrect API key provided"}),
        ),
        Fault::Limited(wait) => {
            headers = format!("retry-after: {}\r\n", wait.as_secs());
            let error = json!({
                "type": "usage_limit_reached", "message": "The usage limit has been reached",
                "resets_at": now + wait.as_secs(),
            });
            ("429 Too Many Requests", error)
        }
        Fault::Overloaded => (
            "529 Overloaded",
            json!({"type": "server_error", "message": "Overloaded"}),
        ),
        Fault::TooLong => (
            "400 Bad Request",
            json!({"type": "invalid_request_error", "code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}),
        ),
        Fault::Cut | Fault::HangUp => return None,
    };
    Some((status, headers, json!({"error": error})))
}

fn tool(call: &Call, id: &str) -> Value {
    let (call_id, item) = (format!("call_{id}"), format!("fc_{id}"));
    let function = |name: &str, arguments: Value| {
        json!({
            "type": "function_call", "id": item, "call_id": call_id, "name": name,
            "arguments": arguments.to_string(),
        })
    };
    let patch = |lines: String| {
        let input = format!("*** Begin Patch\n{lines}*** End Patch\n");
        json!({
            "type": "custom_tool_call", "id": format!("ctc_{id}"), "call_id": call_id,
            "name": "apply_patch", "input": input,
        })
    };
    match call {
        Call::Shell { command, .. } | Call::Background { command } => function(
            "exec_command",
            json!({"cmd": command, "yield_time_ms": PATIENCE_MS}),
        ),
        Call::Write { path, text } => {
            let lines = with_sign('+', text);
            patch(format!("*** Add File: {path}\n{lines}"))
        }
        Call::Edit { path, old, new } => {
            let (old, new) = (with_sign('-', old), with_sign('+', new));
            patch(format!("*** Update File: {path}\n@@\n{old}{new}"))
        }
        Call::Delegate { prompt } => function("spawn_agent", json!({"message": prompt})),
        Call::McpTool {
            server,
            tool,
            input,
        } => {
            let mut item = function(tool, input.clone());
            item["namespace"] = format!("mcp__{server}").into();
            item
        }
        Call::Raw { name, input } => function(name, input.clone()),
    }
}

fn with_sign(sign: char, text: &str) -> String {
    text.lines()
        .flat_map(|line| [sign.to_string(), format!("{line}\n")])
        .collect()
}
