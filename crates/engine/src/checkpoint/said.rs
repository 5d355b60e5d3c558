//! What two checkpoints say differently of decisions, errors and the plan.

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

/// What differs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Difference {
    /// Memos, by name.
    pub memos: Vec<Change>,
    /// Steps that are done in the second and not in the first.
    pub done: Vec<Path>,
    /// Steps that are done in the first and not in the second.
    pub undone: Vec<Path>,
}

/// A memo that differs.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// How.
    pub sort: Sort,
    /// Its name.
    pub id: MemoId,
    /// What it says in the second; in the first if it is not there any more.
    pub memo: Memo,
}

/// What a session knew at a checkpoint.
struct Known {
    memos: BTreeMap<MemoId, Memo>,
    done: BTreeSet<Path>,
}

/// Compares two checkpoints; `None` if the journal of one of them is not here.
pub(super) async fn diff(
    world: &World,
    from: &Manifest,
    to: &Manifest,
) -> Result<Option<Difference>, Error> {
    let (Some(before), Some(after)) = (known(world, from).await?, known(world, to).await?) else {
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

/// What the journal says up to where a checkpoint was taken; `None` if it is not here, or another one.
async fn known(world: &World, manifest: &Manifest) -> Result<Option<Known>, Error> {
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
    Ok(Some(Known {
        memos: named(&state.handoff),
        done: finished.iter().map(|(path, _)| path.clone()).collect(),
    }))
}

/// The memos that hold and have names.
fn named(handoff: &Handoff) -> BTreeMap<MemoId, Memo> {
    fn all<T: Clone>(
        shelf: &Shelf<T>,
        memo: fn(T) -> Memo,
    ) -> impl Iterator<Item = (MemoId, Memo)> {
        let named = move |kept: &Kept<T>| Some((kept.id?, memo(kept.memo.clone())));
        shelf.standing().filter_map(named)
    }
    let mut named = BTreeMap::new();
    named.extend(all(&handoff.decisions, Memo::Decision));
    named.extend(all(&handoff.errors, Memo::Error));
    named.extend(all(&handoff.feedback, Memo::Feedback));
    named.extend(all(&handoff.todos, Memo::Todo));
    named
}
