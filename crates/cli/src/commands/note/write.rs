//! Memos that a person writes.

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use segno_core::memo::{self, Matter, Memo, Phase, Progress, Resolution, Severity};
use segno_engine::memos::Wish;

use super::Place;

/// Reads one of the words of a closed set.
macro_rules! word {
    ($type:ty) => {
        PossibleValuesParser::new(<$type>::ALL.iter().map(|word| word.as_str())).map(|word| {
            let word: $type = word.parse().expect("only known words come through");
            word
        })
    };
}

pub(super) use word;

fn write(place: Place, memo: Memo) -> (Place, Wish) {
    (place, Wish::Write(vec![memo.into()]))
}

/// Note a choice between ways that were open.
#[derive(Debug, clap::Args)]
pub(crate) struct Decision {
    /// What was chosen
    text: String,
    /// What it is about
    #[arg(short = 't', long = "type", value_parser = word!(Matter), default_value = "approach")]
    matter: Matter,
    /// Why
    #[arg(short, long, value_name = "TEXT")]
    why: Option<String>,
    /// What was not chosen; may be given several times
    #[arg(short, long = "alternative", value_name = "TEXT")]
    alternatives: Vec<String>,
    #[command(flatten)]
    pub(super) place: Place,
}

impl Decision {
    pub(super) fn wish(self) -> (Place, Wish) {
        let decision = memo::Decision {
            matter: self.matter,
            text: self.text,
            why: self.why,
            alternatives: self.alternatives,
        };
        write(self.place, Memo::Decision(decision))
    }
}

/// Note something that went wrong, and what became of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Error {
    /// What happened
    text: String,
    /// The sort of it, in one or two words
    #[arg(
        short = 't',
        long = "type",
        value_name = "TYPE",
        default_value = "error"
    )]
    sort: String,
    /// What was being done: the command, the file
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// What became of it
    #[arg(short, long, value_parser = word!(Resolution), default_value = "unresolved")]
    resolution: Resolution,
    /// More about that
    #[arg(short, long, value_name = "TEXT")]
    notes: Option<String>,
    #[command(flatten)]
    pub(super) place: Place,
}

impl Error {
    pub(super) fn wish(self) -> (Place, Wish) {
        let trouble = memo::Trouble {
            sort: self.sort,
            text: self.text,
            subject: self.subject,
            resolution: self.resolution,
            notes: self.notes,
        };
        write(self.place, Memo::Error(trouble))
    }
}

/// Note what a reviewer said.
#[derive(Debug, clap::Args)]
pub(crate) struct Feedback {
    /// In whose part, such as `security`
    persona: String,
    /// What they said; may be given several times
    #[arg(short, long = "comment", value_name = "TEXT")]
    comments: Vec<String>,
    /// How much they mind
    #[arg(long, value_parser = word!(Severity), default_value = "minor")]
    severity: Severity,
    /// It may stay as it is
    #[arg(long)]
    approved: bool,
    /// It was acted upon
    #[arg(long)]
    addressed: bool,
    #[command(flatten)]
    pub(super) place: Place,
}

impl Feedback {
    pub(super) fn wish(self) -> (Place, Wish) {
        let feedback = memo::Feedback {
            persona: self.persona,
            approved: self.approved,
            severity: self.severity,
            comments: self.comments,
            addressed: self.addressed,
        };
        write(self.place, Memo::Feedback(feedback))
    }
}

/// Note a thing to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Todo {
    /// What
    text: String,
    /// How it stands
    #[arg(short, long, value_parser = word!(Progress), default_value = "pending")]
    progress: Progress,
    #[command(flatten)]
    pub(super) place: Place,
}

impl Todo {
    pub(super) fn wish(self) -> (Place, Wish) {
        let todo = memo::Todo {
            text: self.text,
            progress: self.progress,
        };
        write(self.place, Memo::Todo(todo))
    }
}

/// Note how the tests stand, and which are meant to fail for now.
#[derive(Debug, clap::Args)]
pub(crate) struct Tests {
    /// What was run
    #[arg(value_name = "COMMAND")]
    command: String,
    /// Where the work stands
    #[arg(short, long, value_parser = word!(Phase), default_value = "unknown")]
    phase: Phase,
    /// A test that fails; may be given several times
    #[arg(short, long, value_name = "TEST")]
    failing: Vec<String>,
    /// A test that is meant to fail for now; may be given several times
    #[arg(short, long, value_name = "TEST")]
    expect: Vec<String>,
    #[command(flatten)]
    pub(super) place: Place,
}

impl Tests {
    pub(super) fn wish(self) -> (Place, Wish) {
        let tests = memo::Tests {
            phase: self.phase,
            command: self.command,
            failing: self.failing,
            expected: (!self.expect.is_empty()).then_some(self.expect),
            passed: None,
            failed: None,
            summary: String::new(),
        };
        write(self.place, Memo::Tests(tests))
    }
}
