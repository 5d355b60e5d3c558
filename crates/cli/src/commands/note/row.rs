//! Notes, prepared for tables and JSON.

use segno_core::handoff::{Handoff, StoredNote};
use segno_core::journal::Seq;
use segno_core::note::{Files, Note, NoteId, Source};
use segno_core::step::Path;
use segno_core::time::Timestamp;
use serde_json::{Value, json};

/// A note and its provenance.
pub(super) struct Row {
    pub(super) id: Option<NoteId>,
    pub(super) note: Note,
    pub(super) source: Source,
    /// Absent if the row is merged from several notes.
    pub(super) origin: Option<Origin>,
    pub(super) corrected: bool,
    /// Why the note was withdrawn, if it was.
    pub(super) withdrawn: Option<String>,
}

/// Where a note comes from.
pub(super) struct Origin {
    pub(super) at: Timestamp,
    pub(super) by: String,
    pub(super) step: Option<Path>,
    pub(super) entry: Seq,
    pub(super) call: Option<String>,
}

/// Collects all current notes of a session.
pub(super) fn rows(handoff: &Handoff) -> Vec<Row> {
    let mut rows = Vec::new();
    let decisions = handoff.decisions.notes.iter();
    rows.extend(decisions.map(|note| row(note, Note::Decision)));
    let errors = handoff.errors.notes.iter();
    rows.extend(errors.map(|note| row(note, Note::Error)));
    let feedback = handoff.feedback.notes.iter();
    rows.extend(feedback.map(|note| row(note, Note::Feedback)));
    let todos = handoff.todos.notes.iter();
    rows.extend(todos.map(|note| row(note, Note::Todo)));
    rows.extend(handoff.list.iter().map(|note| row(note, Note::Todos)));
    rows.extend(handoff.tests.iter().map(|note| row(note, Note::Tests)));
    if !handoff.files.is_empty() {
        rows.push(files(handoff));
    }
    rows
}

/// Merges all notes about written files. The journal says which note named which file.
fn files(handoff: &Handoff) -> Row {
    Row {
        id: None,
        note: Note::Files(Files {
            paths: handoff.files.clone(),
        }),
        source: Source::Driver,
        origin: None,
        corrected: false,
        withdrawn: None,
    }
}

fn row<T: Clone>(note: &StoredNote<T>, content: fn(T) -> Note) -> Row {
    Row {
        id: note.id,
        note: content(note.note.clone()),
        source: note.source,
        origin: Some(Origin {
            at: note.at,
            by: note.by.clone(),
            step: note.path.clone(),
            entry: note.seq,
            call: note.call.clone(),
        }),
        corrected: note.corrected,
        withdrawn: note.withdrawn.clone(),
    }
}

impl Row {
    /// Describes the author and the kind of author.
    pub(super) fn from(&self) -> String {
        match &self.origin {
            Some(origin) => format!("{} ({})", origin.by, self.source),
            None => format!("({})", self.source),
        }
    }

    pub(super) fn json(&self) -> Value {
        let origin = self.origin.as_ref();
        json!({
            "v": 1,
            "kind": "note",
            "id": self.id,
            "at": origin.map(|origin| origin.at.to_string()),
            "source": self.source,
            "by": origin.map(|origin| &origin.by),
            "step": origin.and_then(|origin| origin.step.as_ref()),
            "seq": origin.map(|origin| origin.entry),
            "call": origin.and_then(|origin| origin.call.as_ref()),
            "corrected": self.corrected,
            "withdrawn": self.withdrawn,
            "note": self.note,
        })
    }
}
