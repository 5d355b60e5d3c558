//! The subcommands with which a user writes notes.

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use segno_core::note::{self, DecisionType, Note, Phase, Progress, Resolution, Severity};
use segno_sessions::notes::Change;

use super::CommonArgs;

/// A clap parser for an enum that has a closed set of words.
macro_rules! word_parser {
    ($type:ty) => {
        PossibleValuesParser::new(<$type>::ALL.iter().map(|word| word.as_str())).map(|word| {
            let word: $type = word.parse().expect("only known words come through");
            word
        })
    };
}

pub(super) use word_parser;

fn write(common: CommonArgs, note: Note) -> (CommonArgs, Change) {
    (common, Change::Write(vec![note.into()]))
}

/// Record a decision between alternatives.
#[derive(Debug, clap::Args)]
pub(crate) struct Decision {
    /// What was chosen
    text: String,
    /// What the decision is about
    #[arg(short = 't', long = "type", value_name = "TYPE", value_parser = word_parser!(DecisionType), default_value = "approach")]
    kind: DecisionType,
    /// Reason for the decision
    #[arg(short, long, value_name = "TEXT")]
    why: Option<String>,
    /// Rejected alternative (repeatable)
    #[arg(short, long = "alternative", value_name = "TEXT")]
    alternatives: Vec<String>,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

impl Decision {
    pub(super) fn into_request(self) -> (CommonArgs, Change) {
        let decision = note::Decision {
            decision_type: self.kind,
            text: self.text,
            why: self.why,
            alternatives: self.alternatives,
        };
        write(self.common, Note::Decision(decision))
    }
}

/// Record an error and its resolution.
#[derive(Debug, clap::Args)]
pub(crate) struct Error {
    /// What happened
    text: String,
    /// Type of the error, in one or two words
    #[arg(
        short = 't',
        long = "type",
        value_name = "TYPE",
        default_value = "error"
    )]
    kind: String,
    /// What was being done, such as a command or a file
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// How the error was resolved
    #[arg(short, long, value_parser = word_parser!(Resolution), default_value = "unresolved")]
    resolution: Resolution,
    /// Notes on the resolution
    #[arg(short, long, value_name = "TEXT")]
    notes: Option<String>,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

impl Error {
    pub(super) fn into_request(self) -> (CommonArgs, Change) {
        let error = note::ErrorNote {
            kind: self.kind,
            text: self.text,
            subject: self.subject,
            resolution: self.resolution,
            notes: self.notes,
        };
        write(self.common, Note::Error(error))
    }
}

/// Record the feedback of a reviewer.
#[derive(Debug, clap::Args)]
pub(crate) struct Feedback {
    /// Role of the reviewer, such as `security`
    persona: String,
    /// Comment of the reviewer (repeatable)
    #[arg(short, long = "comment", value_name = "TEXT")]
    comments: Vec<String>,
    /// Severity of the feedback
    #[arg(long, value_parser = word_parser!(Severity), default_value = "minor")]
    severity: Severity,
    /// The reviewer approved the work
    #[arg(long)]
    approved: bool,
    /// The feedback was addressed
    #[arg(long)]
    addressed: bool,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

impl Feedback {
    pub(super) fn into_request(self) -> (CommonArgs, Change) {
        let feedback = note::Feedback {
            persona: self.persona,
            approved: self.approved,
            severity: self.severity,
            comments: self.comments,
            addressed: self.addressed,
        };
        write(self.common, Note::Feedback(feedback))
    }
}

/// Record a todo.
#[derive(Debug, clap::Args)]
pub(crate) struct Todo {
    /// What to do
    text: String,
    /// Progress of the todo
    #[arg(short, long, value_parser = word_parser!(Progress), default_value = "pending")]
    progress: Progress,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

impl Todo {
    pub(super) fn into_request(self) -> (CommonArgs, Change) {
        let todo = note::Todo {
            text: self.text,
            progress: self.progress,
        };
        write(self.common, Note::Todo(todo))
    }
}

/// Record test results, and which tests are expected to fail.
#[derive(Debug, clap::Args)]
pub(crate) struct Tests {
    /// Command that ran the tests
    #[arg(value_name = "COMMAND")]
    command: String,
    /// Phase of the work
    #[arg(short, long, value_parser = word_parser!(Phase), default_value = "unknown")]
    phase: Phase,
    /// Failing test (repeatable)
    #[arg(short, long, value_name = "TEST")]
    failing: Vec<String>,
    /// Test that is expected to fail for now (repeatable)
    #[arg(short, long, value_name = "TEST")]
    expect: Vec<String>,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

impl Tests {
    pub(super) fn into_request(self) -> (CommonArgs, Change) {
        let tests = note::Tests {
            phase: self.phase,
            command: self.command,
            failing: self.failing,
            expected: (!self.expect.is_empty()).then_some(self.expect),
            passed: None,
            failed: None,
            summary: String::new(),
        };
        write(self.common, Note::Tests(tests))
    }
}
