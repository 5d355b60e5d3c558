//! `segno note correct` and `segno note withdraw`.

use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use segno_core::note::{DecisionType, Note, NoteId, Progress, Resolution, Severity, WrittenNote};
use segno_engine::Env;
use segno_sessions::notes::{self, Change};

use super::write::word_parser;
use super::{CommonArgs, append_note, find_session};
use crate::context::Context;
use crate::failure::Failure;

/// Withdraw a note that no longer holds.
#[derive(Debug, clap::Args)]
pub(crate) struct Withdraw {
    /// Note id, such as `d1`
    note: NoteId,
    /// Why it no longer holds
    #[arg(short, long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

impl Withdraw {
    pub(super) fn into_request(self) -> (CommonArgs, Change) {
        let Self {
            note,
            reason,
            common,
        } = self;
        (common, Change::Withdraw { note, reason })
    }
}

/// Correct a note; fields that are not given stay.
#[derive(Debug, clap::Args)]
// Without this, clap lists all options of the group below in the usage line.
#[command(override_usage = "segno note correct [OPTIONS] <NOTE>")]
pub(crate) struct Correct {
    /// Note id, such as `d1`
    note: NoteId,
    #[command(flatten)]
    fields: Fields,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// The fields that can be corrected.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct Fields {
    /// What was chosen, what happened, or what to do
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Decision: what it is about, such as `library`. Error: its type
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Decision: the reason
    #[arg(short, long, value_name = "TEXT")]
    why: Option<String>,
    /// Decision: the rejected alternatives, replacing all (repeatable)
    #[arg(short, long = "alternative", value_name = "TEXT")]
    alternatives: Vec<String>,
    /// Error: its resolution
    #[arg(short, long, value_parser = word_parser!(Resolution))]
    resolution: Option<Resolution>,
    /// Error: notes on the resolution
    #[arg(short, long, value_name = "TEXT")]
    notes: Option<String>,
    /// Feedback: the comments, replacing all (repeatable)
    #[arg(short, long = "comment", value_name = "TEXT")]
    comments: Vec<String>,
    /// Feedback: its severity
    #[arg(long, value_parser = word_parser!(Severity))]
    severity: Option<Severity>,
    /// Feedback: whether it was addressed
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    addressed: Option<bool>,
    /// Todo: its progress
    #[arg(short, long, value_parser = word_parser!(Progress))]
    progress: Option<Progress>,
}

pub(super) async fn correct(
    args: Correct,
    env: &Env,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let summary = find_session(env, args.common.session.as_deref()).await?;
    let handoff = notes::merged(env, &summary).await?;
    let note = notes::get(&handoff, &summary, args.note)?;
    let corrected = WrittenNote {
        corrects: Some(args.note),
        ..args.fields.correct(args.note, note)?.into()
    };
    let change = Change::Write(vec![corrected]);
    append_note(env, context, &summary, &args.common, change).await
}

impl Fields {
    fn correct(mut self, id: NoteId, mut note: Note) -> Result<Note, Failure> {
        match &mut note {
            Note::Decision(decision) => {
                set(&mut decision.text, self.text.take());
                set(&mut decision.decision_type, self.take_decision_type()?);
                decision.why = self.why.take().or(decision.why.take());
                set_all(&mut decision.alternatives, &mut self.alternatives);
            }
            Note::Error(error) => {
                set(&mut error.text, self.text.take());
                set(&mut error.kind, self.kind.take());
                set(&mut error.resolution, self.resolution.take());
                error.notes = self.notes.take().or(error.notes.take());
            }
            Note::Feedback(feedback) => {
                set_all(&mut feedback.comments, &mut self.comments);
                set(&mut feedback.severity, self.severity.take());
                set(&mut feedback.addressed, self.addressed.take());
            }
            Note::Todo(todo) => {
                set(&mut todo.text, self.text.take());
                set(&mut todo.progress, self.progress.take());
            }
            Note::Tests(_) | Note::Todos(_) | Note::Files(_) => {}
        }
        match self.unused_option() {
            None => Ok(note),
            Some(option) => Err(Failure::usage(
                format!("note {id} is of type {}, which has no `{option}`", id.kind),
                Some("`segno note correct --help` lists the options of each type".into()),
            )),
        }
    }

    /// Takes the type of a decision, which is one of a closed set of words.
    fn take_decision_type(&mut self) -> Result<Option<DecisionType>, Failure> {
        let Some(word) = self.kind.take() else {
            return Ok(None);
        };
        word.parse().map(Some).map_err(|_| {
            let words: Vec<&str> = DecisionType::ALL.iter().map(|word| word.as_str()).collect();
            Failure::usage(
                format!("`{word}` is not a type of decision"),
                Some(format!("use one of {}", words.join(", "))),
            )
        })
    }

    /// Returns an option that was given and does not apply to this type of note.
    fn unused_option(&self) -> Option<&'static str> {
        let given = [
            ("--text", self.text.is_some()),
            ("--why", self.why.is_some()),
            ("--alternative", !self.alternatives.is_empty()),
            ("--type", self.kind.is_some()),
            ("--resolution", self.resolution.is_some()),
            ("--notes", self.notes.is_some()),
            ("--comment", !self.comments.is_empty()),
            ("--severity", self.severity.is_some()),
            ("--addressed", self.addressed.is_some()),
            ("--progress", self.progress.is_some()),
        ];
        let unused = given.into_iter().find(|(_, given)| *given);
        unused.map(|(option, _)| option)
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
