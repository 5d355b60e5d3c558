//! A message of a conversation, whichever kind of agent it was with.

use segno_core::conversation::{
    AssistantPart, ConversationItem, ItemContent, Origin, Outcome, Thread, plain_text,
};
use segno_core::journal::{Event, JournalEvent, Text};
use segno_core::model::Part;
use segno_core::step::Path;
use segno_core::tool::ToolCall;
use serde::Serialize;

/// The longest text of a message in a page, in characters.
const MAX_TEXT: usize = 100_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The workflow, or the user of a chat, to the agent.
    User,
    Assistant,
    Tool,
    /// What replaced the messages before it.
    Summary,
    /// Segno, to the user.
    Question,
    /// The user, to Segno.
    Person,
    /// The CLI agent itself, without a human or model.
    Program,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Message {
    /// The position in the journal; in a page, with the position in the event.
    pub id: String,
    pub at: String,
    pub step: String,
    pub role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    pub content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that this answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// The sub-agent that the CLI agent talks with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The CLI agent reported the message; otherwise Segno sent or received it.
    #[serde(skip_serializing_if = "is_false")]
    pub from_transcript: bool,
    /// The text is longer than a page may be.
    #[serde(skip_serializing_if = "is_false")]
    pub is_cut: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}

impl Message {
    fn new(entry: &JournalEvent, step: &Path, role: Role, content: String) -> Self {
        Self {
            id: entry.seq.to_string(),
            at: entry.at.to_string(),
            step: step.to_string(),
            role,
            agent: None,
            content,
            tool_calls: Vec::new(),
            tool_call_id: None,
            tool: None,
            is_error: None,
            thread: None,
            from_transcript: false,
            is_cut: false,
        }
    }

    /// The message that an event is, if it is one. What a CLI agent reports is not: it is several.
    pub(crate) fn of(entry: &JournalEvent, text: impl Fn(&Text) -> String) -> Option<Self> {
        let say = |path, role, content| Self::new(entry, path, role, content);
        Some(match &entry.event {
            Event::StepStarted(event) => Self {
                agent: Some(event.agent.clone()),
                ..say(&event.path, Role::User, text(&event.input))
            },
            Event::ModelReplied(event) => {
                let parts: Vec<Part> =
                    serde_json::from_str(&text(&event.parts)).unwrap_or_default();
                let (mut words, mut tool_calls) = (String::new(), Vec::new());
                for part in parts {
                    match part {
                        Part::Text { text } => words.push_str(&text),
                        Part::Call(call) => tool_calls.push(call),
                        Part::Raw { .. } => {}
                    }
                }
                Self {
                    tool_calls,
                    ..say(&event.path, Role::Assistant, words)
                }
            }
            Event::ToolFinished(event) => Self {
                tool_call_id: Some(event.call.clone()),
                tool: Some(event.tool.clone()),
                is_error: Some(event.is_error),
                ..say(&event.path, Role::Tool, text(&event.output))
            },
            Event::StepFinished(event) => say(&event.path, Role::Assistant, text(&event.output)),
            Event::ConversationCompacted(event) => {
                say(&event.path, Role::Summary, text(&event.summary))
            }
            Event::QuestionAsked(event) => say(&event.path, Role::Question, event.prompt.clone()),
            Event::QuestionAnswered(event) => say(&event.path, Role::Person, text(&event.answer)),
            _ => return None,
        })
    }

    /// All messages of an event, with the ids and the length that they have in a page.
    pub(super) fn in_page(entry: &JournalEvent, long_text: &str) -> Vec<Self> {
        let mut all = match &entry.event {
            Event::AgentMessages(event) => {
                let items: Vec<ConversationItem> =
                    serde_json::from_str(long_text).unwrap_or_default();
                let reported = |item| Self::of_item(entry, &event.path, item);
                items.into_iter().filter_map(reported).collect()
            }
            _ => Vec::from_iter(Self::of(entry, |_| long_text.to_owned())),
        };
        for (index, message) in all.iter_mut().enumerate() {
            message.id = format!("{}.{index}", entry.seq);
            if let Some((end, _)) = message.content.char_indices().nth(MAX_TEXT) {
                message.content.truncate(end);
                message.is_cut = true;
            }
        }
        all
    }

    /// What a CLI agent reported; `None` for what is no message.
    fn of_item(entry: &JournalEvent, step: &Path, item: ConversationItem) -> Option<Self> {
        let say = |role, content| Self::new(entry, step, role, content);
        let message = match item.content {
            ItemContent::User { origin, parts } => {
                let role = match origin {
                    Origin::User => Role::User,
                    Origin::CliAgent => Role::Program,
                };
                say(role, plain_text(&parts))
            }
            ItemContent::Assistant { parts, .. } => {
                let (mut words, mut tool_calls) = (String::new(), Vec::new());
                for part in parts {
                    match part {
                        AssistantPart::Text { text } => words.push_str(&text),
                        AssistantPart::Call(call) => tool_calls.push(call),
                        AssistantPart::Thinking { .. } | AssistantPart::Raw { .. } => {}
                    }
                }
                if words.is_empty() && tool_calls.is_empty() {
                    return None;
                }
                Self {
                    tool_calls,
                    ..say(Role::Assistant, words)
                }
            }
            ItemContent::Result(answer) => Self {
                is_error: match answer.outcome {
                    Outcome::Succeeded => Some(false),
                    Outcome::Failed => Some(true),
                    Outcome::Unknown => None,
                },
                tool_call_id: Some(answer.id),
                ..say(Role::Tool, plain_text(&answer.parts))
            },
            ItemContent::Compaction { summary, .. } => say(Role::Summary, summary?),
            ItemContent::Notice { text, .. } => say(Role::Program, text),
            ItemContent::Usage { .. } | ItemContent::Raw { .. } => return None,
        };
        Some(Self {
            at: item.when.unwrap_or(entry.at).to_string(),
            thread: match item.thread {
                Thread::Main => None,
                Thread::Agent(name) => Some(name),
            },
            from_transcript: true,
            ..message
        })
    }
}
