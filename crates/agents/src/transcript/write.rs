//! Writes a conversation as a native transcript, so that another agent can resume it.
//!
//! Calls and results stay structured wherever the target accepts them, and become quoted text where
//! it does not. Nothing is invented; what is lost or changed is reported.

use std::io::{self, Write};

use segno_core::conversation::turns::{Loss, Losses, ModelPart, Turn, turns};
use segno_core::conversation::{Answer, ConversationItem, Image, Origin, Part, Tokens, plain_text};
use segno_core::time::Timestamp;
use segno_core::tool::ToolCall;
use serde::Serialize;
use serde_json::Value;

use super::paths::check_id;
use super::{TranscriptFormat, uuid};
use super::{claude_code, codex};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// A UUID.
    pub session: String,
    /// The working folder.
    pub cwd: String,
    /// The model that continues. All assistant messages are attributed to it, since agents continue
    /// with the model of the last message.
    pub model: String,
    /// The timestamp of entries that have none.
    pub now: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Written {
    pub records: u64,
    /// What the records do not contain.
    pub losses: Losses,
}

/// What a target accepts as a tool call.
pub(crate) struct ToolCallFormat {
    /// Converts a call's input; `None` if the target does not accept it.
    pub(crate) input: fn(&Value) -> Option<Value>,
}

impl TranscriptFormat {
    /// Writes the current branch of a conversation, from its last summary on.
    pub fn write(
        self,
        entries: &[ConversationItem],
        target: &Target,
        to: &mut dyn Write,
    ) -> io::Result<Written> {
        if let Err(error) = check_id(&target.session) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        let (turns, mut losses) = turns(entries);
        let format = match self {
            Self::ClaudeCode => claude_code::TOOL_CALL_FORMAT,
            Self::Codex => codex::TOOL_CALL_FORMAT,
        };
        let turns = TurnConverter {
            format: &format,
            target,
            losses: &mut losses,
            made: Vec::new(),
        }
        .convert(turns);
        let records = match self {
            Self::ClaudeCode => claude_code::records(&turns, target, &mut losses),
            Self::Codex => codex::records(&turns, target, &mut losses),
        };
        for record in &records {
            to.write_all(record)?;
            to.write_all(b"\n")?;
        }
        to.flush()?;
        Ok(Written {
            records: records.len() as u64,
            losses,
        })
    }
}

pub(crate) type TimedTurn = (Timestamp, Turn);

/// Converts turns to what the target accepts.
struct TurnConverter<'a> {
    format: &'a ToolCallFormat,
    target: &'a Target,
    losses: &'a mut Losses,
    made: Vec<Turn>,
}

