//! What was asked, answered and said, one by one, wherever in a journal it stands.

use segno_core::conversation::{self, Origin, Said, Utterance, words};
use segno_core::journal::Event;
use segno_core::model;
use segno_core::time::Timestamp;
use serde::Serialize;

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// The workflow, to the agent of the step.
    Question,
    /// A person.
    Person,
    /// The agent's program, on its own.
    Program,
    /// The agent of the step.
    Agent,
    /// A tool.
    Tool,
}

/// Hands over everything that an event says, in order. `kept` is the event's long text, brought back.
pub(crate) fn each(
    event: &Event,
    at: Timestamp,
    kept: &str,
    mut hear: impl FnMut(Who, Timestamp, &str),
) {
    match event {
        // Another attempt asks the same.
        Event::StepStarted(event) if event.attempt > 1 => {}
        Event::StepStarted(_) => hear(Who::Question, at, kept),
        Event::StepFinished(_) | Event::TalkShortened(_) => hear(Who::Agent, at, kept),
        Event::ModelReplied(_) => {
            let parts: Vec<model::Part> = serde_json::from_str(kept).unwrap_or_default();
            for part in parts {
                match part {
                    model::Part::Text { text } => hear(Who::Agent, at, &text),
                    model::Part::Call(call) => {
                        hear(Who::Agent, at, &format!("{} {}", call.name, call.input));
                    }
                    model::Part::Raw { .. } => {}
                }
            }
        }
        Event::ToolFinished(_) => hear(Who::Tool, at, kept),
        Event::QuestionAsked(event) => hear(Who::Question, at, &event.prompt),
        Event::QuestionAnswered(_) => hear(Who::Person, at, kept),
        Event::AgentSaid(_) => {
            let entries: Vec<conversation::Entry> = serde_json::from_str(kept).unwrap_or_default();
            for entry in entries {
                said(&entry.said, entry.when.unwrap_or(at), &mut hear);
            }
        }
        _ => {}
    }
}

fn said(said: &Said, at: Timestamp, hear: &mut impl FnMut(Who, Timestamp, &str)) {
    match said {
        Said::User { origin, parts } => {
            let who = match origin {
                Origin::Person => Who::Person,
                Origin::Program => Who::Program,
            };
            hear(who, at, &words(parts));
        }
        Said::Assistant { parts, .. } => {
            for part in parts {
                match part {
                    Utterance::Text { text } | Utterance::Thinking { text, .. } => {
                        hear(Who::Agent, at, text);
                    }
                    Utterance::Call(call) => {
                        hear(Who::Agent, at, &format!("{} {}", call.name, call.input));
                    }
                    Utterance::Raw { .. } => {}
                }
            }
        }
        Said::Result(answer) => hear(Who::Tool, at, &words(&answer.parts)),
        Said::Compaction {
            summary: Some(text),
            ..
        }
        | Said::Notice { text, .. } => hear(Who::Program, at, text),
        Said::Compaction { .. } | Said::Usage { .. } | Said::Raw { .. } => {}
    }
}
