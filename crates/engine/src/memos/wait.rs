//! Waits until the run has appended a note, so that the author learns its id.

use std::time::Duration;

use segno_core::memo::{Handoff, Item, Memo, MemoId, Shelf};
use segno_core::session::Summary;
use segno_core::store::Message;

use super::{Author, Noted, Wish, note, to_message};
use crate::error::Error;
use crate::history;
use crate::world::World;

/// How often the inbox is read.
const INBOX_POLL: Duration = Duration::from_millis(20);

/// Records a change and waits at most `patience` until the journal has it: only then do new notes
/// have their final ids.
pub async fn note_within(
    world: &World,
    summary: &Summary,
    author: Author,
    wish: Wish,
    patience: Duration,
) -> Result<Noted, Error> {
    let posted = to_message(world, author.clone(), wish.clone());
    let noted = note(world, summary, author, wish).await?;
    if noted != Noted::Posted {
        return Ok(noted);
    }
    let until = world.clock.elapsed() + patience;
    while is_waiting(world, summary, &posted).await? {
        if world.clock.elapsed() >= until {
            return Ok(Noted::Posted);
        }
        world.clock.sleep(INBOX_POLL).await;
    }
    let state = history::look(world, summary.id).await?;
    Ok(Noted::Written(posted_ids(&state.handoff, posted)))
}

async fn is_waiting(world: &World, summary: &Summary, posted: &Message) -> Result<bool, Error> {
    let pending = world.store.pending(summary.id).await?;
    Ok(pending.iter().any(|(_, message)| message == posted))
}

/// The ids of the posted notes. A note that repeats an earlier one has the earlier id.
fn posted_ids(handoff: &Handoff, posted: Message) -> Vec<MemoId> {
    let Message::Memos(event) = posted else {
        return Vec::new();
    };
    let ids = event.memos.into_iter().filter_map(|written| {
        if written.corrects.is_some() {
            return written.corrects;
        }
        match &written.memo {
            Memo::Decision(decision) => id_of(&handoff.decisions, decision),
            Memo::Error(error) => id_of(&handoff.errors, error),
            Memo::Feedback(feedback) => id_of(&handoff.feedback, feedback),
            Memo::Todo(todo) => id_of(&handoff.todos, todo),
            Memo::Tests(_) | Memo::Todos(_) | Memo::Files(_) => None,
        }
    });
    ids.collect()
}

fn id_of<T: Item>(notes: &Shelf<T>, memo: &T) -> Option<MemoId> {
    let mut standing = notes.standing().rev();
    standing.find(|kept| kept.memo == *memo)?.id
}
