//! Converts a conversation to the turn order that every model accepts: user, model, and after each model
//! turn a result for every call in it.
//!
//! The conversion includes only the current branch of the main thread, from its last summary on. It
//! counts everything that it drops, by kind ([`Loss`]); it invents nothing except the statement that an
//! outcome is unknown.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::Serialize;

use super::{
    Answer, AssistantPart, Branch, ConversationItem, ItemContent, Origin, Outcome, Part, Thread,
    Tokens, UNKNOWN_OUTCOME, plain_text,
};
use crate::time::Timestamp;
use crate::tool::ToolCall;

/// A turn of one side.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    User {
        when: Option<Timestamp>,
        origin: Origin,
        parts: Vec<Part>,
    },
    Assistant {
        when: Option<Timestamp>,
        model: Option<String>,
        /// Text and calls; the ids of all calls in a conversation are distinct.
        parts: Vec<ModelPart>,
        usage: Option<Tokens>,
    },
    /// The tools' results: one per call of the turn before, in the same order.
    Results {
        when: Option<Timestamp>,
        answers: Vec<Answer>,
    },
}

/// A part of a model's turn that another model understands.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelPart {
    Text(String),
    /// A tool call.
    Call(ToolCall),
}

/// Something that a conversion drops or changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Thinking, which only its own model accepts.
    Thinking,
    /// An item of an abandoned branch.
    SideBranch,
    /// An item of a sub-agent.
    SubAgent,
    /// An item from before the last summary.
    BeforeCompaction,
    /// A vendor-specific record.
    Record,
    /// A vendor-specific part.
    Part,
    /// An image whose content is not stored inline, or that the target does not accept.
    Image,
    /// A notice of the CLI agent.
    Notice,
    /// A call without a result; its result became [`UNKNOWN_OUTCOME`].
    Unanswered,
    /// A result without a call; it became text.
    StrayResult,
    /// A call whose id, name or input was changed so that the target accepts it.
    CallChanged,
    /// A call or a result that became quoted text.
    CallQuoted,
    /// The outcome of a call, where only one of the two formats has it.
    Outcome,
    /// The model of a message.
    Model,
    /// Whether a user or the CLI agent wrote a message.
    Origin,
    /// An empty text, which no model accepts.
    Empty,
}

/// A description for users, to follow a number.
impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Thinking => "thinking blocks",
            Self::SideBranch => "messages of an abandoned branch",
            Self::SubAgent => "messages of sub-agents",
            Self::BeforeCompaction => "messages from before the last summary",
            Self::Record => "vendor-specific records",
            Self::Part => "vendor-specific message parts",
            Self::Image => "images",
            Self::Notice => "notices of the program",
            Self::Unanswered => "calls without a result (marked as of unknown outcome)",
            Self::StrayResult => "results without a call (quoted as text)",
            Self::CallChanged => "changed calls",
            Self::CallQuoted => "calls quoted as text",
            Self::Outcome => "call outcomes",
            Self::Model => "model names",
            Self::Origin => "message authors",
            Self::Empty => "empty texts",
        })
    }
}

/// What a conversion dropped or changed, with counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Losses(pub BTreeMap<Loss, u64>);

impl Losses {
    /// Counts one more loss.
    pub fn add(&mut self, loss: Loss) {
        *self.0.entry(loss).or_default() += 1;
    }

    /// The count of one kind of loss.
    pub fn count(&self, loss: Loss) -> u64 {
        self.0.get(&loss).copied().unwrap_or_default()
    }
}

/// The turns of a conversation, and what is missing in them.
pub fn turns(entries: &[ConversationItem]) -> (Vec<Turn>, Losses) {
    let mut losses = Losses::default();
    let from = entries
        .iter()
        .rposition(|entry| {
            is_included(entry)
                && matches!(
                    entry.content,
                    ItemContent::Compaction {
                        summary: Some(_),
                        ..
                    }
                )
        })
        .unwrap_or(0);
    for _ in 0..from {
        losses.add(Loss::BeforeCompaction);
    }
    let mut builder = Builder {
        answers: answers(&entries[from..]),
        turns: Vec::new(),
        pending_calls: Vec::new(),
        used: HashMap::new(),
        losses,
    };
    for entry in &entries[from..] {
        builder.add(entry);
    }
    builder.answer_pending_calls();
    (builder.turns, builder.losses)
}

fn is_included(entry: &ConversationItem) -> bool {
    entry.branch != Branch::Side && entry.thread == Thread::Main
}

/// The results by call id, so that each can directly follow its call.
fn answers(entries: &[ConversationItem]) -> HashMap<&str, VecDeque<(Option<Timestamp>, &Answer)>> {
    let mut answers: HashMap<_, VecDeque<_>> = HashMap::new();
    for entry in entries.iter().filter(|entry| is_included(entry)) {
        if let ItemContent::Result(answer) = &entry.content {
            let queue = answers.entry(answer.id.as_str()).or_default();
            queue.push_back((entry.when, answer));
        }
    }
    answers
}

struct Builder<'a> {
    answers: HashMap<&'a str, VecDeque<(Option<Timestamp>, &'a Answer)>>,
    turns: Vec<Turn>,
    /// The calls of the current model turn: the original id and the new id.
    pending_calls: Vec<(String, String)>,
    /// How many times an id was used for a call.
    used: HashMap<String, usize>,
    losses: Losses,
}

