//! The history that an agent sent to its model, as a plain list: the same for both vendors, so that
//! a test can assert which history a model really received.

use serde_json::Value;

use super::http::ModelRequest;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The user, or the agent in the user's name.
    User,
    Assistant,
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Fine,
    Failed,
    /// It was cut off, and its outcome is unknown.
    Unknown,
}

/// One part of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Text(Role, String),
    Thinking(String),
    /// A call: its id, the vendor's name of the tool, the input as it was sent.
    Call(String, String, String),
    /// The result of the call with this id.
    Result(String, Outcome, String),
}

/// What agents insert into the user's messages by themselves.
const ADDED: [&str; 4] = [
    "<system-reminder>",
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md",
];

/// How the result of a cut-off call begins.
const CUT_OFF: [&str; 5] = [
    "The outcome of this tool call is unknown",
    "[Tool call interrupted",
    "[Request interrupted",
    "aborted",
    "The user doesn't want to proceed",
];

/// The conversation in a request, without the vendor's instructions and reminders.
pub fn conversation(request: &ModelRequest) -> Vec<Part> {
    let list = |name: &str| request.body[name].as_array().cloned().unwrap_or_default();
    let mut parts = Vec::new();
    for message in list("messages") {
        read_message(&message, &mut parts);
    }
    for item in list("input") {
        read_item(&item, &mut parts);
    }
    parts
}

fn read_message(message: &Value, parts: &mut Vec<Part>) {
    let role = match message["role"].as_str() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => return,
    };
    let content = &message["content"];
    if let Some(text) = content.as_str() {
        add_text(role, text, parts);
    }
    for block in content.as_array().into_iter().flatten() {
        match block["type"].as_str() {
            Some("text") => add_text(role, word(block, "text"), parts),
            Some("thinking") => parts.push(Part::Thinking(word(block, "thinking").to_owned())),
            Some("tool_use") => parts.push(Part::Call(
                word(block, "id").to_owned(),
                word(block, "name").to_owned(),
                block["input"].to_string(),
            )),
            Some("tool_result") => {
                let text = flat(&block["content"]);
                let failed = block["is_error"] == true;
                let id = word(block, "tool_use_id").to_owned();
                parts.push(Part::Result(id, outcome(&text, failed), text));
            }
            _ => {}
        }
    }
}

fn read_item(item: &Value, parts: &mut Vec<Part>) {
    let id = || word(item, "call_id").to_owned();
    match item["type"].as_str() {
        Some("message") => {
            let role = match item["role"].as_str() {
                Some("user") => Role::User,
                Some("assistant") => Role::Assistant,
                _ => return,
            };
            for block in item["content"].as_array().into_iter().flatten() {
                add_text(role, word(block, "text"), parts);
            }
        }
        Some("reasoning") => parts.push(Part::Thinking(flat(&item["summary"]))),
        Some("function_call") => {
            let (name, input) = (word(item, "name"), word(item, "arguments"));
            parts.push(Part::Call(id(), name.to_owned(), input.to_owned()));
        }
        Some("custom_tool_call") => {
            let (name, input) = (word(item, "name"), word(item, "input"));
            parts.push(Part::Call(id(), name.to_owned(), input.to_owned()));
        }
        Some("function_call_output" | "custom_tool_call_output") => {
            let text = flat(&item["output"]);
            let code = |before: &str| {
                let (_, rest) = text.split_once(before)?;
                let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
                digits.parse::<u32>().ok()
            };
            let code = code("Exit code: ").or_else(|| code("exited with code "));
            let failed = code.is_some_and(|code| code != 0)
                || text.starts_with("apply_patch verification failed");
            parts.push(Part::Result(id(), outcome(&text, failed), text));
        }
        _ => {}
    }
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// Joins a text that may be in pieces.
fn flat(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(|one| word(one, "text")).collect(),
        _ => String::new(),
    }
}

fn outcome(text: &str, failed: bool) -> Outcome {
    let begins = |begin: &&str| text.trim_start().starts_with(begin);
    // Codex first says how long it took.
    let aborted = text.starts_with("Wall time: ") && text.contains("\naborted by user");
    if aborted || CUT_OFF.iter().any(begins) {
        Outcome::Unknown
    } else if failed {
        Outcome::Failed
    } else {
        Outcome::Fine
    }
}

fn add_text(role: Role, text: &str, parts: &mut Vec<Part>) {
    let added = role == Role::User && ADDED.iter().any(|begin| text.starts_with(begin));
    if !added && !text.is_empty() {
        parts.push(Part::Text(role, text.to_owned()));
    }
}
