//! Writes a conversation of the database as lines: one about the session, and one for each message
//! that is complete.
//!
//! A line has only what opencode does not change any more, so that an extract which was read is the
//! beginning of every later one. Hostile rows become lines that are reported as damage.

use std::io::{self, BufWriter, Write};

use rusqlite::Connection;
use serde_json::{Value, json};

use super::database::{Conversation, MAX_DATA, MESSAGES, PARTS, Stored, stored};
use crate::transcript::{Object, parse, text};

/// The longest line. One message may have many parts.
const MAX_LINE: usize = 15 << 20;

/// Writes the extract of a conversation.
pub(super) fn write(
    reading: &Connection,
    conversation: &Conversation,
    to: impl Write,
) -> rusqlite::Result<io::Result<()>> {
    let mut to = BufWriter::new(to);
    let about = json!({
        "type": "session", "version": "1", "id": conversation.id,
        "directory": conversation.folder, "time": conversation.created,
    });
    if let Err(error) = writeln!(to, "{about}") {
        return Ok(Err(error));
    }
    let mut messages = reading.prepare(MESSAGES)?;
    let mut parts = reading.prepare(PARTS)?;
    let mut rows = messages.query((&conversation.id, MAX_DATA))?;
    // A message that is not complete is written once another one follows, which is never the case
    // while the model answers.
    let mut waiting: Option<String> = None;
    while let Some(row) = rows.next()? {
        let message = stored(row)?;
        if let Some(line) = waiting.take()
            && let Err(error) = writeln!(to, "{line}")
        {
            return Ok(Err(error));
        }
        let all = parts.query_map((&message.id, MAX_DATA), stored)?;
        let (line, is_complete) = line(&message, all)?;
        if !is_complete {
            waiting = Some(line);
        } else if let Err(error) = writeln!(to, "{line}") {
            return Ok(Err(error));
        }
    }
    Ok(to.flush())
}

/// The line of a message, and whether the message is complete.
fn line(
    message: &Stored,
    parts: impl Iterator<Item = rusqlite::Result<Stored>>,
) -> rusqlite::Result<(String, bool)> {
    let Some(about) = object(message) else {
        return Ok((unreadable(message), true));
    };
    let role = text(&about, "role").unwrap_or("untyped");
    let (mut list, mut bytes) = (Vec::new(), 0);
    for part in parts {
        let part = part?;
        bytes += part.data.as_ref().map_or(0, String::len);
        if bytes > MAX_LINE {
            return Ok((unreadable(message), true));
        }
        list.push(match object(&part) {
            Some(object) => select_part(&object),
            None => Some(json!({"type": "unreadable", "id": part.id})),
        });
    }
    let is_complete = match role {
        "assistant" => about.contains_key("error") || about["time"].get("completed").is_some(),
        _ => !list.is_empty(),
    };
    let mut line = json!({
        "type": role, "id": message.id, "time": message.created,
        "parts": list.into_iter().flatten().collect::<Vec<_>>(),
    });
    for key in ["modelID", "tokens", "error", "summary"] {
        // A user's message has a summary of its changes, which is made later.
        if role == "assistant"
            && let Some(value) = about.get(key)
        {
            line[key] = value.clone();
        }
    }
    Ok((line.to_string(), is_complete))
}

/// What does not change in a part.
fn select_part(part: &Object) -> Option<Value> {
    let kind = text(part, "type")?;
    let keys: &[&str] = match kind {
        "text" | "reasoning" => &["type", "text", "synthetic", "ignored"],
        "file" => &["type", "mime", "filename", "url"],
        "compaction" => &["type", "auto"],
        "tool" => {
            let state = part.get("state")?.as_object()?;
            let keys = ["status", "input", "output", "error"];
            let state: Object = select(state, &keys);
            let mut tool = select(part, &["type", "tool", "callID"]);
            tool.insert("state".to_owned(), state.into());
            return Some(tool.into());
        }
        _ => return None,
    };
    Some(select(part, keys).into())
}

fn select(object: &Object, keys: &[&str]) -> Object {
    let pairs = keys.iter().filter_map(|key| {
        let value = object.get(*key)?;
        Some(((*key).to_owned(), value.clone()))
    });
    pairs.collect()
}

fn object(stored: &Stored) -> Option<Object> {
    parse(stored.data.as_ref()?.as_bytes()).ok()
}

/// A line that the reader reports as damage.
fn unreadable(message: &Stored) -> String {
    let id: String = message
        .id
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    format!("message {id} is unreadable")
}