impl<'a> Builder<'a> {
    fn add(&mut self, entry: &'a ConversationItem) {
        match (entry.branch, &entry.thread) {
            (Branch::Side, _) => return self.losses.add(Loss::SideBranch),
            (_, Thread::Agent(_)) => return self.losses.add(Loss::SubAgent),
            _ => {}
        }
        match &entry.content {
            ItemContent::User { origin, parts } => {
                self.answer_pending_calls();
                self.user(entry.when, *origin, parts.clone());
            }
            ItemContent::Assistant {
                model,
                parts,
                usage,
                ..
            } => self.assistant(entry.when, model.as_ref(), parts, *usage),
            ItemContent::Result(answer) => self.add_result(entry.when, answer),
            ItemContent::Compaction { summary, .. } => {
                self.answer_pending_calls();
                if let Some(summary) = summary {
                    let text = summary.clone();
                    self.user(entry.when, Origin::CliAgent, vec![Part::Text { text }]);
                }
            }
            ItemContent::Notice { .. } => self.losses.add(Loss::Notice),
            ItemContent::Raw { .. } => self.losses.add(Loss::Record),
            ItemContent::Usage { .. } => {}
        }
    }

    fn user(&mut self, when: Option<Timestamp>, origin: Origin, parts: Vec<Part>) {
        let kept: Vec<_> = parts
            .into_iter()
            .filter(|part| match part {
                Part::Raw { .. } => {
                    self.losses.add(Loss::Part);
                    false
                }
                _ => true,
            })
            .collect();
        if !kept.is_empty() {
            self.turns.push(Turn::User {
                when,
                origin,
                parts: kept,
            });
        }
    }

    fn assistant(
        &mut self,
        when: Option<Timestamp>,
        model: Option<&String>,
        parts: &[AssistantPart],
        usage: Option<Tokens>,
    ) {
        let mut speech = Vec::new();
        for part in parts {
            match part {
                AssistantPart::Text { text } => speech.push(ModelPart::Text(text.clone())),
                AssistantPart::Thinking { .. } => self.losses.add(Loss::Thinking),
                AssistantPart::Raw { .. } => self.losses.add(Loss::Part),
                AssistantPart::Call(call) => {
                    speech.push(ModelPart::Call(self.with_unique_id(call)));
                }
            }
        }
        if speech.is_empty() {
            return;
        }
        if let Some(Turn::Assistant {
            parts, usage: last, ..
        }) = self.turns.last_mut()
        {
            parts.extend(speech);
            *last = usage.or(*last);
            return;
        }
        self.turns.push(Turn::Assistant {
            when,
            model: model.cloned(),
            parts: speech,
            usage,
        });
    }

    /// Returns the call under an id that no other call has.
    fn with_unique_id(&mut self, call: &ToolCall) -> ToolCall {
        let times = self.used.entry(call.id.clone()).or_default();
        *times += 1;
        let mut id = call.id.clone();
        if *times > 1 {
            id = format!("{id}_{times}");
            while self.used.contains_key(&id) {
                id.push('x');
            }
            self.used.insert(id.clone(), 1);
            self.losses.add(Loss::CallChanged);
        }
        self.pending_calls.push((call.id.clone(), id.clone()));
        ToolCall { id, ..call.clone() }
    }

    /// Adds the results of all pending calls, before any other turn.
    fn answer_pending_calls(&mut self) {
        if self.pending_calls.is_empty() {
            return;
        }
        let mut answers = Vec::new();
        let mut last = None;
        for (asked, id) in std::mem::take(&mut self.pending_calls) {
            let found = self.answers.get_mut(asked.as_str());
            let Some((when, answer)) = found.and_then(VecDeque::pop_front) else {
                self.losses.add(Loss::Unanswered);
                answers.push(unknown_result(id));
                continue;
            };
            last = when.or(last);
            answers.push(Answer {
                id,
                parts: self.without_raw_parts(&answer.parts),
                outcome: answer.outcome,
            });
        }
        let answers_turn = Turn::Results {
            when: last,
            answers,
        };
        self.turns.push(answers_turn);
    }

    fn without_raw_parts(&mut self, parts: &[Part]) -> Vec<Part> {
        let mut kept = Vec::new();
        for part in parts {
            if matches!(part, Part::Raw { .. }) {
                self.losses.add(Loss::Part);
            } else {
                kept.push(part.clone());
            }
        }
        kept
    }

    /// Handles a result at its own position: its call is pending, or the result was already used, or no
    /// call has its id.
    fn add_result(&mut self, when: Option<Timestamp>, answer: &'a Answer) {
        self.answer_pending_calls();
        let left = self.answers.get_mut(answer.id.as_str());
        let Some(queue) = left else { return };
        if queue
            .front()
            .is_none_or(|(_, first)| !std::ptr::eq(*first, answer))
        {
            return;
        }
        queue.pop_front();
        self.losses.add(Loss::StrayResult);
        let said = plain_text(&answer.parts);
        let text = format!("Result of the tool call {}:\n{said}", answer.id);
        self.user(when, Origin::CliAgent, vec![Part::Text { text }]);
    }
}

/// The result of a call that has none.
pub fn unknown_result(id: String) -> Answer {
    Answer {
        id,
        parts: vec![Part::Text {
            text: UNKNOWN_OUTCOME.to_owned(),
        }],
        outcome: Outcome::Failed,
    }
}

#[cfg(test)]
mod tests;
