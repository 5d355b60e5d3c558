//! Notes as journal events: redacted and bounded.

use segno_core::id::SessionId;
use segno_core::journal::{Event, NoteWithdrawn, NotesWritten};
use segno_core::note::WrittenNote;
use segno_core::store::{Error as StoreError, InboxMessage};

use crate::env::Env;

/// The notes in the inbox as events, and the inbox numbers of their messages.
pub async fn inbox_notes(
    env: &Env,
    session: SessionId,
) -> Result<(Vec<Event>, Vec<u64>), StoreError> {
    let pending = env.store.pending(session).await?;
    let notes = pending.into_iter();
    let notes = notes.filter_map(|(number, message)| Some((to_event(env, message)?, number)));
    Ok(notes.unzip())
}

/// The event for an inbox message, if it is about notes. The sender may not know all secrets that
/// this process knows, so it is redacted (P12).
pub fn to_event(env: &Env, message: InboxMessage) -> Option<Event> {
    let plain = |text: String| env.redactor.redact(&text).into_owned();
    match message {
        InboxMessage::Notes(event) => {
            let notes = event.notes.into_iter();
            let notes = notes.map(|note| redact_and_bound(env, note)).collect();
            let by = plain(event.by);
            Some(NotesWritten { notes, by, ..event }.into())
        }
        InboxMessage::WithdrawNote(event) => {
            let (by, reason) = (plain(event.by), event.reason.map(plain));
            Some(
                NoteWithdrawn {
                    by,
                    reason,
                    ..event
                }
                .into(),
            )
        }
        InboxMessage::Stop(_) | InboxMessage::Answer { .. } | InboxMessage::AgentState { .. } => {
            None
        }
    }
}

/// A note in its stored form: redacted (P12) and bounded.
pub fn redact_and_bound(env: &Env, mut written: WrittenNote) -> WrittenNote {
    // Redaction comes first: a secret that is cut in two would not be recognized.
    written
        .note
        .for_each_text(|text| *text = env.redactor.redact(text).into_owned());
    WrittenNote {
        note: written.note.truncated(),
        ..written
    }
}
