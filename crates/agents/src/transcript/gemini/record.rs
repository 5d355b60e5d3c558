//! Parses the records of a chat file.

use segno_core::conversation::{
    Answer, AssistantPart, ConversationItem, Image, ItemContent, Notice, Origin, Outcome, Part,
    Tokens,
};
use segno_core::time::Timestamp;
use segno_core::tool::ToolCall;
use serde_json::Value;

use crate::transcript::{Facts, GrowingMessage, Object, ParsedRecord, text};

/// How texts begin that the program writes as user messages.
const PROGRAM_TAGS: [&str; 2] = ["<session_context>", "<hook_context>"];

type Read<T> = Result<T, &'static str>;

/// The entries of a record. If a field has an unexpected value, the whole record becomes one raw
/// entry.
pub(super) fn read(record: &Object, facts: &mut Facts) -> ParsedRecord {
    let said = match text(record, "type") {
        Some(kind) if record.contains_key("id") => message(kind, record, facts),
        _ => Ok(about(record, facts)),
    };
    let shape = said.as_ref().err().copied();
    let said = said.unwrap_or_else(|_| vec![raw("message")]);
    let when = ["timestamp", "startTime"].map(|key| text(record, key));
    let when = when.into_iter().flatten().find_map(Timestamp::parse);
    let id = text(record, "id").map(str::to_owned);
    let entry = |content| ConversationItem {
        when,
        id: id.clone(),
        ..ConversationItem::new(content)
    };
    ParsedRecord {
        entries: said.into_iter().map(entry).collect(),
        shape,
    }
}

/// A record that is not a message.
fn about(record: &Object, facts: &mut Facts) -> Vec<ItemContent> {
    if let Some(session) = text(record, "sessionId") {
        facts.session.get_or_insert_with(|| session.to_owned());
        return vec![raw("session")];
    }
    let key = record.keys().next().map_or("untyped", String::as_str);
    vec![raw(key)]
}

fn raw(record: &str) -> ItemContent {
    let record = record.chars().take(80).collect();
    ItemContent::Raw { record }
}

fn message(kind: &str, record: &Object, facts: &mut Facts) -> Read<Vec<ItemContent>> {
    match kind {
        "user" => user(record),
        "gemini" => model(record, facts),
        "error" => Ok(vec![ItemContent::Notice {
            notice: Notice::Error,
            text: plain(&parts(record.get("content"))?),
        }]),
        other => Ok(vec![raw(other)]),
    }
}

fn user(record: &Object) -> Read<Vec<ItemContent>> {
    let all = parts(record.get("content"))?;
    // The results are also in the message with the calls.
    let parts: Vec<Part> = all.into_iter().filter(|part| !is_response(part)).collect();
    if parts.is_empty() {
        return Ok(vec![raw("functionResponse")]);
    }
    let by_program = parts.iter().all(|part| match part {
        Part::Text { text } => PROGRAM_TAGS
            .iter()
            .any(|tag| text.trim_start().starts_with(tag)),
        _ => false,
    });
    let origin = if by_program {
        Origin::CliAgent
    } else {
        Origin::User
    };
    Ok(vec![ItemContent::User { origin, parts }])
}

/// A message of the model: what is new in it, if it has grown.
fn model(record: &Object, facts: &mut Facts) -> Read<Vec<ItemContent>> {
    let id = text(record, "id").ok_or("id")?.to_owned();
    let model = text(record, "model").map(str::to_owned);
    facts.model = model.clone().or(facts.model.take());
    let known = facts.growing.take().filter(|known| known.id == id);
    let calls = list(record, "toolCalls")?;
    let mut said = Vec::new();
    if known.is_none() {
        for thought in list(record, "thoughts")? {
            said.push(AssistantPart::Thinking {
                text: thought_text(thought).ok_or("thoughts")?,
                seal: None,
            });
        }
        let text = plain(&parts(record.get("content"))?);
        if !text.is_empty() {
            said.push(AssistantPart::Text { text });
        }
    }
    let read = known.map_or(0, |known| known.calls);
    let mut answers = Vec::new();
    for call in calls.iter().skip(read) {
        let call = call.as_object().ok_or("toolCalls")?;
        let id = text(call, "id").ok_or("toolCalls")?.to_owned();
        said.push(AssistantPart::Call(ToolCall {
            id: id.clone(),
            name: text(call, "name").ok_or("toolCalls")?.to_owned(),
            input: call.get("args").cloned().unwrap_or_default(),
        }));
        answers.extend(answer(id, call));
    }
    facts.growing = Some(GrowingMessage {
        id: id.clone(),
        calls: calls.len(),
    });
    let assistant = ItemContent::Assistant {
        message: Some(id),
        model,
        parts: said,
        usage: tokens(record)?,
    };
    Ok(std::iter::once(assistant).chain(answers).collect())
}

