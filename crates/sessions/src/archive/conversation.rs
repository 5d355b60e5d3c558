//! Writes `conversation.json`: the messages of a session, derived from its journal.

use std::collections::{BTreeMap, BTreeSet};

use segno_core::bundle::Bundle;
use segno_core::journal::{Event, Head, JournalEvent, Text};
use segno_core::tool::ToolCall;
use serde::Serialize;
use serde_json::Value;

use crate::conversation::Message;

/// The version of the format.
const VERSION: u32 = 1;

/// The messages of a session's agents, in the order of the journal.
#[derive(Debug, Default, Serialize)]
pub(super) struct Conversation {
    #[serde(rename = "segno_conversation")]
    format: u32,
    session_id: Option<String>,
    pub(super) turn_count: u64,
    pub(super) last_message_id: Option<String>,
    pending_tool_calls: Vec<Value>,
    messages: Vec<Message>,
    #[serde(skip)]
    pub(super) tools: BTreeSet<String>,
    #[serde(skip)]
    pending: BTreeMap<(String, String), Value>,
}

/// Reads the messages from an exported session.
pub(super) fn conversation(bundle: &Bundle) -> Conversation {
    let mut conversation = Conversation {
        format: VERSION,
        session_id: Some(bundle.header.session.to_string()),
        ..Conversation::default()
    };
    let mut head = Head::genesis(bundle.header.session);
    for record in &bundle.records {
        // The bundle was verified when it was read.
        let Ok(entry) = head.open(record) else { break };
        head = record.head();
        conversation.add_event(&entry, |text| match text {
            Text::Inline(text) => text.clone(),
            Text::Blob { blob, .. } => bundle.texts.get(blob).cloned().unwrap_or_default(),
        });
    }
    conversation.pending_tool_calls = std::mem::take(&mut conversation.pending)
        .into_values()
        .collect();
    conversation.last_message_id = conversation
        .messages
        .last()
        .map(|message| message.id.clone());
    conversation
}

impl Conversation {
    fn add_event(&mut self, entry: &JournalEvent, text: impl Fn(&Text) -> String) {
        match &entry.event {
            Event::ModelReplied(_) => self.turn_count += 1,
            Event::ToolStarted(event) => {
                self.tools.insert(event.tool.clone());
            }
            Event::ToolFinished(event) => {
                self.tools.insert(event.tool.clone());
                let call = (event.path.to_string(), event.call.clone());
                self.pending.remove(&call);
            }
            Event::StepFinished(event) => {
                self.turn_count += 1;
                let step = event.path.to_string();
                self.pending.retain(|(pending, _), _| *pending != step);
            }
            _ => {}
        }
        let Some(message) = Message::of(entry, text) else {
            return;
        };
        self.add_pending(&message.step, &message.tool_calls);
        self.messages.push(message);
    }

    /// Records tool calls as pending.
    fn add_pending(&mut self, step: &str, calls: &[ToolCall]) {
        for call in calls {
            let mut shape = serde_json::to_value(call).expect("calls serialize to JSON");
            shape["step"] = Value::from(step);
            self.pending
                .insert((step.to_owned(), call.id.clone()), shape);
        }
    }
}

#[cfg(test)]
mod tests {
    use segno_core::bundle::{self, Header, Writer};
    use segno_core::digest::Digest;
    use segno_core::id::Name;
    use segno_core::journal::{ModelReplied, StepStarted, ToolFinished, ToolStarted};
    use segno_core::step::Path;
    use segno_core::usage::Usage;
    use segno_testkit::journal::JournalBuilder;
    use serde_json::json;

    use super::*;

    /// A step in which a model called two tools, and one of them has answered.
    fn events(long: &str) -> Vec<Event> {
        let path = Path::new("steps/0").unwrap();
        let started = StepStarted {
            path: path.clone(),
            revision: 0,
            attempt: 1,
            agent: "writer".into(),
            input: Text::Blob {
                blob: Digest::of(long.as_bytes()),
                bytes: long.len() as u64,
            },
            input_digest: Digest::of(b"x"),
            resume_context: None,
        };
        let parts = json!([
            {"type": "text", "text": "I look."},
            {"type": "raw", "value": {"signature": "s"}},
            {"type": "call", "id": "1", "name": "read", "input": {"path": "a"}},
            {"type": "call", "id": "2", "name": "web", "input": {}},
        ]);
        let replied = ModelReplied {
            path: path.clone(),
            revision: 0,
            attempt: 1,
            turn: 1,
            parts: Text::Inline(parts.to_string()),
            usage: Usage::default(),
            window: None,
        };
        let tool = |call: &str, tool: &str| ToolStarted {
            path: path.clone(),
            revision: 0,
            turn: 1,
            call: call.into(),
            tool: tool.into(),
        };
        let answered = ToolFinished {
            path: path.clone(),
            revision: 0,
            turn: 1,
            call: "1".into(),
            tool: "read".into(),
            output: Text::Inline("what a says".into()),
            is_error: false,
        };
        vec![
            started.into(),
            replied.into(),
            tool("1", "read").into(),
            answered.into(),
            tool("2", "web").into(),
        ]
    }

    #[test]
    fn unanswered_tool_calls_are_pending() {
        let long = "a long question";
        let mut journal = JournalBuilder::new(1);
        let mut records = journal.create("report").batch.records;
        records.extend(journal.batch(events(long)).records);
        let header = Header {
            segno_session: bundle::VERSION,
            session: journal.session,
            name: Name::sanitized("report"),
            running: true,
            version: "0".into(),
        };
        let mut writer = Writer::new(&header).unwrap();
        for record in &records {
            writer.record(record).unwrap();
        }
        writer.text(Digest::of(long.as_bytes()), long).unwrap();
        let bundle = bundle::read(&writer.finish().unwrap()).unwrap();
        let conversation = conversation(&bundle);
        assert_eq!(conversation.turn_count, 1);
        let tools: Vec<&str> = conversation.tools.iter().map(String::as_str).collect();
        assert_eq!(tools, ["read", "web"]);
        let shape = serde_json::to_value(&conversation).unwrap();
        assert_eq!(shape["messages"][0]["content"], long);
        assert_eq!(shape["messages"][0]["agent"], "writer");
        assert_eq!(shape["messages"][1]["content"], "I look.");
        assert_eq!(shape["messages"][1]["tool_calls"][1]["name"], "web");
        assert_eq!(shape["messages"][2]["role"], "tool");
        assert_eq!(shape["messages"][2]["content"], "what a says");
        assert_eq!(shape["last_message_id"], shape["messages"][2]["id"]);
        let pending = json!([{"id": "2", "name": "web", "input": {}, "step": "steps/0"}]);
        assert_eq!(shape["pending_tool_calls"], pending);
    }
}