impl TurnConverter<'_> {
    fn convert(mut self, turns: Vec<Turn>) -> Vec<TimedTurn> {
        let mut turns = turns.into_iter();
        while let Some(turn) = turns.next() {
            match turn {
                Turn::User {
                    when,
                    origin,
                    parts,
                } => {
                    let parts = self.parts(parts);
                    if !parts.is_empty() {
                        self.made.push(Turn::User {
                            when,
                            origin,
                            parts,
                        });
                    }
                }
                Turn::Assistant {
                    when,
                    model,
                    parts,
                    usage,
                } => {
                    if model.is_some_and(|model| model != self.target.model) {
                        self.losses.add(Loss::Model);
                    }
                    let called = parts.iter().any(|part| matches!(part, ModelPart::Call(_)));
                    let answers = if called { turns.next() } else { None };
                    self.exchange(when, parts, usage, answers);
                }
                // Results follow their calls and are consumed together with them.
                Turn::Results { .. } => {}
            }
        }
        with_timestamps(self.made, self.target.now)
    }

    /// An assistant turn and the results of its calls.
    fn exchange(
        &mut self,
        when: Option<Timestamp>,
        said: Vec<ModelPart>,
        usage: Option<Tokens>,
        answered: Option<Turn>,
    ) {
        let (answered_at, answers) = match answered {
            Some(Turn::Results { when, answers }) => (when, answers),
            _ => (None, Vec::new()),
        };
        let mut answers = answers.into_iter();
        let (mut parts, mut kept, mut quoted) = (Vec::new(), Vec::new(), Vec::new());
        for part in said {
            match part {
                ModelPart::Text(text) if text.trim().is_empty() => self.losses.add(Loss::Empty),
                ModelPart::Text(text) => parts.push(ModelPart::Text(text)),
                ModelPart::Call(call) => {
                    let answer = answers.next();
                    if let Some(fitted) = self.call(&call) {
                        kept.extend(answer.map(|answer| self.answer(answer, &fitted.id)));
                        parts.push(ModelPart::Call(fitted));
                        continue;
                    }
                    self.losses.add(Loss::CallQuoted);
                    let ToolCall { name, input, .. } = &call;
                    parts.push(ModelPart::Text(format!("[Tool call] {name}: {input}")));
                    quoted.extend(answer.map(|answer| quote(name, &answer)));
                }
            }
        }
        if !parts.is_empty() {
            self.made.push(Turn::Assistant {
                when,
                model: None,
                parts,
                usage,
            });
        }
        if !kept.is_empty() {
            self.made.push(Turn::Results {
                when: answered_at,
                answers: kept,
            });
        }
        if !quoted.is_empty() {
            self.made.push(Turn::User {
                when: answered_at,
                origin: Origin::CliAgent,
                parts: quoted,
            });
        }
    }

    /// Converts a call; `None` if the target does not accept it.
    fn call(&mut self, call: &ToolCall) -> Option<ToolCall> {
        if !is_valid_name(&call.name, 64) {
            return None;
        }
        let input = (self.format.input)(&call.input)?;
        let id = if is_valid_name(&call.id, 64) {
            call.id.clone()
        } else {
            let made = uuid(&[b"call", call.id.as_bytes()]).replace('-', "");
            format!("call_{made}")
        };
        if id != call.id || input != call.input {
            self.losses.add(Loss::CallChanged);
        }
        Some(ToolCall {
            id,
            name: call.name.clone(),
            input,
        })
    }

    fn answer(&mut self, answer: Answer, id: &str) -> Answer {
        Answer {
            id: id.to_owned(),
            parts: self.parts(answer.parts),
            outcome: answer.outcome,
        }
    }

    /// Drops empty texts, and replaces pictures that are not stored here by a text.
    fn parts(&mut self, parts: Vec<Part>) -> Vec<Part> {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                Part::Text { text } if text.trim().is_empty() => self.losses.add(Loss::Empty),
                Part::Image {
                    media_type,
                    content: Image::External { .. },
                } => {
                    self.losses.add(Loss::Image);
                    let text = format!("[image ({media_type}), not included]");
                    kept.push(Part::Text { text });
                }
                other => kept.push(other),
            }
        }
        kept
    }
}

fn quote(name: &str, answer: &Answer) -> Part {
    let said = plain_text(&answer.parts);
    Part::Text {
        text: format!("[Result of the tool call {name}]\n{said}"),
    }
}

/// Letters, digits, `_` and `-`: what every vendor accepts as a name.
fn is_valid_name(name: &str, max_length: usize) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !name.is_empty() && name.len() <= max_length && name.bytes().all(plain)
}

/// Gives every turn a timestamp, none before the previous one: agents take the newest record for
/// the last.
fn with_timestamps(turns: Vec<Turn>, now: Timestamp) -> Vec<TimedTurn> {
    let own = |turn: &Turn| match turn {
        Turn::User { when, .. } | Turn::Assistant { when, .. } | Turn::Results { when, .. } => {
            *when
        }
    };
    let mut last = turns.iter().find_map(own).unwrap_or(now);
    let timed = turns.into_iter().map(|turn| {
        last = own(&turn).unwrap_or(last).max(last);
        (last, turn)
    });
    timed.collect()
}
