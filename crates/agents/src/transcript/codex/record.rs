//! Parses the records of a rollout.

use segno_core::conversation::{
    Answer, AssistantPart, ConversationItem, Image, ItemContent, Notice, Origin, Outcome, Part,
    Tokens,
};
use segno_core::time::Timestamp;
use segno_core::tool::ToolCall;
use serde_json::Value;

use crate::transcript::{Facts, Object, ParsedRecord, parse, text};

/// How texts begin that the program writes as user messages, in versions that do not mark them.
const PROGRAM_TAGS: [&str; 3] = [
    "<environment_context>",
    "<user_instructions>",
    "<turn_aborted>",
];

/// The record types that have a payload.
const WITH_PAYLOAD: [&str; 6] = [
    "session_meta",
    "turn_context",
    "response_item",
    "event_msg",
    "compacted",
    "token_usage_record",
];

type Read<T> = Result<T, &'static str>;

/// The entries of a record. If a field has an unexpected value, the whole record becomes one raw
/// entry.
pub(super) fn read(record: &Object, facts: &mut Facts) -> ParsedRecord {
    let name = text(record, "type").unwrap_or("untyped");
    let empty = Object::new();
    let payload = record.get("payload").and_then(Value::as_object);
    let said = match payload {
        Some(payload) => {
            update_facts(name, payload, facts);
            parse_payload(name, payload, facts)
        }
        None if WITH_PAYLOAD.contains(&name) => Err("payload"),
        None => Ok(None),
    };
    let payload = payload.unwrap_or(&empty);
    let shape = said.as_ref().err().copied();
    let said = said.ok().flatten().unwrap_or_else(|| raw(name, payload));
    ParsedRecord {
        entries: vec![entry(record, payload, said)],
        shape,
    }
}

fn parse_payload(name: &str, payload: &Object, facts: &Facts) -> Read<Option<ItemContent>> {
    match name {
        "response_item" => item(payload, facts),
        "event_msg" => event(payload),
        "token_usage_record" => usage(payload, "usage", "thread_token_usage"),
        "compacted" => compacted(payload),
        _ => Ok(None),
    }
}

fn entry(record: &Object, payload: &Object, said: ItemContent) -> ConversationItem {
    ConversationItem {
        when: text(record, "timestamp").and_then(Timestamp::parse),
        id: text(payload, "id").map(str::to_owned),
        ..ConversationItem::new(said)
    }
}

/// The record's own name: `response_item/reasoning`, `event_msg/task_started`, `world_state`.
fn raw(name: &str, payload: &Object) -> ItemContent {
    let subtype = match text(payload, "type") {
        Some("message") => text(payload, "role").map(|role| format!("message/{role}")),
        subtype => subtype.map(str::to_owned),
    };
    ItemContent::Raw {
        record: match subtype {
            Some(subtype) => format!("{name}/{subtype}"),
            None => name.to_owned(),
        },
    }
}

fn update_facts(name: &str, payload: &Object, facts: &mut Facts) {
    let owned = |key| text(payload, key).map(str::to_owned);
    match name {
        "session_meta" => {
            facts.session = facts.session.take().or_else(|| owned("id"));
            facts.cwd = facts.cwd.take().or_else(|| owned("cwd"));
            facts.version = owned("cli_version").or(facts.version.take());
            let git = payload.get("git").and_then(|git| git.get("branch"));
            let branch = git.and_then(Value::as_str).map(str::to_owned);
            facts.git_branch = branch.or(facts.git_branch.take());
        }
        "turn_context" => {
            facts.model = owned("model").or(facts.model.take());
            facts.cwd = facts.cwd.take().or_else(|| owned("cwd"));
        }
        _ => {}
    }
}

fn item(payload: &Object, facts: &Facts) -> Read<Option<ItemContent>> {
    let owned = |key: &'static str| text(payload, key).map(str::to_owned).ok_or(key);
    let by_model = |parts| {
        Ok(Some(ItemContent::Assistant {
            message: text(payload, "id").map(str::to_owned),
            model: facts.model.clone(),
            parts,
            usage: None,
        }))
    };
    match text(payload, "type").ok_or("type")? {
        "message" => match text(payload, "role").ok_or("role")? {
            "user" => {
                let parts = contents(payload.get("content"))?;
                Ok(Some(ItemContent::User {
                    origin: origin(payload, &parts),
                    parts,
                }))
            }
            "assistant" => {
                let parts = contents(payload.get("content"))?.into_iter();
                by_model(parts.map(assistant_part).collect())
            }
            _ => Ok(None),
        },
        "reasoning" => by_model(vec![AssistantPart::Thinking {
            text: reasoning_text(payload)?,
            seal: text(payload, "encrypted_content").map(str::to_owned),
        }]),
        "function_call" => by_model(vec![AssistantPart::Call(ToolCall {
            id: owned("call_id")?,
            name: owned("name")?,
            input: arguments(owned("arguments")?),
        })]),
        "custom_tool_call" => by_model(vec![AssistantPart::Call(ToolCall {
            id: owned("call_id")?,
            name: owned("name")?,
            input: Value::String(owned("input")?),
        })]),
        "function_call_output" | "custom_tool_call_output" => {
            let (parts, outcome) = output(payload.get("output"))?;
            Ok(Some(ItemContent::Result(Answer {
                id: owned("call_id")?,
                parts,
                outcome,
            })))
        }
        _ => Ok(None),
    }
}

/// A function's arguments are a JSON object in a string; anything else stays that string.
fn arguments(text: String) -> Value {
    match parse(text.as_bytes()) {
        Ok(object) => Value::Object(object),
        Err(_) => Value::String(text),
    }
}

