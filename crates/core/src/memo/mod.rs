//! Memos: what whoever goes on with a session must know, and the files do not say.
//!
//! A decision and why it was made, an error and what became of it, what a reviewer said, what is still
//! to do, how the tests stand. Each says who wrote it and from where it was learnt, so that what a
//! person said is never mixed up with what a rule found or a model believed. [`Handoff`] is what all of
//! them add up to.

mod handoff;
mod id;
mod reader;

use serde::{Deserialize, Serialize};

use crate::session::words;

pub use handoff::{Handoff, Item, Kept, Shelf};
pub use id::{MemoId, Sort};
pub use reader::{Found, Reader};

/// The longest text of a memo, in characters. What is longer is evidence, and stands where it was said.
pub const LONGEST: usize = 2000;

/// How many things one memo may list.
pub const MOST: usize = 50;

words! {
    /// Who wrote a memo. Whoever comes first here is believed first.
    Source {
        /// A person.
        Person = "person",
        /// The agent, on purpose.
        Agent = "agent",
        /// The agent's program, in a form of its own: a list of things to do, a tool that failed.
        Driver = "driver",
        /// A rule, from what tools answered.
        Rule = "rule",
        /// A model that was asked to read what was said.
        Model = "model",
    }
}

words! {
    /// What a decision is about.
    Matter {
        /// How something is done.
        Approach = "approach",
        /// What is used for it.
        Library = "library",
        /// How parts fit together.
        Architecture = "architecture",
        /// A way around something that is in the way.
        Workaround = "workaround",
        /// Something that is not done.
        Skip = "skip",
        /// What was meant by something.
        Clarification = "clarification",
    }
}

words! {
    /// What became of an error.
    Resolution {
        /// It is gone.
        Fixed = "fixed",
        /// It is there, and something leads around it.
        Workaround = "workaround",
        /// It is left for later.
        Deferred = "deferred",
        /// It stands in the way.
        Unresolved = "unresolved",
    }
}

words! {
    /// How much a reviewer minds.
    Severity {
        /// Not at all.
        None = "none",
        /// A little.
        Minor = "minor",
        /// Much.
        Major = "major",
        /// It must not stay so.
        Critical = "critical",
    }
}

words! {
    /// Where the work stands between a failing test and tidy code.
    Phase {
        /// Tests fail.
        Red = "red",
        /// What failed passes now.
        Green = "green",
        /// All passes, and the code is being put in order.
        Refactor = "refactor",
        /// Nobody knows.
        Unknown = "unknown",
    }
}

words! {
    /// How a thing to do stands.
    Progress {
        /// Not begun.
        Pending = "pending",
        /// Begun.
        InProgress = "in_progress",
        /// Done.
        Done = "done",
        /// No longer wanted.
        Dropped = "dropped",
    }
}

/// Something that whoever goes on must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memo {
    /// A choice between ways that were open.
    Decision(Decision),
    /// Something that went wrong.
    Error(Trouble),
    /// What a reviewer said.
    Feedback(Feedback),
    /// One thing to do.
    Todo(Todo),
    /// How the tests stand. The newest counts.
    Tests(Tests),
    /// Everything that an agent has on its own list. The newest list counts.
    Todos(Todos),
    /// Files that were written.
    Files(Files),
}

/// A choice between ways that were open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// What it is about.
    pub matter: Matter,
    /// What was chosen.
    pub text: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What was not chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<String>,
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trouble {
    /// The sort of it, in one or two words.
    pub sort: String,
    /// What happened.
    pub text: String,
    /// What was being done: the command, the file. A later memo of the same source about the same
    /// subject says what became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What became of it.
    pub resolution: Resolution,
    /// More about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

/// What a reviewer said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feedback {
    /// In whose part.
    pub persona: String,
    /// Whether it may stay as it is.
    pub approved: bool,
    /// How much they mind.
    pub severity: Severity,
    /// What they said, point by point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<String>,
    /// Whether it was acted upon.
    #[serde(default)]
    pub addressed: bool,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Todo {
    /// What.
    pub text: String,
    /// How it stands.
    pub progress: Progress,
}

/// How the tests stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tests {
    /// Where the work stands.
    pub phase: Phase,
    /// What was run.
    pub command: String,
    /// Which fail: as many as are named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<String>,
    /// Which are meant to fail for now; absent if this memo says nothing about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Vec<String>>,
    /// How many passed, if it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<u64>,
    /// How many failed, if it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// The runner's own words about all of it, cut.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
}

/// An agent's own list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Todos {
    /// What is on it.
    pub items: Vec<Todo>,
}

/// Files that were written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// As the agent named them.
    pub paths: Vec<String>,
}

/// A memo as it is written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// What it says.
    pub memo: Memo,
    /// The tool call that it was learnt from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The memo that it stands in the place of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrects: Option<MemoId>,
}

impl From<Memo> for Written {
    fn from(memo: Memo) -> Self {
        Self {
            memo,
            call: None,
            corrects: None,
        }
    }
}

impl Memo {
    /// Its sort, if memos like it have names of their own.
    pub fn sort(&self) -> Option<Sort> {
        match self {
            Self::Decision(_) => Some(Sort::Decision),
            Self::Error(_) => Some(Sort::Error),
            Self::Feedback(_) => Some(Sort::Feedback),
            Self::Todo(_) => Some(Sort::Todo),
            Self::Tests(_) | Self::Todos(_) | Self::Files(_) => None,
        }
    }

    /// Hands over every text in it, to be changed.
    pub fn each_text(&mut self, mut change: impl FnMut(&mut String)) {
        match self {
            Self::Decision(decision) => {
                change(&mut decision.text);
                decision.why.iter_mut().for_each(&mut change);
                decision.alternatives.iter_mut().for_each(change);
            }
            Self::Error(trouble) => {
                change(&mut trouble.sort);
                change(&mut trouble.text);
                trouble.subject.iter_mut().for_each(&mut change);
                trouble.notes.iter_mut().for_each(change);
            }
            Self::Feedback(feedback) => {
                change(&mut feedback.persona);
                feedback.comments.iter_mut().for_each(change);
            }
            Self::Todo(todo) => change(&mut todo.text),
            Self::Tests(tests) => {
                change(&mut tests.command);
                change(&mut tests.summary);
                tests.failing.iter_mut().for_each(&mut change);
                tests.expected.iter_mut().flatten().for_each(change);
            }
            Self::Todos(list) => list
                .items
                .iter_mut()
                .for_each(|item| change(&mut item.text)),
            Self::Files(files) => files.paths.iter_mut().for_each(change),
        }
    }

    /// The same with every text and every list cut to what is kept.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        match &mut self {
            Self::Decision(decision) => decision.alternatives.truncate(MOST),
            Self::Feedback(feedback) => feedback.comments.truncate(MOST),
            Self::Tests(tests) => {
                tests.failing.truncate(MOST);
                tests
                    .expected
                    .iter_mut()
                    .for_each(|list| list.truncate(MOST));
            }
            Self::Todos(list) => list.items.truncate(MOST),
            Self::Files(files) => files.paths.truncate(MOST),
            Self::Error(_) | Self::Todo(_) => {}
        }
        self.each_text(cut);
        self
    }
}

fn cut(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(end);
        text.push('…');
    }
}
