//! Notes: knowledge for the next run that the files do not contain.
//!
//! A note is a decision with its reason, an error and its resolution, a reviewer's feedback, a todo, or
//! a test result. Each note records its author and its source, so that what a user said is never mixed
//! up with what a rule found or a model concluded. [`crate::handoff::Handoff`] is the fold of all notes.

mod id;

use serde::{Deserialize, Serialize};

use crate::words::words;

pub use id::{NoteId, NoteKind};

/// The maximum length of a note's text, in characters. Longer text is evidence and stays in the
/// conversation.
pub const MAX_TEXT: usize = 2000;

/// The maximum number of list elements in one note.
pub const MAX_ITEMS: usize = 50;

words! {
    /// Who wrote a note, ordered by trust: an earlier source takes precedence.
    Source {
        #[serde(rename = "person")]
        User = "user",
        /// The agent, explicitly.
        Agent = "agent",
        /// The CLI agent, in a format of its own: a todo list, a failed tool.
        Driver = "driver",
        /// A rule that parses tool results.
        Rule = "rule",
        /// A model that read the conversation.
        Model = "model",
    }
}

words! {
    /// The subject of a decision.
    DecisionType {
        /// How something is done.
        Approach = "approach",
        /// Which library or tool is used.
        Library = "library",
        /// How parts fit together.
        Architecture = "architecture",
        /// A workaround for an obstacle.
        Workaround = "workaround",
        /// Something that is not done.
        Skip = "skip",
        /// What was meant by something.
        Clarification = "clarification",
    }
}

words! {
    /// The resolution of an error.
    Resolution {
        Fixed = "fixed",
        /// The error remains, with a workaround.
        Workaround = "workaround",
        /// Postponed.
        Deferred = "deferred",
        /// The error still blocks the work.
        Unresolved = "unresolved",
    }
}

words! {
    /// The severity of a reviewer's feedback.
    Severity {
        None = "none",
        Minor = "minor",
        Major = "major",
        /// It must be changed.
        Critical = "critical",
    }
}

words! {
    /// The phase of test-driven work.
    Phase {
        /// Tests fail.
        Red = "red",
        /// Tests that failed before pass now.
        Green = "green",
        /// All tests pass, and the code is being cleaned up.
        Refactor = "refactor",
        Unknown = "unknown",
    }
}

words! {
    /// The progress of a todo.
    Progress {
        Pending = "pending",
        InProgress = "in_progress",
        Done = "done",
        /// No longer wanted.
        Dropped = "dropped",
    }
}

/// A note for the next run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    Decision(Decision),
    Error(ErrorNote),
    Feedback(Feedback),
    /// A single todo.
    Todo(Todo),
    /// A test result. The newest counts.
    Tests(Tests),
    /// An agent's complete todo list. The newest list counts.
    Todos(Todos),
    /// Files that were written.
    Files(Files),
}

/// A choice between alternatives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    #[serde(rename = "matter")]
    pub decision_type: DecisionType,
    /// The chosen alternative.
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The rejected alternatives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<String>,
}

/// An error that occurred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorNote {
    /// The kind of error, in one or two words.
    #[serde(rename = "sort")]
    pub kind: String,
    /// The error's message.
    pub text: String,
    /// The command or file that the error is about. A later note of the same source with the same
    /// subject updates the resolution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    pub resolution: Resolution,
    /// Details of the resolution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

/// A reviewer's feedback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feedback {
    /// The reviewer's role.
    pub persona: String,
    pub approved: bool,
    pub severity: Severity,
    /// The comments, one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<String>,
    /// Whether the feedback was acted upon.
    #[serde(default)]
    pub addressed: bool,
}

/// A todo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Todo {
    pub text: String,
    pub progress: Progress,
}

/// A test result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tests {
    pub phase: Phase,
    /// The test command.
    pub command: String,
    /// The names of failing tests, as far as the output lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<String>,
    /// Tests that are expected to fail for now; absent if this note says nothing about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Vec<String>>,
    /// The number of passed tests, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<u64>,
    /// The number of failed tests, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// The test runner's summary, shortened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
}

/// An agent's complete todo list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Todos {
    pub items: Vec<Todo>,
}

/// Files that were written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// The paths as the agent named them.
    pub paths: Vec<String>,
}

/// A note as it is journaled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenNote {
    #[serde(rename = "memo")]
    pub note: Note,
    /// The tool call that the note was derived from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The note that it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrects: Option<NoteId>,
}

impl From<Note> for WrittenNote {
    fn from(note: Note) -> Self {
        Self {
            note,
            call: None,
            corrects: None,
        }
    }
}

impl Note {
    /// The note's kind, if notes of this kind have ids.
    pub fn kind(&self) -> Option<NoteKind> {
        match self {
            Self::Decision(_) => Some(NoteKind::Decision),
            Self::Error(_) => Some(NoteKind::Error),
            Self::Feedback(_) => Some(NoteKind::Feedback),
            Self::Todo(_) => Some(NoteKind::Todo),
            Self::Tests(_) | Self::Todos(_) | Self::Files(_) => None,
        }
    }

    /// Calls `change` on every text in the note.
    pub fn for_each_text(&mut self, mut change: impl FnMut(&mut String)) {
        match self {
            Self::Decision(decision) => {
                change(&mut decision.text);
                decision.why.iter_mut().for_each(&mut change);
                decision.alternatives.iter_mut().for_each(change);
            }
            Self::Error(trouble) => {
                change(&mut trouble.kind);
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

    /// Returns the note with every text and every list cut to its maximum length.
    #[must_use]
    pub fn truncated(mut self) -> Self {
        match &mut self {
            Self::Decision(decision) => decision.alternatives.truncate(MAX_ITEMS),
            Self::Feedback(feedback) => feedback.comments.truncate(MAX_ITEMS),
            Self::Tests(tests) => {
                tests.failing.truncate(MAX_ITEMS);
                tests
                    .expected
                    .iter_mut()
                    .for_each(|list| list.truncate(MAX_ITEMS));
            }
            Self::Todos(list) => list.items.truncate(MAX_ITEMS),
            Self::Files(files) => files.paths.truncate(MAX_ITEMS),
            Self::Error(_) | Self::Todo(_) => {}
        }
        self.for_each_text(cut);
        self
    }
}

fn cut(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(end);
        text.push('…');
    }
}
