//! The one order that every model takes: what the user says, what the model says, and after each
//! model's turn an answer to every call in it.
//!
//! Only the current branch of the main thread is carried, from its last summary on. What is not
//! carried is told by name and number; nothing is made up but the sentence that an outcome is unknown.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::Serialize;

use super::{
    Answer, Branch, Entry, Origin, Outcome, Part, Said, Thread, Tokens, UNKNOWN_OUTCOME, Utterance,
    words,
};
use crate::model::ToolCall;
use crate::time::Timestamp;

/// What one side says before the other does.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// The user speaks.
    User {
        /// When.
        when: Option<Timestamp>,
        /// Who wrote it.
        origin: Origin,
        /// What it consists of.
        parts: Vec<Part>,
    },
    /// The model speaks.
    Assistant {
        /// When.
        when: Option<Timestamp>,
        /// Which model.
        model: Option<String>,
        /// Text and calls; every call of a conversation has another id.
        parts: Vec<Speech>,
        /// What it took.
        usage: Option<Tokens>,
    },
    /// The tools answer: one answer for each call of the turn before, in its order.
    Results {
        /// When.
        when: Option<Timestamp>,
        /// The answers.
        answers: Vec<Answer>,
    },
}

/// A piece of a model's turn that another model understands.
#[derive(Debug, Clone, PartialEq)]
pub enum Speech {
    /// Words.
    Text(String),
    /// A tool is asked for.
    Call(ToolCall),
}

/// Something that is not carried over, or not as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Thinking, which is sealed for one model.
    Thinking,
    /// An entry of a branch that was left behind.
    SideBranch,
    /// An entry of a sub-agent.
    SubAgent,
    /// An entry from before the last summary.
    BeforeCompaction,
    /// A record that only its vendor understands.
    Record,
    /// A part that only its vendor understands.
    Part,
    /// A picture whose content is elsewhere, or that the target does not take.
    Image,
    /// A note of the agent's program.
    Notice,
    /// A call without an answer; it was answered with [`UNKNOWN_OUTCOME`].
    Unanswered,
    /// An answer without a call; it became text.
    StrayResult,
    /// A call's id, name or input, which was changed so that the target takes it.
    CallChanged,
    /// A call or an answer that became quoted text.
    CallQuoted,
    /// How a call went, where only one of the two transcripts says it.
    Outcome,
    /// Which model spoke.
    Model,
    /// Whether a person or the program wrote it.
    Origin,
    /// A text without words, which no model takes.
    Empty,
}

/// What it is, for people, after a number.
impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Thinking => "times thinking",
            Self::SideBranch => "entries of a branch that was left behind",
            Self::SubAgent => "entries of sub-agents",
            Self::BeforeCompaction => "entries from before the last summary",
            Self::Record => "records that only their vendor understands",
            Self::Part => "parts that only their vendor understands",
            Self::Image => "pictures",
            Self::Notice => "notes of the program",
            Self::Unanswered => "calls without an answer (told as of unknown outcome)",
            Self::StrayResult => "answers without a call (told as text)",
            Self::CallChanged => "calls by another name",
            Self::CallQuoted => "calls as calls (told as text)",
            Self::Outcome => "times how a call went",
            Self::Model => "times which model spoke",
            Self::Origin => "times who wrote it",
            Self::Empty => "empty texts",
        })
    }
}

/// What is not carried over, with how often it happened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Losses(pub BTreeMap<Loss, u64>);

impl Losses {
    /// One more of these.
    pub fn add(&mut self, loss: Loss) {
        *self.0.entry(loss).or_default() += 1;
    }

    /// How many of these.
    pub fn count(&self, loss: Loss) -> u64 {
        self.0.get(&loss).copied().unwrap_or_default()
    }
}

