//! Folds the notes of a session.

use serde::{Deserialize, Serialize};

use crate::journal::{NoteWithdrawn, NotesWritten, Seq, StepFailed, StepFinished};
use crate::note::{
    Decision, ErrorNote, Feedback, Note, NoteId, NoteKind, Progress, Resolution, Source, Tests,
    Todo, Todos, WrittenNote,
};
use crate::step::Path;
use crate::time::Timestamp;
use crate::usage::Usage;

/// How many notes of a kind are held in memory. Older ones stay in the journal.
const MAX_NOTES: usize = 200;

/// How many files are listed.
const MAX_FILES: usize = 200;

/// The fold of a session's notes. It stays small however long the session is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handoff {
    pub decisions: NoteList<Decision>,
    pub errors: NoteList<ErrorNote>,
    pub feedback: NoteList<Feedback>,
    /// Single todos.
    pub todos: NoteList<Todo>,
    /// The newest todo list of an agent.
    pub list: Option<StoredNote<Todos>>,
    /// The newest test result.
    pub tests: Option<StoredNote<Tests>>,
    /// The most recently written files, newest last.
    pub files: Vec<String>,
    /// How many other files were written before.
    pub earlier_files: u64,
    /// The last event that a model has read to extract notes.
    pub read_to: Option<Seq>,
}

/// Notes of one kind, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoteList<T> {
    /// The notes held in memory.
    #[serde(rename = "kept")]
    pub notes: Vec<StoredNote<T>>,
    /// The total number of notes.
    pub count: u64,
    /// The number of the last note with an id.
    pub last: u64,
}

impl<T> Default for NoteList<T> {
    fn default() -> Self {
        Self {
            notes: Vec::new(),
            count: 0,
            last: 0,
        }
    }
}

impl<T> NoteList<T> {
    /// The notes that were not withdrawn, oldest first.
    pub fn active(&self) -> impl DoubleEndedIterator<Item = &StoredNote<T>> {
        self.notes.iter().filter(|kept| kept.withdrawn.is_none())
    }

    fn find(&mut self, number: u64) -> Option<&mut StoredNote<T>> {
        let known = |kept: &&mut StoredNote<T>| kept.id.is_some_and(|id| id.number == number);
        self.notes.iter_mut().find(known)
    }
}

/// A note and its metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredNote<T> {
    /// The note's id; `None` for notes derived from other events, and for kinds of which only the newest
    /// counts.
    pub id: Option<NoteId>,
    /// When the note was written or last corrected.
    pub at: Timestamp,
    /// The kind of author.
    pub source: Source,
    /// The author.
    pub by: String,
    /// The step that the note is about.
    pub path: Option<Path>,
    /// The journal event that contains the note.
    pub seq: Seq,
    /// The tool call that the note was derived from.
    pub call: Option<String>,
    pub corrected: bool,
    /// Why the note was withdrawn, if it was.
    pub withdrawn: Option<String>,
    #[serde(rename = "memo")]
    pub note: T,
}

/// A kind of note that [`NoteList`] can hold.
pub trait NoteContent: PartialEq + Sized {
    const KIND: NoteKind;

    /// Whether the note needs no further action.
    fn is_resolved(&self) -> bool;

    /// Whether `other` has the same subject and is an update of this note.
    fn is_updated_by(&self, other: &Self) -> bool;
}

impl NoteContent for Decision {
    const KIND: NoteKind = NoteKind::Decision;

    fn is_resolved(&self) -> bool {
        true
    }

    fn is_updated_by(&self, _: &Self) -> bool {
        false
    }
}

impl NoteContent for ErrorNote {
    const KIND: NoteKind = NoteKind::Error;

    fn is_resolved(&self) -> bool {
        self.resolution != Resolution::Unresolved
    }

    fn is_updated_by(&self, other: &Self) -> bool {
        self.subject.is_some() && self.subject == other.subject && !self.is_resolved()
    }
}

