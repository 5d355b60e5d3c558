//! Waiting until a run has taken a memo, so that whoever wrote it learns its name.

use std::time::Duration;

use segno_core::memo::{Handoff, Item, Memo, MemoId, Shelf};
use segno_core::session::Summary;
use segno_core::store::Message;

use super::{Author, Noted, Wish, message, note};
use crate::error::Error;
use crate::history;
use crate::world::World;

/// How often is looked whether it was taken.
const GLANCE: Duration = Duration::from_millis(20);

/// Notes something, and waits for at most `patience` until it stands in the journal: only there does it
/// have a name for good.
pub async fn note_within(
    world: &World,
    summary: &Summary,
    author: Author,
    wish: Wish,
    patience: Duration,
) -> Result<Noted, Error> {
    let posted = message(world, author.clone(), wish.clone());
    let noted = note(world, summary, author, wish).await?;
    if noted != Noted::Posted {
        return Ok(noted);
    }
    let until = world.clock.elapsed() + patience;
    while is_waiting(world, summary, &posted).await? {
        if world.clock.elapsed() >= until {
            return Ok(Noted::Posted);
        }
        world.clock.sleep(GLANCE).await;
    }
    let state = history::look(world, summary.id).await?;
    Ok(Noted::Written(names(&state.handoff, posted)))
}

async fn is_waiting(world: &World, summary: &Summary, posted: &Message) -> Result<bool, Error> {
    let pending = world.store.pending(summary.id).await?;
    Ok(pending.iter().any(|(_, message)| message == posted))
}

/// The names under which what was posted stands. What was said before stands under its old name.
fn names(handoff: &Handoff, posted: Message) -> Vec<MemoId> {
    let Message::Memos(event) = posted else {
        return Vec::new();
    };
    let named = event.memos.into_iter().filter_map(|written| {
        if written.corrects.is_some() {
            return written.corrects;
        }
        match &written.memo {
            Memo::Decision(decision) => name(&handoff.decisions, decision),
            Memo::Error(trouble) => name(&handoff.errors, trouble),
            Memo::Feedback(feedback) => name(&handoff.feedback, feedback),
            Memo::Todo(todo) => name(&handoff.todos, todo),
            Memo::Tests(_) | Memo::Todos(_) | Memo::Files(_) => None,
        }
    });
    named.collect()
}

fn name<T: Item>(shelf: &Shelf<T>, memo: &T) -> Option<MemoId> {
    let mut standing = shelf.standing().rev();
    standing.find(|kept| kept.memo == *memo)?.id
}
