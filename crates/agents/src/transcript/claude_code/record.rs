//! Parses the records of Claude Code's transcript.

use segno_core::conversation::{
    Answer, AssistantPart, ConversationItem, Image, ItemContent, Notice, Origin, Outcome, Part,
    Thread, Tokens,
};
use segno_core::time::Timestamp;
use segno_core::tool::ToolCall;
use serde_json::Value;

use crate::transcript::{Facts, Object, ParsedRecord, text};

/// What Claude Code writes as a user message when a turn is interrupted.
const INTERRUPT_TEXTS: [&str; 2] = [
    "[Request interrupted by user]",
    "[Request interrupted by user for tool use]",
];
/// The model name of messages that the program itself writes as the assistant.
const SYNTHETIC_MODEL: &str = "<synthetic>";

/// The entries of a record. If a field has an unexpected value, the whole record becomes one raw
/// entry.
pub(super) fn read(record: &Object, facts: &mut Facts) -> ParsedRecord {
    update_facts(record, facts);
    let base = base(record);
    let name = text(record, "type").unwrap_or("untyped").to_owned();
    let said = match name.as_str() {
        "user" => user(record),
        "assistant" => assistant(record),
        "system" => Ok(vec![system(record)]),
        _ => Ok(vec![raw(record, &name)]),
    };
    let (said, shape) = match said {
        Ok(said) => (said, None),
        Err(field) => (vec![raw(record, &name)], Some(field)),
    };
    if let Some(ItemContent::Assistant {
        model: Some(model), ..
    }) = said.last()
        && model != SYNTHETIC_MODEL
    {
        facts.model = Some(model.clone());
    }
    let entries = said.into_iter().map(|said| ConversationItem {
        content: said,
        ..base.clone()
    });
    ParsedRecord {
        entries: entries.collect(),
        shape,
    }
}

fn update_facts(record: &Object, facts: &mut Facts) {
    let owned = |key| text(record, key).map(str::to_owned);
    facts.session = facts.session.take().or_else(|| owned("sessionId"));
    facts.cwd = facts.cwd.take().or_else(|| owned("cwd"));
    facts.version = owned("version").or(facts.version.take());
    facts.git_branch = owned("gitBranch").or(facts.git_branch.take());
}

/// The entry of a record, without its content.
fn base(record: &Object) -> ConversationItem {
    let owned = |key| text(record, key).map(str::to_owned);
    ConversationItem {
        when: text(record, "timestamp").and_then(Timestamp::parse),
        id: owned("uuid"),
        parent: owned("parentUuid").or_else(|| owned("logicalParentUuid")),
        thread: thread(record),
        ..ConversationItem::new(ItemContent::Raw {
            record: String::new(),
        })
    }
}

pub(super) fn thread(record: &Object) -> Thread {
    match (record.get("isSidechain"), text(record, "agentId")) {
        (Some(Value::Bool(true)), name) => Thread::Agent(name.unwrap_or("unnamed").to_owned()),
        _ => Thread::Main,
    }
}

/// The record's own name: `system/api_error`, `attachment/date`, `cost-state`.
fn raw(record: &Object, name: &str) -> ItemContent {
    let subtype = match name {
        "attachment" => record
            .get("attachment")
            .and_then(|attachment| attachment.get("type"))
            .and_then(Value::as_str),
        _ => text(record, "subtype"),
    };
    ItemContent::Raw {
        record: match subtype {
            Some(subtype) => format!("{name}/{subtype}"),
            None => name.to_owned(),
        },
    }
}

type Read<T> = Result<T, &'static str>;

fn message(record: &Object) -> Read<&Object> {
    match record.get("message") {
        Some(Value::Object(message)) => Ok(message),
        _ => Err("message"),
    }
}

fn flag(record: &Object, key: &str) -> bool {
    record.get(key) == Some(&Value::Bool(true))
}

/// The blocks of a message's content. A single string stands for one text block.
fn blocks(content: Option<&Value>) -> Read<Vec<Value>> {
    match content {
        Some(Value::String(text)) => Ok(vec![serde_json::json!({"type": "text", "text": text})]),
        Some(Value::Array(blocks)) => Ok(blocks.clone()),
        _ => Err("content"),
    }
}

fn user(record: &Object) -> Read<Vec<ItemContent>> {
    let program = flag(record, "isMeta");
    let summary = flag(record, "isCompactSummary");
    let origin = if program {
        Origin::CliAgent
    } else {
        Origin::User
    };
    let content = message(record)?.get("content");
    let mut said = Vec::new();
    let mut parts = Vec::new();
    for block in blocks(content)? {
        if block.get("type").and_then(Value::as_str) == Some("tool_result") {
            if !parts.is_empty() {
                let parts = std::mem::take(&mut parts);
                said.push(ItemContent::User { origin, parts });
            }
            said.push(ItemContent::Result(answer(&block)?));
        } else {
            parts.push(part(block)?);
        }
    }
    if summary && said.is_empty() {
        return Ok(vec![ItemContent::Compaction {
            summary: Some(segno_core::conversation::plain_text(&parts)),
            before: None,
            after: None,
        }]);
    }
    match parts.as_slice() {
        [Part::Text { text }] if INTERRUPT_TEXTS.contains(&text.as_str()) => {
            said.push(ItemContent::Notice {
                notice: Notice::Interrupted,
                text: text.clone(),
            });
        }
        [] if !said.is_empty() => {}
        _ => said.push(ItemContent::User { origin, parts }),
    }
    Ok(said)
}