impl NoteContent for Feedback {
    const KIND: NoteKind = NoteKind::Feedback;

    fn is_resolved(&self) -> bool {
        self.addressed || self.approved
    }

    fn is_updated_by(&self, _: &Self) -> bool {
        false
    }
}

impl NoteContent for Todo {
    const KIND: NoteKind = NoteKind::Todo;

    fn is_resolved(&self) -> bool {
        matches!(self.progress, Progress::Done | Progress::Dropped)
    }

    fn is_updated_by(&self, other: &Self) -> bool {
        self.text == other.text && !self.is_resolved()
    }
}

/// The subject of a step's failure.
fn subject(path: &Path) -> String {
    format!("step {path}")
}

/// A note to be added, with its metadata.
struct NewNote<'a> {
    event: &'a NotesWritten,
    seq: Seq,
    at: Timestamp,
    call: Option<String>,
    corrects: Option<NoteId>,
    /// Whether the note gets an id. A note derived from another event has none: ids would differ in a
    /// fork of the session that lacks that event.
    named: bool,
}

impl NewNote<'_> {
    fn kept<T>(&self, id: Option<NoteId>, note: T) -> StoredNote<T> {
        StoredNote {
            id,
            at: self.at,
            source: self.event.source,
            by: self.event.by.clone(),
            path: self.event.path.clone(),
            seq: self.seq,
            call: self.call.clone(),
            corrected: false,
            withdrawn: None,
            note,
        }
    }
}

impl Handoff {
    /// Adds notes.
    pub fn add(&mut self, event: &NotesWritten, seq: Seq, at: Timestamp) {
        self.add_all(event, seq, at, true);
    }

    /// Adds notes that are derived from other events: they have no ids.
    pub fn add_derived(&mut self, event: &NotesWritten, seq: Seq, at: Timestamp) {
        self.add_all(event, seq, at, false);
    }

    fn add_all(&mut self, event: &NotesWritten, seq: Seq, at: Timestamp, named: bool) {
        for WrittenNote {
            note,
            call,
            corrects,
        } in &event.notes
        {
            let new_note = NewNote {
                event,
                seq,
                at,
                call: call.clone(),
                corrects: *corrects,
                named,
            };
            match note.clone() {
                Note::Decision(decision) => self.decisions.add(decision, &new_note),
                Note::Error(trouble) => self.errors.add(trouble, &new_note),
                Note::Feedback(feedback) => self.feedback.add(feedback, &new_note),
                Note::Todo(todo) => self.todos.add(todo, &new_note),
                Note::Todos(list) => self.list = Some(new_note.kept(None, list)),
                Note::Files(files) => self.add_files(files.paths),
                Note::Tests(mut tests) => {
                    // A plain test run says nothing about which tests are expected to fail.
                    if tests.expected.is_none() {
                        let before = self.tests.take();
                        tests.expected = before.and_then(|before| before.note.expected);
                    }
                    self.tests = Some(new_note.kept(None, tests));
                }
            }
        }
        self.read_to = self.read_to.max(event.read_to);
    }

    /// Marks a note as withdrawn. Does nothing if the note is no longer held in memory.
    pub fn withdraw(&mut self, event: &NoteWithdrawn) {
        let reason = event.reason.as_deref().unwrap_or_default();
        let why = format!("{}: {reason}", event.by);
        let why = why.trim_end_matches(": ").to_owned();
        let number = event.note.number;
        let withdrawn = match event.note.kind {
            NoteKind::Decision => self.decisions.find(number).map(|kept| &mut kept.withdrawn),
            NoteKind::Error => self.errors.find(number).map(|kept| &mut kept.withdrawn),
            NoteKind::Feedback => self.feedback.find(number).map(|kept| &mut kept.withdrawn),
            NoteKind::Todo => self.todos.find(number).map(|kept| &mut kept.withdrawn),
        };
        if let Some(withdrawn) = withdrawn {
            *withdrawn = Some(why);
        }
    }

