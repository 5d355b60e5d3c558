//! Compares the notes and finished steps of two checkpoints.

use std::collections::{BTreeMap, BTreeSet};

use segno_core::checkpoint::Manifest;
use segno_core::journal::{Head, Seq};
use segno_core::memo::{Handoff, Kept, Memo, MemoId, Shelf};
use segno_core::snapshot::Sort;
use segno_core::state::{Finished, State};
use segno_core::step::Path;
use segno_core::store::Error as StoreError;

use crate::error::Error;
use crate::history;
use crate::world::World;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Difference {
    pub memos: Vec<Change>,
    pub done: Vec<Path>,
    pub undone: Vec<Path>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub sort: Sort,
    pub id: MemoId,
    /// The note in the second checkpoint; in the first one if it was removed.
    pub memo: Memo,
}

/// Notes and finished steps at a checkpoint.
struct StateAt {
    memos: BTreeMap<MemoId, Memo>,
    done: BTreeSet<Path>,
}

/// Compares two checkpoints; `None` if a journal is not here.
pub(super) async fn diff(
    world: &World,
    from: &Manifest,
    to: &Manifest,
) -> Result<Option<Difference>, Error> {
    let (Some(before), Some(after)) = (state_at(world, from).await?, state_at(world, to).await?)
    else {
        return Ok(None);
    };
    let names: BTreeSet<&MemoId> = before.memos.keys().chain(after.memos.keys()).collect();
    let memos = names.into_iter().filter_map(|id| {
        let (sort, memo) = match (before.memos.get(id), after.memos.get(id)) {
            (None, Some(new)) => (Sort::Added, new),
            (Some(old), None) => (Sort::Removed, old),
            (Some(old), Some(new)) if old != new => (Sort::Changed, new),
            _ => return None,
        };
        Some(Change {
            sort,
            id: *id,
            memo: memo.clone(),
        })
    });
    Ok(Some(Difference {
        memos: memos.collect(),
        done: after.done.difference(&before.done).cloned().collect(),
        undone: before.done.difference(&after.done).cloned().collect(),
    }))
}

/// The state at the checkpoint's position in the journal; `None` if the journal is absent or
/// another one.
async fn state_at(world: &World, manifest: &Manifest) -> Result<Option<StateAt>, Error> {
    let (session, position) = (manifest.session, &manifest.journal);
    if position.seq == Seq(0) {
        return Ok(None);
    }
    let end = match world.store.summary(session).await {
        Err(StoreError::NoSession(_)) => return Ok(None),
        found => found?.head.seq,
    };
    if position.seq > end || world.store.entry(session, position.seq).await?.hash != position.hash {
        return Ok(None);
    }
    let (mut state, mut finished) = (State::empty(session), Finished::default());
    history::follow(world, session, Head::genesis(session), |entry| {
        if entry.seq > position.seq {
            return Ok(());
        }
        finished.apply(&entry);
        state.apply(&entry).map_err(|illegal| Error::Senseless {
            session,
            reason: illegal.to_string(),
        })
    })
    .await?;
    Ok(Some(StateAt {
        memos: notes_by_id(&state.handoff),
        done: finished.iter().map(|(path, _)| path.clone()).collect(),
    }))
}

/// The current notes that have ids.
fn notes_by_id(handoff: &Handoff) -> BTreeMap<MemoId, Memo> {
    fn all<T: Clone>(
        shelf: &Shelf<T>,
        memo: fn(T) -> Memo,
    ) -> impl Iterator<Item = (MemoId, Memo)> {
        let notes_by_id = move |kept: &Kept<T>| Some((kept.id?, memo(kept.memo.clone())));
        shelf.standing().filter_map(notes_by_id)
    }
    let mut notes_by_id = BTreeMap::new();
    notes_by_id.extend(all(&handoff.decisions, Memo::Decision));
    notes_by_id.extend(all(&handoff.errors, Memo::Error));
    notes_by_id.extend(all(&handoff.feedback, Memo::Feedback));
    notes_by_id.extend(all(&handoff.todos, Memo::Todo));
    notes_by_id
}
