//! Correcting and withdrawing memos.

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use segno_core::memo::{Matter, Memo, MemoId, Progress, Resolution, Severity, Written};
use segno_engine::World;
use segno_engine::memos::{self, Wish};

use super::write::word;
use super::{Place, note, session};
use crate::failure::Failure;

/// Say of a memo that it no longer holds.
#[derive(Debug, clap::Args)]
pub(crate) struct Withdraw {
    /// The memo, such as `d1`
    memo: MemoId,
    /// Why
    #[arg(short, long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    pub(super) place: Place,
}

impl Withdraw {
    pub(super) fn wish(self) -> (Place, Wish) {
        let Self {
            memo,
            reason,
            place,
        } = self;
        (place, Wish::Withdraw { memo, reason })
    }
}

/// Change what a memo says; what is not given stays.
#[derive(Debug, clap::Args)]
// What clap makes of the group below names all of its options.
#[command(override_usage = "segno note correct [OPTIONS] <MEMO>")]
pub(crate) struct Correct {
    /// The memo, such as `d1`
    memo: MemoId,
    #[command(flatten)]
    fields: Fields,
    #[command(flatten)]
    pub(super) place: Place,
}

/// What may be changed.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct Fields {
    /// What was chosen, what happened, or what is to do
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Of a decision: what it is about
    #[arg(long, value_parser = word!(Matter))]
    matter: Option<Matter>,
    /// Of a decision: why
    #[arg(short, long, value_name = "TEXT")]
    why: Option<String>,
    /// Of a decision: what was not chosen, all of it
    #[arg(short, long = "alternative", value_name = "TEXT")]
    alternatives: Vec<String>,
    /// Of an error: the sort of it
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    sort: Option<String>,
    /// Of an error: what became of it
    #[arg(short, long, value_parser = word!(Resolution))]
    resolution: Option<Resolution>,
    /// Of an error: more about that
    #[arg(short, long, value_name = "TEXT")]
    notes: Option<String>,
    /// Of feedback: what they said, all of it
    #[arg(short, long = "comment", value_name = "TEXT")]
    comments: Vec<String>,
    /// Of feedback: how much they mind
    #[arg(long, value_parser = word!(Severity))]
    severity: Option<Severity>,
    /// Of feedback: whether it was acted upon
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    addressed: Option<bool>,
    /// Of a thing to do: how it stands
    #[arg(short, long, value_parser = word!(Progress))]
    progress: Option<Progress>,
}

pub(super) async fn correct(args: Correct, world: &World) -> Result<ExitCode, Failure> {
    let summary = session(world, args.place.session.as_deref()).await?;
    let handoff = memos::handoff(world, &summary).await?;
    let memo = memos::find(&handoff, &summary, args.memo)?;
    let corrected = Written {
        corrects: Some(args.memo),
        ..args.fields.correct(args.memo, memo)?.into()
    };
    note(world, &summary, &args.place, Wish::Write(vec![corrected])).await
}

impl Fields {
    fn correct(mut self, id: MemoId, mut memo: Memo) -> Result<Memo, Failure> {
        match &mut memo {
            Memo::Decision(decision) => {
                set(&mut decision.text, self.text.take());
                set(&mut decision.matter, self.matter.take());
                decision.why = self.why.take().or(decision.why.take());
                set_all(&mut decision.alternatives, &mut self.alternatives);
            }
            Memo::Error(trouble) => {
                set(&mut trouble.text, self.text.take());
                set(&mut trouble.sort, self.sort.take());
                set(&mut trouble.resolution, self.resolution.take());
                trouble.notes = self.notes.take().or(trouble.notes.take());
            }
            Memo::Feedback(feedback) => {
                set_all(&mut feedback.comments, &mut self.comments);
                set(&mut feedback.severity, self.severity.take());
                set(&mut feedback.addressed, self.addressed.take());
            }
            Memo::Todo(todo) => {
                set(&mut todo.text, self.text.take());
                set(&mut todo.progress, self.progress.take());
            }
            Memo::Tests(_) | Memo::Todos(_) | Memo::Files(_) => {}
        }
        match self.left() {
            None => Ok(memo),
            Some(option) => Err(Failure::usage(
                format!("{id} is of sort {}, which has no `{option}`", id.sort),
                Some("`segno note correct --help` says which option is for which sort".into()),
            )),
        }
    }

    /// An option that was given and is of no use here.
    fn left(&self) -> Option<&'static str> {
        let given = [
            ("--text", self.text.is_some()),
            ("--matter", self.matter.is_some()),
            ("--why", self.why.is_some()),
            ("--alternative", !self.alternatives.is_empty()),
            ("--type", self.sort.is_some()),
            ("--resolution", self.resolution.is_some()),
            ("--notes", self.notes.is_some()),
            ("--comment", !self.comments.is_empty()),
            ("--severity", self.severity.is_some()),
            ("--addressed", self.addressed.is_some()),
            ("--progress", self.progress.is_some()),
        ];
        let left = given.into_iter().find(|(_, given)| *given);
        left.map(|(option, _)| option)
    }
}

fn set<T>(field: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *field = given;
    }
}

fn set_all(field: &mut Vec<String>, given: &mut Vec<String>) {
    if !given.is_empty() {
        *field = std::mem::take(given);
    }
}
