//! Iterates over the messages of a journal: prompts, answers, questions, tool results and
//! transcripts.

use segno_core::conversation::{self, AssistantPart, ItemContent, Origin, plain_text};
use segno_core::journal::Event;
use segno_core::model;
use segno_core::state::Chat;
use segno_core::time::Timestamp;
use serde::Serialize;

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// The workflow, to the agent of the step.
    Question,
    Person,
    /// The CLI agent itself, without a human or model.
    Program,
    Agent,
    Tool,
}

impl Author {
    /// The word for users.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::Person => "user",
            Self::Program => "program",
            Self::Agent => "agent",
            Self::Tool => "tool",
        }
    }
}

/// Calls `emit` for each message of an event, in order. `long_text` is the event's long text.
pub(crate) fn for_each_message(
    event: &Event,
    at: Timestamp,
    long_text: &str,
    mut emit: impl FnMut(Author, Timestamp, &str),
) {
    match event {
        // A retry repeats the prompt.
        Event::StepStarted(event) if event.attempt > 1 => {}
        Event::StepStarted(event) if Chat::is_message(&event.path) => {
            emit(Author::Person, at, long_text);
        }
        Event::StepStarted(_) => emit(Author::Question, at, long_text),
        Event::StepFinished(_) | Event::ConversationCompacted(_) => {
            emit(Author::Agent, at, long_text);
        }
        Event::ModelReplied(_) => {
            let parts: Vec<model::Part> = serde_json::from_str(long_text).unwrap_or_default();
            for part in parts {
                match part {
                    model::Part::Text { text } => emit(Author::Agent, at, &text),
                    model::Part::Call(call) => {
                        emit(Author::Agent, at, &format!("{} {}", call.name, call.input));
                    }
                    model::Part::Raw { .. } => {}
                }
            }
        }
        Event::ToolFinished(_) => emit(Author::Tool, at, long_text),
        Event::QuestionAsked(event) => emit(Author::Question, at, &event.prompt),
        Event::QuestionAnswered(_) => emit(Author::Person, at, long_text),
        Event::AgentMessages(_) => {
            let entries: Vec<conversation::ConversationItem> =
                serde_json::from_str(long_text).unwrap_or_default();
            for entry in entries {
                for_each_in_transcript(&entry.content, entry.when.unwrap_or(at), &mut emit);
            }
        }
        _ => {}
    }
}

fn for_each_in_transcript(
    said: &ItemContent,
    at: Timestamp,
    emit: &mut impl FnMut(Author, Timestamp, &str),
) {
    match said {
        ItemContent::User { origin, parts } => {
            let who = match origin {
                Origin::User => Author::Person,
                Origin::CliAgent => Author::Program,
            };
            emit(who, at, &plain_text(parts));
        }
        ItemContent::Assistant { parts, .. } => {
            for part in parts {
                match part {
                    AssistantPart::Text { text } | AssistantPart::Thinking { text, .. } => {
                        emit(Author::Agent, at, text);
                    }
                    AssistantPart::Call(call) => {
                        emit(Author::Agent, at, &format!("{} {}", call.name, call.input));
                    }
                    AssistantPart::Raw { .. } => {}
                }
            }
        }
        ItemContent::Result(answer) => emit(Author::Tool, at, &plain_text(&answer.parts)),
        ItemContent::Compaction {
            summary: Some(text),
            ..
        }
        | ItemContent::Notice { text, .. } => emit(Author::Program, at, text),
        ItemContent::Compaction { .. } | ItemContent::Usage { .. } | ItemContent::Raw { .. } => {}
    }
}
