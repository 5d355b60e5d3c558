//! Compares the notes and finished steps of two checkpoints.

use std::collections::{BTreeMap, BTreeSet};

use segno_core::checkpoint::Manifest;
use segno_core::handoff::{Handoff, NoteList, StoredNote};
use segno_core::note::{Note, NoteId};
use segno_core::snapshot::ChangeKind;
use segno_core::step::Path;
use segno_engine::{Env, history};

use super::replay::Replay;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Difference {
    pub notes: Vec<Change>,
    pub done: Vec<Path>,
    pub undone: Vec<Path>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub kind: ChangeKind,
    pub id: NoteId,
    /// The note in the second checkpoint; in the first one if it was removed.
    pub note: Note,
}

/// Notes and finished steps at a checkpoint.
struct StateAt {
    notes: BTreeMap<NoteId, Note>,
    done: BTreeSet<Path>,
}

/// Compares two checkpoints; `None` if a journal is not here.
pub(super) async fn diff(
    env: &Env,
    from: &Manifest,
    to: &Manifest,
) -> Result<Option<Difference>, history::Error> {
    let (Some(before), Some(after)) = (state_at(env, from).await?, state_at(env, to).await?) else {
        return Ok(None);
    };
    let names: BTreeSet<&NoteId> = before.notes.keys().chain(after.notes.keys()).collect();
    let notes = names.into_iter().filter_map(|id| {
        let (sort, note) = match (before.notes.get(id), after.notes.get(id)) {
            (None, Some(new)) => (ChangeKind::Added, new),
            (Some(old), None) => (ChangeKind::Removed, old),
            (Some(old), Some(new)) if old != new => (ChangeKind::Changed, new),
            _ => return None,
        };
        Some(Change {
            kind: sort,
            id: *id,
            note: note.clone(),
        })
    });
    Ok(Some(Difference {
        notes: notes.collect(),
        done: after.done.difference(&before.done).cloned().collect(),
        undone: before.done.difference(&after.done).cloned().collect(),
    }))
}

/// The state at the checkpoint's position in the journal; `None` if the journal is absent or
/// another one.
async fn state_at(env: &Env, manifest: &Manifest) -> Result<Option<StateAt>, history::Error> {
    let Some(replay) = Replay::up_to(env, manifest, |_| {}).await? else {
        return Ok(None);
    };
    Ok(Some(StateAt {
        notes: notes_by_id(&replay.state.handoff),
        done: replay
            .finished
            .iter()
            .map(|(path, _)| path.clone())
            .collect(),
    }))
}

/// The current notes that have ids.
fn notes_by_id(handoff: &Handoff) -> BTreeMap<NoteId, Note> {
    fn all<T: Clone>(
        shelf: &NoteList<T>,
        note: fn(T) -> Note,
    ) -> impl Iterator<Item = (NoteId, Note)> {
        let notes_by_id = move |kept: &StoredNote<T>| Some((kept.id?, note(kept.note.clone())));
        shelf.active().filter_map(notes_by_id)
    }
    let mut notes_by_id = BTreeMap::new();
    notes_by_id.extend(all(&handoff.decisions, Note::Decision));
    notes_by_id.extend(all(&handoff.errors, Note::Error));
    notes_by_id.extend(all(&handoff.feedback, Note::Feedback));
    notes_by_id.extend(all(&handoff.todos, Note::Todo));
    notes_by_id
}