/// The turns of a conversation, and what is not in them.
pub fn turns(entries: &[Entry]) -> (Vec<Turn>, Losses) {
    let mut losses = Losses::default();
    let from = entries
        .iter()
        .rposition(|entry| {
            carried(entry)
                && matches!(
                    entry.said,
                    Said::Compaction {
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
        waiting: Vec::new(),
        used: HashMap::new(),
        losses,
    };
    for entry in &entries[from..] {
        builder.add(entry);
    }
    builder.settle();
    (builder.turns, builder.losses)
}

fn carried(entry: &Entry) -> bool {
    entry.branch != Branch::Side && entry.thread == Thread::Main
}

/// The answers by call, so that each can follow its call at once.
fn answers(entries: &[Entry]) -> HashMap<&str, VecDeque<(Option<Timestamp>, &Answer)>> {
    let mut answers: HashMap<_, VecDeque<_>> = HashMap::new();
    for entry in entries.iter().filter(|entry| carried(entry)) {
        if let Said::Result(answer) = &entry.said {
            let queue = answers.entry(answer.id.as_str()).or_default();
            queue.push_back((entry.when, answer));
        }
    }
    answers
}

struct Builder<'a> {
    answers: HashMap<&'a str, VecDeque<(Option<Timestamp>, &'a Answer)>>,
    turns: Vec<Turn>,
    /// The calls of the model's turn under way: the id there, and here.
    waiting: Vec<(String, String)>,
    /// How often an id was called, and how many of its answers were taken.
    used: HashMap<String, usize>,
    losses: Losses,
}

impl<'a> Builder<'a> {
    fn add(&mut self, entry: &'a Entry) {
        match (entry.branch, &entry.thread) {
            (Branch::Side, _) => return self.losses.add(Loss::SideBranch),
            (_, Thread::Agent(_)) => return self.losses.add(Loss::SubAgent),
            _ => {}
        }
        match &entry.said {
            Said::User { origin, parts } => {
                self.settle();
                self.user(entry.when, *origin, parts.clone());
            }
            Said::Assistant {
                model,
                parts,
                usage,
                ..
            } => self.assistant(entry.when, model.as_ref(), parts, *usage),
            Said::Result(answer) => self.stray(entry.when, answer),
            Said::Compaction { summary, .. } => {
                self.settle();
                if let Some(summary) = summary {
                    let text = summary.clone();
                    self.user(entry.when, Origin::Program, vec![Part::Text { text }]);
                }
            }
            Said::Notice { .. } => self.losses.add(Loss::Notice),
            Said::Raw { .. } => self.losses.add(Loss::Record),
            Said::Usage { .. } => {}
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
        parts: &[Utterance],
        usage: Option<Tokens>,
    ) {
        let mut speech = Vec::new();
        for part in parts {
            match part {
                Utterance::Text { text } => speech.push(Speech::Text(text.clone())),
                Utterance::Thinking { .. } => self.losses.add(Loss::Thinking),
                Utterance::Raw { .. } => self.losses.add(Loss::Part),
                Utterance::Call(call) => speech.push(Speech::Call(self.named(call))),
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

    /// The call under an id that no other call has.
    fn named(&mut self, call: &ToolCall) -> ToolCall {
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
        self.waiting.push((call.id.clone(), id.clone()));
        ToolCall { id, ..call.clone() }
    }

    /// Answers what was called, before anything else is said.
    fn settle(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let mut answers = Vec::new();
        let mut last = None;
        for (asked, id) in std::mem::take(&mut self.waiting) {
            let found = self.answers.get_mut(asked.as_str());
            let Some((when, answer)) = found.and_then(VecDeque::pop_front) else {
                self.losses.add(Loss::Unanswered);
                answers.push(unknown(id));
                continue;
            };
            last = when.or(last);
            answers.push(Answer {
                id,
                parts: self.understood(&answer.parts),
                outcome: answer.outcome,
            });
        }
        let answers_turn = Turn::Results {
            when: last,
            answers,
        };
        self.turns.push(answers_turn);
    }

    fn understood(&mut self, parts: &[Part]) -> Vec<Part> {
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

    /// An answer in its place: either its call waits for it, or it was taken already, or nobody
    /// asked for it.
    fn stray(&mut self, when: Option<Timestamp>, answer: &'a Answer) {
        self.settle();
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
        let said = words(&answer.parts);
        let text = format!("Result of the tool call {}:\n{said}", answer.id);
        self.user(when, Origin::Program, vec![Part::Text { text }]);
    }
}

/// The answer of a call that has none.
pub fn unknown(id: String) -> Answer {
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
