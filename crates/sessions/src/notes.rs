//! Records notes for the next run, from anywhere.
//!
//! While a run is active, a note goes into the inbox and the run appends it to the journal;
//! otherwise it is appended between runs. Either way it is durable when [`record`] returns.

mod wait;

use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::handoff::{Handoff, NoteList, StoredNote};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Event, NoteWithdrawn, NotesWritten, Seq};
use segno_core::lease::LeaseDecision;
use segno_core::note::{MAX_TEXT, Note, NoteId, NoteKind, Source, WrittenNote};
use segno_core::step::Path;
use segno_core::store::{Error as StoreError, InboxMessage, Summary};
use segno_core::usage::Usage;
use segno_engine::between_runs::{self, BetweenRuns};
use segno_engine::note_events::{inbox_notes, redact_and_bound, to_event};
use segno_engine::{Env, history, lease};

pub use wait::record_and_wait;

/// How many notes one call may write.
const MAX_NOTES: usize = 100;

/// Why a change to the notes was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    History(#[from] history::Error),
    #[error(transparent)]
    BetweenRuns(#[from] between_runs::Error),
    /// The note does not exist, or was replaced or withdrawn.
    #[error("session `{name}` has no note {note}")]
    NoSuchNote {
        name: Name,
        note: NoteId,
        /// The current notes of the same kind.
        standing: Vec<NoteId>,
    },
    /// Only the user may change this note.
    #[error("note {note} was written by the user; agents cannot change it")]
    NotEditable { note: NoteId },
    #[error("the note is not valid: {reason}")]
    InvalidNote { reason: String },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::History(error) => error.diagnosis(),
            Self::BetweenRuns(error) => error.diagnosis(),
            Self::NoSuchNote { name, standing, .. } => {
                let hint = if standing.is_empty() {
                    format!("`segno note list {name} --all` lists all notes")
                } else {
                    let standing: Vec<String> = standing.iter().map(NoteId::to_string).collect();
                    format!("current notes: {}", standing.join(", "))
                };
                Diagnosis::new(Kind::Invalid, "R0150").hint(hint)
            }
            Self::NotEditable { note } => Diagnosis::new(Kind::Invalid, "R0151").hint(format!(
                "write a new note that corrects it, or ask the user to run `segno note correct {note}`"
            )),
            Self::InvalidNote { .. } => Diagnosis::new(Kind::Invalid, "R0152")
                .hint("describe what happened in one or two sentences"),
        }
    }
}

/// Who writes the notes.
#[derive(Debug, Clone)]
pub struct Author {
    pub source: Source,
    pub by: String,
    /// The step that the author works on.
    pub path: Option<Path>,
}

/// A change to the notes.
#[derive(Debug, Clone)]
pub enum Change {
    /// Writes or corrects notes.
    Write(Vec<WrittenNote>),
    /// Marks a note as no longer valid.
    Withdraw {
        note: NoteId,
        reason: Option<String>,
    },
}

/// Where the change is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// In the journal; these are the ids of the new notes.
    Written(Vec<NoteId>),
    /// In the inbox, until the run appends it to the journal.
    Posted,
}

/// Records a change to the notes of a session.
pub async fn record(
    env: &Env,
    summary: &Summary,
    author: Author,
    change: Change,
) -> Result<Recorded, Error> {
    validate(&merged(env, summary).await?, summary, &author, &change)?;
    let message = to_message(env, author, change);
    let lease = env.store.lease(summary.id).await?;
    // A note never ends the owner: a stopped run may continue, and the author may be its own agent.
    let acquired = match lease::verdict(env, &lease) {
        LeaseDecision::Acquire => Some(BetweenRuns::acquire(env, summary).await),
        LeaseDecision::Held | LeaseDecision::HeldByStopped => None,
    };
    let between_runs = match acquired {
        Some(Ok(between_runs)) => between_runs,
        Some(Err(error)) if !error.is_held() => return Err(error.into()),
        None | Some(Err(_)) => {
            let posted = env.store.post(summary.id, env.clock.now(), message);
            posted.await?;
            return Ok(Recorded::Posted);
        }
    };
    let event = to_event(env, message).expect("notes convert to an event");
    let state = between_runs.append_after_notes(event).await?;
    Ok(Recorded::Written(ids_written_at(
        &state.handoff,
        state.head.seq,
    )))
}

/// The merged notes of a session, including those in the inbox.
pub async fn merged(env: &Env, summary: &Summary) -> Result<Handoff, history::Error> {
    // In this order, a note that the run appends in between is seen in both places and counts once.
    let (waiting, _) = inbox_notes(env, summary.id).await?;
    let state = history::load_state(env, summary.id).await?;
    let mut handoff = (*state.handoff).clone();
    let (mut seq, now) = (state.head.seq, env.clock.now());
    for event in waiting {
        seq.0 += 1;
        match &event {
            Event::NotesWritten(event) => handoff.add(event, seq, now),
            Event::NoteWithdrawn(event) => handoff.withdraw(event),
            _ => {}
        }
    }
    Ok(handoff)
}