fn thought_text(thought: &Value) -> Option<String> {
    let thought = thought.as_object()?;
    let parts = ["subject", "description"].map(|key| text(thought, key));
    let parts: Vec<&str> = parts.into_iter().flatten().collect();
    Some(parts.join("\n"))
}

/// The result of a call, if the record has it.
fn answer(id: String, call: &Object) -> Option<ItemContent> {
    let results = call.get("result")?.as_array()?;
    let outcome = match text(call, "status") {
        Some("success") => Outcome::Succeeded,
        Some("error" | "cancelled") => Outcome::Failed,
        _ => Outcome::Unknown,
    };
    let parts = results.iter().map(|part| {
        let output = part.pointer("/functionResponse/response/output");
        match output.and_then(Value::as_str) {
            Some(text) => Part::Text {
                text: text.to_owned(),
            },
            None => Part::Raw {
                value: part.clone(),
            },
        }
    });
    let parts = parts.collect();
    Some(ItemContent::Result(Answer { id, parts, outcome }))
}

/// In Gemini's counts the input includes tokens that are read from a cache.
fn tokens(record: &Object) -> Read<Option<Tokens>> {
    let tokens = match record.get("tokens") {
        None | Some(Value::Null) => return Ok(None),
        Some(tokens) => tokens.as_object().ok_or("tokens")?,
    };
    let number = |key| match tokens.get(key) {
        None | Some(Value::Null) => Ok(0),
        Some(value) => value.as_u64().ok_or("tokens"),
    };
    let cache_read = number("cached")?;
    Ok(Some(Tokens {
        input: number("input")?
            .saturating_sub(cache_read)
            .saturating_add(number("tool")?),
        cache_read,
        cache_write: 0,
        output: number("output")?.saturating_add(number("thoughts")?),
    }))
}

/// A list that may be absent.
fn list<'a>(record: &'a Object, key: &'static str) -> Read<&'a [Value]> {
    match record.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(value) => value.as_array().map(Vec::as_slice).ok_or(key),
    }
}

/// The parts of a content: a text, a part, or a list of both.
fn parts(content: Option<&Value>) -> Read<Vec<Part>> {
    match content {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => items.iter().map(part).collect(),
        Some(item) => Ok(vec![part(item)?]),
    }
}

fn part(item: &Value) -> Read<Part> {
    if let Value::String(text) = item {
        return Ok(Part::Text { text: text.clone() });
    }
    let object = item.as_object().ok_or("content")?;
    if let Some(text) = text(object, "text") {
        let text = text.to_owned();
        return Ok(Part::Text { text });
    }
    let inline = object.get("inlineData").and_then(Value::as_object);
    let inline = inline.and_then(|data| Some((text(data, "mimeType")?, text(data, "data")?)));
    Ok(match inline {
        Some((media_type, data)) => Part::Image {
            media_type: media_type.to_owned(),
            content: Image::from_base64(data.to_owned()),
        },
        None => Part::Raw {
            value: item.clone(),
        },
    })
}

fn is_response(part: &Part) -> bool {
    matches!(part, Part::Raw { value } if value.get("functionResponse").is_some())
}

fn plain(parts: &[Part]) -> String {
    segno_core::conversation::plain_text(parts)
}