/// The first call for which a user record holds a result.
pub(super) fn first_answered_call(record: &Object) -> Option<String> {
    let said = user(record).ok()?;
    said.into_iter().find_map(|said| match said {
        ItemContent::Result(answer) => Some(answer.id),
        _ => None,
    })
}

fn answer(block: &Value) -> Read<Answer> {
    let id = block.get("tool_use_id").and_then(Value::as_str);
    let parts = match block.get("content") {
        None | Some(Value::Null) => Vec::new(),
        content => blocks(content)?
            .into_iter()
            .map(part)
            .collect::<Read<_>>()?,
    };
    let outcome = match block.get("is_error") {
        None | Some(Value::Null | Value::Bool(false)) => Outcome::Succeeded,
        Some(Value::Bool(true)) => Outcome::Failed,
        Some(_) => return Err("is_error"),
    };
    Ok(Answer {
        id: id.ok_or("tool_use_id")?.to_owned(),
        parts,
        outcome,
    })
}

fn part(block: Value) -> Read<Part> {
    let Value::Object(object) = &block else {
        return Err("content");
    };
    Ok(match text(object, "type") {
        Some("text") => Part::Text {
            text: text(object, "text").ok_or("text")?.to_owned(),
        },
        Some("image") => image(object).unwrap_or(Part::Raw { value: block }),
        Some(_) => Part::Raw { value: block },
        None => return Err("type"),
    })
}

fn image(block: &Object) -> Option<Part> {
    let source = block.get("source")?.as_object()?;
    let content = match text(source, "type")? {
        "base64" => Image::from_base64(text(source, "data")?.to_owned()),
        "url" => Image::Url(text(source, "url")?.to_owned()),
        _ => return None,
    };
    let media_type = match &content {
        Image::Url(_) => text(source, "media_type").unwrap_or("image/*"),
        _ => text(source, "media_type")?,
    };
    Some(Part::Image {
        media_type: media_type.to_owned(),
        content,
    })
}

fn assistant(record: &Object) -> Read<Vec<ItemContent>> {
    let failed = flag(record, "isApiErrorMessage");
    let message = message(record)?;
    let owned = |key| text(message, key).map(str::to_owned);
    let (id, model) = (owned("id"), owned("model"));
    let parts: Vec<_> = blocks(message.get("content"))?
        .into_iter()
        .map(assistant_part)
        .collect::<Read<_>>()?;
    if failed {
        let words = parts.iter().filter_map(|part| match part {
            AssistantPart::Text { text } => Some(text.as_str()),
            _ => None,
        });
        return Ok(vec![ItemContent::Notice {
            notice: Notice::Error,
            text: words.collect::<Vec<_>>().join("\n"),
        }]);
    }
    // A message that the program writes as the assistant costs nothing, and does not measure the
    // context.
    let usage = match message.get("usage") {
        _ if model.as_deref() == Some(SYNTHETIC_MODEL) => None,
        None | Some(Value::Null) => None,
        // Every response uses tokens; zero means that the usage is not known.
        Some(Value::Object(usage)) => Some(tokens(usage)?).filter(|tokens| tokens.sum() > 0),
        Some(_) => return Err("usage"),
    };
    Ok(vec![ItemContent::Assistant {
        message: id,
        model,
        parts,
        usage,
    }])
}

fn assistant_part(block: Value) -> Read<AssistantPart> {
    let Value::Object(object) = &block else {
        return Err("content");
    };
    let owned = |key: &'static str| text(object, key).map(str::to_owned).ok_or(key);
    Ok(match text(object, "type") {
        Some("text") => AssistantPart::Text {
            text: owned("text")?,
        },
        Some("thinking") => AssistantPart::Thinking {
            text: owned("thinking")?,
            seal: owned("signature").ok(),
        },
        Some("tool_use") => AssistantPart::Call(ToolCall {
            id: owned("id")?,
            name: owned("name")?,
            input: object.get("input").cloned().ok_or("input")?,
        }),
        Some(_) => AssistantPart::Raw { value: block },
        None => return Err("type"),
    })
}

fn tokens(usage: &Object) -> Read<Tokens> {
    let number = |key| match usage.get(key) {
        None | Some(Value::Null) => Ok(0),
        Some(value) => value.as_u64().ok_or("usage"),
    };
    Ok(Tokens {
        input: number("input_tokens")?,
        cache_read: number("cache_read_input_tokens")?,
        cache_write: number("cache_creation_input_tokens")?,
        output: number("output_tokens")?,
    })
}

fn system(record: &Object) -> ItemContent {
    match text(record, "subtype") {
        Some("compact_boundary") => {
            let metadata = record.get("compactMetadata");
            let number = |key| metadata.and_then(|of| of.get(key)).and_then(Value::as_u64);
            ItemContent::Compaction {
                summary: None,
                before: number("preTokens"),
                after: number("postTokens"),
            }
        }
        Some("api_error") => ItemContent::Notice {
            notice: Notice::Error,
            text: text(record, "content").unwrap_or_default().to_owned(),
        },
        _ => raw(record, "system"),
    }
}
