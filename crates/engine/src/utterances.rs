//! Iterates over the messages of a journal: prompts, answers, questions, tool results and
//! transcripts.

use segno_core::conversation::{self, Origin, Said, Utterance, words};
use segno_core::journal::Event;
use segno_core::model;
use segno_core::time::Timestamp;
use serde::Serialize;

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// The workflow, to the agent of the step.
    Question,
    Person,
    /// The CLI agent itself, without a human or model.
    Program,
    Agent,
    Tool,
}

/// Calls `emit` for each message of an event, in order. `long_text` is the event's long text.
pub(crate) fn for_each_message(
    event: &Event,
    at: Timestamp,
    long_text: &str,
    mut emit: impl FnMut(Who, Timestamp, &str),
) {
    match event {
        // A retry repeats the prompt.
        Event::StepStarted(event) if event.attempt > 1 => {}
        Event::StepStarted(_) => emit(Who::Question, at, long_text),
        Event::StepFinished(_) | Event::TalkShortened(_) => emit(Who::Agent, at, long_text),
        Event::ModelReplied(_) => {
            let parts: Vec<model::Part> = serde_json::from_str(long_text).unwrap_or_default();
            for part in parts {
                match part {
                    model::Part::Text { text } => emit(Who::Agent, at, &text),
                    model::Part::Call(call) => {
                        emit(Who::Agent, at, &format!("{} {}", call.name, call.input));
                    }
                    model::Part::Raw { .. } => {}
                }
            }
        }
        Event::ToolFinished(_) => emit(Who::Tool, at, long_text),
        Event::QuestionAsked(event) => emit(Who::Question, at, &event.prompt),
        Event::QuestionAnswered(_) => emit(Who::Person, at, long_text),
        Event::AgentSaid(_) => {
            let entries: Vec<conversation::Entry> =
                serde_json::from_str(long_text).unwrap_or_default();
            for entry in entries {
                for_each_in_transcript(&entry.said, entry.when.unwrap_or(at), &mut emit);
            }
        }
        _ => {}
    }
}

fn for_each_in_transcript(said: &Said, at: Timestamp, emit: &mut impl FnMut(Who, Timestamp, &str)) {
    match said {
        Said::User { origin, parts } => {
            let who = match origin {
                Origin::Person => Who::Person,
                Origin::Program => Who::Program,
            };
            emit(who, at, &words(parts));
        }
        Said::Assistant { parts, .. } => {
            for part in parts {
                match part {
                    Utterance::Text { text } | Utterance::Thinking { text, .. } => {
                        emit(Who::Agent, at, text);
                    }
                    Utterance::Call(call) => {
                        emit(Who::Agent, at, &format!("{} {}", call.name, call.input));
                    }
                    Utterance::Raw { .. } => {}
                }
            }
        }
        Said::Result(answer) => emit(Who::Tool, at, &words(&answer.parts)),
        Said::Compaction {
            summary: Some(text),
            ..
        }
        | Said::Notice { text, .. } => emit(Who::Program, at, text),
        Said::Compaction { .. } | Said::Usage { .. } | Said::Raw { .. } => {}
    }
}
