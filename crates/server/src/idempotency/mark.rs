//! Finds the effect of an operation in a session, after a server was killed.
//!
//! What a request posts or appends carries the operation in `by`, in the transaction of the effect
//! itself. A run moves a message from the inbox to the journal in one transaction, too. So who reads
//! the inbox first, and the journal after it, finds the effect if there was one, unless a run ended
//! meanwhile that consumed the message without an event.

use segno_core::id::SessionId;
use segno_core::journal::{Event, Head, JournalEvent};
use segno_core::store::{Error, InboxMessage, Store};

/// How many events are read at once.
const PAGE: usize = 500;

/// The effect of an operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Mark {
    /// It waits in the inbox.
    Posted(InboxMessage),
    /// It is an event.
    Journaled(JournalEvent),
}

/// The effect of the operation with this mark, if it came after `head`.
pub(super) async fn find(
    store: &dyn Store,
    session: SessionId,
    mut head: Head,
    mark: &str,
) -> Result<Option<Mark>, Error> {
    for (_, message) in store.pending(session).await? {
        if sender(&message).contains(mark) {
            return Ok(Some(Mark::Posted(message)));
        }
    }
    loop {
        let events = store.read(session, head, PAGE).await?;
        let is_last = events.len() < PAGE;
        for event in events {
            head = Head {
                seq: event.seq,
                hash: event.hash,
            };
            if author(&event.event).is_some_and(|by| by.contains(mark)) {
                return Ok(Some(Mark::Journaled(event)));
            }
        }
        if is_last {
            return Ok(None);
        }
    }
}

fn sender(message: &InboxMessage) -> &str {
    match message {
        InboxMessage::Stop(message) => &message.by,
        InboxMessage::Answer { by, .. } => by,
        InboxMessage::Notes(message) => &message.by,
        InboxMessage::WithdrawNote(message) => &message.by,
        InboxMessage::AgentState { change, .. } => &change.by,
    }
}

fn author(event: &Event) -> Option<&str> {
    match event {
        Event::StopRequested(event) => Some(&event.by),
        Event::QuestionAnswered(event) => Some(&event.by),
        Event::NotesWritten(event) => Some(&event.by),
        Event::NoteWithdrawn(event) => Some(&event.by),
        Event::AgentStateChanged(event) => Some(&event.by),
        Event::StepResolved(event) => Some(&event.by),
        Event::RunRequested(event) => Some(&event.by),
        Event::RunWithdrawn(event) => Some(&event.by),
        _ => None,
    }
}
