//! Parses the lines of an extract.

use segno_core::conversation::{
    Answer, AssistantPart, ConversationItem, Image, ItemContent, Notice, Origin, Outcome, Part,
    Tokens, plain_text,
};
use segno_core::time::Timestamp;
use segno_core::tool::ToolCall;
use serde_json::Value;

use crate::transcript::{Facts, Object, ParsedRecord, text};

type Read<T> = Result<T, &'static str>;

/// The entries of a line. If a field has an unexpected value, the whole line becomes one raw entry.
pub(super) fn read(record: &Object, facts: &mut Facts) -> ParsedRecord {
    let kind = text(record, "type").unwrap_or("untyped");
    let said = match kind {
        "session" => {
            let owned = |key| text(record, key).map(str::to_owned);
            facts.session = facts.session.take().or_else(|| owned("id"));
            facts.cwd = facts.cwd.take().or_else(|| owned("directory"));
            facts.version = owned("version");
            Ok(vec![raw("session")])
        }
        "user" => user(record),
        "assistant" => assistant(record, facts),
        other => Ok(vec![raw(other)]),
    };
    let shape = said.as_ref().err().copied();
    let said = said.unwrap_or_else(|_| vec![raw(kind)]);
    let when = record.get("time").and_then(Value::as_i64).map(Timestamp);
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

fn raw(record: &str) -> ItemContent {
    let record = record.chars().take(80).collect();
    ItemContent::Raw { record }
}

fn parts(record: &Object) -> Read<Vec<&Object>> {
    let parts = record.get("parts").and_then(Value::as_array);
    let parts = parts.ok_or("parts")?.iter();
    parts.map(|part| part.as_object().ok_or("parts")).collect()
}

fn user(record: &Object) -> Read<Vec<ItemContent>> {
    let (mut typed, mut added) = (Vec::new(), Vec::new());
    for part in parts(record)? {
        let by_program = part.get("synthetic") == Some(&Value::Bool(true));
        let list = if by_program { &mut added } else { &mut typed };
        match text(part, "type").ok_or("type")? {
            "text" => list.push(Part::Text {
                text: text(part, "text").ok_or("text")?.to_owned(),
            }),
            "file" => list.push(file(part)),
            "compaction" => {
                return Ok(vec![ItemContent::Compaction {
                    summary: None,
                    before: None,
                    after: None,
                }]);
            }
            _ => {}
        }
    }
    let message = |origin, parts: Vec<Part>| {
        (!parts.is_empty()).then_some(ItemContent::User { origin, parts })
    };
    let said = [
        message(Origin::User, typed),
        message(Origin::CliAgent, added),
    ];
    let said: Vec<ItemContent> = said.into_iter().flatten().collect();
    Ok(if said.is_empty() {
        vec![raw("user")]
    } else {
        said
    })
}

fn file(part: &Object) -> Part {
    let (media_type, url) = (text(part, "mime"), text(part, "url").unwrap_or_default());
    let image = media_type.filter(|media_type| media_type.starts_with("image/"));
    let Some(media_type) = image.map(str::to_owned) else {
        return Part::Raw {
            value: part.clone().into(),
        };
    };
    let inline = url.strip_prefix("data:");
    let inline = inline.and_then(|rest| rest.split_once(";base64,"));
    let content = match inline {
        Some((_, data)) => Image::from_base64(data.to_owned()),
        None => Image::Url(url.to_owned()),
    };
    Part::Image {
        media_type,
        content,
    }
}

fn assistant(record: &Object, facts: &mut Facts) -> Read<Vec<ItemContent>> {
    let id = text(record, "id").ok_or("id")?.to_owned();
    let model = text(record, "modelID").map(str::to_owned);
    facts.model = model.clone().or(facts.model.take());
    let (mut said, mut answers) = (Vec::new(), Vec::new());
    for part in parts(record)? {
        let words = || text(part, "text").map(str::to_owned).ok_or("text");
        match text(part, "type").ok_or("type")? {
            "text" => said.push(AssistantPart::Text { text: words()? }),
            "reasoning" => said.push(AssistantPart::Thinking {
                text: words()?,
                seal: None,
            }),
            "tool" => {
                let (call, answer) = tool(part)?;
                said.push(AssistantPart::Call(call));
                answers.extend(answer);
            }
            _ => {}
        }
    }
    if record.get("summary") == Some(&Value::Bool(true)) {
        let texts = said.iter().filter_map(|part| match part {
            AssistantPart::Text { text } => Some(Part::Text { text: text.clone() }),
            _ => None,
        });
        let texts: Vec<Part> = texts.collect();
        return Ok(vec![ItemContent::Compaction {
            summary: Some(plain_text(&texts)),
            before: None,
            after: None,
        }]);
    }
    let message = ItemContent::Assistant {
        message: Some(id),
        model,
        parts: said,
        usage: tokens(record)?,
    };
    answers.extend(error(record));
    Ok(std::iter::once(message).chain(answers).collect())
}

fn tool(part: &Object) -> Read<(ToolCall, Option<ItemContent>)> {
    let id = text(part, "callID").ok_or("callID")?.to_owned();
    let state = part.get("state").and_then(Value::as_object);
    let state = state.ok_or("state")?;
    let call = ToolCall {
        id: id.clone(),
        name: text(part, "tool").ok_or("tool")?.to_owned(),
        input: state.get("input").cloned().unwrap_or_default(),
    };
    let (key, outcome) = match text(state, "status") {
        Some("completed") => ("output", Outcome::Succeeded),
        Some("error") => ("error", Outcome::Failed),
        _ => return Ok((call, None)),
    };
    let text = text(state, key).unwrap_or_default().to_owned();
    let parts = vec![Part::Text { text }];
    let answer = ItemContent::Result(Answer { id, parts, outcome });
    Ok((call, Some(answer)))
}

/// The error with which a message ended.
fn error(record: &Object) -> Option<ItemContent> {
    let error = record.get("error")?;
    let is_abort = error.get("name").and_then(Value::as_str) == Some("MessageAbortedError");
    let message = error.pointer("/data/message").and_then(Value::as_str);
    Some(ItemContent::Notice {
        notice: if is_abort {
            Notice::Interrupted
        } else {
            Notice::Error
        },
        text: message.unwrap_or_default().to_owned(),
    })
}

fn tokens(record: &Object) -> Read<Option<Tokens>> {
    let Some(tokens) = record.get("tokens").and_then(Value::as_object) else {
        return Ok(None);
    };
    let number = |value: Option<&Value>| match value {
        None | Some(Value::Null) => Ok(0),
        Some(value) => value.as_u64().ok_or("tokens"),
    };
    let cache = |key| tokens.get("cache").and_then(|cache| cache.get(key));
    Ok(Some(Tokens {
        input: number(tokens.get("input"))?,
        cache_read: number(cache("read"))?,
        cache_write: number(cache("write"))?,
        output: number(tokens.get("output"))?.saturating_add(number(tokens.get("reasoning"))?),
    }))
}