    /// The subjects of unresolved errors that `source` reported.
    pub fn unresolved_subjects(&self, source: Source) -> impl Iterator<Item = &str> {
        let open = self.errors.active();
        let open = open.filter(move |kept| kept.source == source && !kept.note.is_resolved());
        open.filter_map(|kept| kept.note.subject.as_deref())
    }

    /// Adds the error of a step that failed permanently. It is unresolved until the step finishes.
    pub fn add_step_failure(&mut self, event: &StepFailed, seq: Seq, at: Timestamp) {
        let (sort, text) = (event.error.kind.clone(), event.error.message.clone());
        self.add_step_error(&event.path, sort, text, Resolution::Unresolved, seq, at);
    }

    /// Marks the errors of a step as fixed, if it had failed permanently before.
    pub fn resolve_step_errors(&mut self, event: &StepFinished, seq: Seq, at: Timestamp) {
        let failed = self.step_errors(&event.path).next();
        if let Some(ErrorNote {
            kind: sort, text, ..
        }) = failed.cloned()
        {
            self.add_step_error(&event.path, sort, text, Resolution::Fixed, seq, at);
        }
    }

    /// Unresolved errors of a step.
    pub fn step_errors(&self, path: &Path) -> impl Iterator<Item = &ErrorNote> {
        let subject = subject(path);
        let open = self.errors.active().map(|kept| &kept.note);
        open.filter(move |trouble| {
            !trouble.is_resolved() && trouble.subject.as_deref() == Some(&subject)
        })
    }

    fn add_step_error(
        &mut self,
        path: &Path,
        sort: String,
        text: String,
        resolution: Resolution,
        seq: Seq,
        at: Timestamp,
    ) {
        let trouble = Note::Error(ErrorNote {
            kind: sort,
            text,
            subject: Some(subject(path)),
            resolution,
            notes: None,
        });
        let event = NotesWritten {
            source: Source::Driver,
            by: "segno".to_owned(),
            path: Some(path.clone()),
            notes: vec![trouble.truncated().into()],
            read_to: None,
            usage: Usage::default(),
        };
        self.add_derived(&event, seq, at);
    }

    /// Whether there are no notes.
    pub fn is_empty(&self) -> bool {
        *self
            == Self {
                read_to: self.read_to,
                ..Self::default()
            }
    }

    fn add_files(&mut self, paths: Vec<String>) {
        for path in paths {
            self.files.retain(|known| *known != path);
            self.files.push(path);
        }
        let over = self.files.len().saturating_sub(MAX_FILES);
        self.files.drain(..over);
        self.earlier_files += over as u64;
    }
}

impl<T: NoteContent> NoteList<T> {
    fn add(&mut self, note: T, new_note: &NewNote<'_>) {
        if let Some(corrected) = new_note.corrects
            && corrected.kind == T::KIND
            && let Some(kept) = self.find(corrected.number)
        {
            *kept = StoredNote {
                corrected: true,
                ..new_note.kept(kept.id, note)
            };
            return;
        }
        let mut standing = self.notes.iter_mut().rev();
        let standing = standing.find(|kept| {
            kept.withdrawn.is_none() && (kept.note == note || kept.note.is_updated_by(&note))
        });
        // A note of a user takes precedence over what any other source reports.
        if let Some(kept) = standing {
            if kept.source >= new_note.event.source && kept.note != note {
                let corrected = kept.corrected;
                *kept = StoredNote {
                    corrected,
                    ..new_note.kept(kept.id, note)
                };
            }
            return;
        }
        self.count += 1;
        self.last += u64::from(new_note.named);
        let id = new_note.named.then_some(NoteId {
            kind: T::KIND,
            number: self.last,
        });
        self.notes.push(new_note.kept(id, note));
        if self.notes.len() > MAX_NOTES {
            let mut settled = self.notes.iter();
            let settled = settled.position(|kept| kept.note.is_resolved());
            self.notes.remove(settled.unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests;