fn output(output: Option<&Value>) -> Read<(Vec<Part>, Outcome)> {
    match output {
        Some(Value::String(text)) => {
            let text = text.clone();
            Ok((vec![Part::Text { text }], Outcome::Unknown))
        }
        Some(list @ Value::Array(_)) => Ok((contents(Some(list))?, Outcome::Unknown)),
        Some(Value::Object(said)) => {
            let outcome = match said.get("success") {
                Some(Value::Bool(true)) => Outcome::Succeeded,
                Some(Value::Bool(false)) => Outcome::Failed,
                _ => Outcome::Unknown,
            };
            let text = text(said, "content").ok_or("output")?.to_owned();
            Ok((vec![Part::Text { text }], outcome))
        }
        _ => Err("output"),
    }
}

fn contents(content: Option<&Value>) -> Read<Vec<Part>> {
    let items = content.and_then(Value::as_array).ok_or("content")?;
    items.iter().map(part).collect()
}

fn part(item: &Value) -> Read<Part> {
    let object = item.as_object().ok_or("content")?;
    Ok(match text(object, "type").ok_or("type")? {
        "input_text" | "output_text" | "text" => Part::Text {
            text: text(object, "text").ok_or("text")?.to_owned(),
        },
        "input_image" => match text(object, "image_url").map(image) {
            Some(image) => image,
            None => Part::Raw {
                value: item.clone(),
            },
        },
        _ => Part::Raw {
            value: item.clone(),
        },
    })
}

/// A picture from `data:image/png;base64,…` or from a URL.
fn image(url: &str) -> Part {
    let inline = url
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(";base64,"));
    match inline {
        Some((media_type, data)) => Part::Image {
            media_type: media_type.to_owned(),
            content: Image::from_base64(data.to_owned()),
        },
        None => Part::Image {
            media_type: "image/*".to_owned(),
            content: Image::Url(url.to_owned()),
        },
    }
}

fn assistant_part(part: Part) -> AssistantPart {
    match part {
        Part::Text { text } => AssistantPart::Text { text },
        Part::Raw { value } => AssistantPart::Raw { value },
        Part::Image { .. } => AssistantPart::Raw {
            value: serde_json::to_value(part).unwrap_or_default(),
        },
    }
}

fn reasoning_text(payload: &Object) -> Read<String> {
    let lists = [payload.get("summary"), payload.get("content")];
    let mut words: Vec<&str> = Vec::new();
    for list in lists.into_iter().flatten().filter(|list| !list.is_null()) {
        for item in list.as_array().ok_or("summary")? {
            let text = item.get("text").and_then(Value::as_str);
            words.push(text.ok_or("summary")?);
        }
    }
    Ok(words.join("\n"))
}

/// Who wrote a user message: newer versions mark each of its parts.
fn origin(payload: &Object, parts: &[Part]) -> Origin {
    let said = payload
        .get("internal_chat_message_metadata_passthrough")
        .and_then(|metadata| metadata.get("content_item_metadata"))
        .and_then(Value::as_array);
    let program = match said {
        Some(items) => items.iter().all(|item| {
            let by = item.pointer("/provenance/type").and_then(Value::as_str);
            by.is_some_and(|by| by != "user")
        }),
        None => parts.iter().all(|part| match part {
            Part::Text { text } => PROGRAM_TAGS
                .iter()
                .any(|tag| text.trim_start().starts_with(tag)),
            _ => false,
        }),
    };
    if program && !parts.is_empty() {
        Origin::CliAgent
    } else {
        Origin::User
    }
}

fn event(payload: &Object) -> Read<Option<ItemContent>> {
    let notice = |notice, key| {
        let text = text(payload, key).unwrap_or_default().to_owned();
        Ok(Some(ItemContent::Notice { notice, text }))
    };
    match text(payload, "type").ok_or("type")? {
        "token_count" => match payload.get("info") {
            Some(Value::Object(info)) => usage(info, "last_token_usage", "total_token_usage"),
            _ => Ok(None),
        },
        "turn_aborted" => notice(Notice::Interrupted, "reason"),
        "error" | "stream_error" => notice(Notice::Error, "message"),
        _ => Ok(None),
    }
}

fn usage(from: &Object, last: &'static str, total: &'static str) -> Read<Option<ItemContent>> {
    let tokens_of = |key: &'static str| match from.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(usage)) => tokens(usage).map(Some),
        Some(_) => Err(key),
    };
    Ok(Some(ItemContent::Usage {
        last: tokens_of(last)?.ok_or(last)?,
        total: tokens_of(total)?,
    }))
}

/// In Codex's counts the input includes tokens that are read from and written to a cache.
fn tokens(usage: &Object) -> Read<Tokens> {
    let number = |key| match usage.get(key) {
        None | Some(Value::Null) => Ok(0),
        Some(value) => value.as_u64().ok_or("usage"),
    };
    let cache_read = number("cached_input_tokens")?;
    let cache_write = number("cache_write_input_tokens")?;
    let input = number("input_tokens")?;
    Ok(Tokens {
        input: input.saturating_sub(cache_read.saturating_add(cache_write)),
        cache_read,
        cache_write,
        output: number("output_tokens")?,
    })
}

fn compacted(payload: &Object) -> Read<Option<ItemContent>> {
    let summary = text(payload, "message").ok_or("message")?;
    Ok(Some(ItemContent::Compaction {
        summary: (!summary.is_empty()).then(|| summary.to_owned()),
        before: None,
        after: None,
    }))
}