fn to_message(env: &Env, author: Author, change: Change) -> InboxMessage {
    let by = env.redactor.redact(&author.by).into_owned();
    match change {
        Change::Write(notes) => InboxMessage::Notes(NotesWritten {
            source: author.source,
            by,
            path: author.path,
            notes: notes
                .into_iter()
                .map(|note| redact_and_bound(env, note))
                .collect(),
            read_to: None,
            usage: Usage::default(),
        }),
        Change::Withdraw { note, reason } => {
            let reason = reason.map(|reason| {
                let reason = env.redactor.redact(&reason);
                reason.chars().take(MAX_TEXT).collect()
            });
            InboxMessage::WithdrawNote(NoteWithdrawn { note, by, reason })
        }
    }
}

/// The ids of the notes that the event with this number wrote.
pub async fn written_at(
    env: &Env,
    session: SessionId,
    seq: Seq,
) -> Result<Vec<NoteId>, history::Error> {
    let state = history::load_state(env, session).await?;
    Ok(ids_written_at(&state.handoff, seq))
}

/// The ids of the notes that an event wrote.
fn ids_written_at(handoff: &Handoff, seq: Seq) -> Vec<NoteId> {
    let all = all_notes(handoff).into_iter();
    let own = all.filter(|known| known.seq == seq);
    own.map(|known| known.id).collect()
}

/// The metadata of a note that has an id.
struct NoteMeta {
    id: NoteId,
    seq: Seq,
    source: Source,
    is_valid: bool,
}

fn all_notes(handoff: &Handoff) -> Vec<NoteMeta> {
    fn known<T>(kept: &StoredNote<T>) -> Option<NoteMeta> {
        Some(NoteMeta {
            id: kept.id?,
            seq: kept.seq,
            source: kept.source,
            is_valid: kept.withdrawn.is_none(),
        })
    }
    let mut all = Vec::new();
    all.extend(handoff.decisions.notes.iter().filter_map(known));
    all.extend(handoff.errors.notes.iter().filter_map(known));
    all.extend(handoff.feedback.notes.iter().filter_map(known));
    all.extend(handoff.todos.notes.iter().filter_map(known));
    all
}

/// Refuses invalid changes before anything is written.
fn validate(
    handoff: &Handoff,
    summary: &Summary,
    author: &Author,
    change: &Change,
) -> Result<(), Error> {
    let changed = |id: NoteId| {
        match all_notes(handoff).into_iter().find(|known| known.id == id) {
            None
            | Some(NoteMeta {
                is_valid: false, ..
            }) => Err(not_found_error(handoff, summary, id)),
            // Only a human changes what a human wrote.
            Some(known) if known.source == Source::User && author.source != Source::User => {
                Err(Error::NotEditable { note: id })
            }
            Some(_) => Ok(()),
        }
    };
    let unusable = |reason: &str| Error::InvalidNote {
        reason: reason.to_owned(),
    };
    match change {
        Change::Withdraw { note, .. } => changed(*note),
        Change::Write(notes) => {
            if notes.len() > MAX_NOTES {
                return Err(unusable("more than 100 notes at once"));
            }
            for written in notes {
                if let Some(id) = written.corrects {
                    if written.note.kind() != Some(id.kind) {
                        return Err(unusable("a correction must have the same type as the note"));
                    }
                    changed(id)?;
                }
                if is_blank(&written.note) {
                    return Err(unusable("it is empty"));
                }
            }
            Ok(())
        }
    }
}

fn is_blank(note: &Note) -> bool {
    let blank = |text: &str| text.trim().is_empty();
    match note {
        Note::Decision(decision) => blank(&decision.text),
        Note::Error(error) => blank(&error.text),
        Note::Feedback(feedback) => {
            blank(&feedback.persona) || feedback.comments.iter().any(|comment| blank(comment))
        }
        Note::Todo(todo) => blank(&todo.text),
        Note::Tests(tests) => blank(&tests.command) && tests.expected.is_none(),
        Note::Todos(list) => list.items.iter().any(|item| blank(&item.text)),
        Note::Files(files) => files.paths.is_empty(),
    }
}

/// The note with this id, if it is valid.
pub fn get(handoff: &Handoff, summary: &Summary, id: NoteId) -> Result<Note, Error> {
    fn of<T: Clone>(notes: &NoteList<T>, id: NoteId) -> Option<T> {
        let found = notes.active().find(|kept| kept.id == Some(id))?;
        Some(found.note.clone())
    }
    let found = match id.kind {
        NoteKind::Decision => of(&handoff.decisions, id).map(Note::Decision),
        NoteKind::Error => of(&handoff.errors, id).map(Note::Error),
        NoteKind::Feedback => of(&handoff.feedback, id).map(Note::Feedback),
        NoteKind::Todo => of(&handoff.todos, id).map(Note::Todo),
    };
    found.ok_or_else(|| not_found_error(handoff, summary, id))
}

/// The error for an unknown id, with the valid notes of the same kind.
pub fn not_found_error(handoff: &Handoff, summary: &Summary, id: NoteId) -> Error {
    let all = all_notes(handoff).into_iter();
    let alike = all.filter(|known| known.is_valid && known.id.kind == id.kind);
    Error::NoSuchNote {
        name: summary.name.clone(),
        note: id,
        standing: alike.map(|known| known.id).collect(),
    }
}
