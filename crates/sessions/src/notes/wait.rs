//! Waits until the run has appended a note, so that the author learns its id.

use std::time::Duration;

use segno_core::handoff::{Handoff, NoteContent, NoteList};
use segno_core::note::{Note, NoteId};
use segno_core::store::{Error as StoreError, InboxMessage, Summary};
use segno_engine::{Env, history};

use super::{Author, Change, Error, Recorded, record, to_message};

/// How often the inbox is read.
const INBOX_POLL: Duration = Duration::from_millis(20);

/// Records a change and waits at most `patience` until the journal has it: only then do new notes
/// have their final ids.
pub async fn record_and_wait(
    env: &Env,
    summary: &Summary,
    author: Author,
    change: Change,
    patience: Duration,
) -> Result<Recorded, Error> {
    let posted = to_message(env, author.clone(), change.clone());
    let noted = record(env, summary, author, change).await?;
    if noted != Recorded::Posted {
        return Ok(noted);
    }
    let until = env.clock.elapsed() + patience;
    while is_waiting(env, summary, &posted).await? {
        if env.clock.elapsed() >= until {
            return Ok(Recorded::Posted);
        }
        env.clock.sleep(INBOX_POLL).await;
    }
    let state = history::load_state(env, summary.id).await?;
    Ok(Recorded::Written(posted_ids(&state.handoff, posted)))
}

async fn is_waiting(
    env: &Env,
    summary: &Summary,
    posted: &InboxMessage,
) -> Result<bool, StoreError> {
    let pending = env.store.pending(summary.id).await?;
    Ok(pending.iter().any(|(_, message)| message == posted))
}

/// The ids of the posted notes. A note that repeats an earlier one has the earlier id.
fn posted_ids(handoff: &Handoff, posted: InboxMessage) -> Vec<NoteId> {
    let InboxMessage::Notes(event) = posted else {
        return Vec::new();
    };
    let ids = event.notes.into_iter().filter_map(|written| {
        if written.corrects.is_some() {
            return written.corrects;
        }
        match &written.note {
            Note::Decision(decision) => id_of(&handoff.decisions, decision),
            Note::Error(error) => id_of(&handoff.errors, error),
            Note::Feedback(feedback) => id_of(&handoff.feedback, feedback),
            Note::Todo(todo) => id_of(&handoff.todos, todo),
            Note::Tests(_) | Note::Todos(_) | Note::Files(_) => None,
        }
    });
    ids.collect()
}

fn id_of<T: NoteContent>(notes: &NoteList<T>, note: &T) -> Option<NoteId> {
    let mut standing = notes.active().rev();
    standing.find(|kept| kept.note == *note)?.id
}
