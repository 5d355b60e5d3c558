//! Records notes for the next run, from anywhere.
//!
//! While a run is active, a note goes into the inbox and the run appends it to the journal;
//! otherwise it is appended between runs. Either way it is durable when [`note`] returns.

mod wait;

use segno_core::id::SessionId;
use segno_core::journal::{Event, MemoWithdrawn, MemosWritten, Seq};
use segno_core::lease::Verdict;
use segno_core::memo::{Handoff, Kept, LONGEST, Memo, MemoId, Shelf, Sort, Source, Written};
use segno_core::session::Summary;
use segno_core::step::Path;
use segno_core::store::{Error as StoreError, Message};
use segno_core::usage::Usage;

use crate::error::Error;
use crate::interlude::Interlude;
use crate::world::World;
use crate::{claim, history};

pub use wait::note_within;

/// How many notes one call may write.
const MAX_NOTES: usize = 100;

/// Who writes the notes.
#[derive(Debug, Clone)]
pub struct Author {
    pub source: Source,
    pub by: String,
    /// The step that the author works on.
    pub path: Option<Path>,
}

/// A change to the notes.
#[derive(Debug, Clone)]
pub enum Wish {
    /// Writes or corrects notes.
    Write(Vec<Written>),
    /// Marks a note as no longer valid.
    Withdraw {
        memo: MemoId,
        reason: Option<String>,
    },
}

/// Where the change is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noted {
    /// In the journal; these are the ids of the new notes.
    Written(Vec<MemoId>),
    /// In the inbox, until the run appends it to the journal.
    Posted,
}

/// Records a change to the notes of a session.
pub async fn note(
    world: &World,
    summary: &Summary,
    author: Author,
    wish: Wish,
) -> Result<Noted, Error> {
    validate(&handoff(world, summary).await?, summary, &author, &wish)?;
    let message = to_message(world, author, wish);
    let lease = world.store.lease(summary.id).await?;
    // A note never kills the owner: a suspended run may continue, and the author may be its own
    // agent.
    let acquired = match claim::verdict(world, &lease) {
        Verdict::Ask => Some(Interlude::begin(world, summary).await),
        Verdict::Held | Verdict::EndAndAsk => None,
    };
    let interlude = match acquired {
        None | Some(Err(Error::Held { .. })) => {
            let posted = world.store.post(summary.id, world.clock.now(), message);
            posted.await?;
            return Ok(Noted::Posted);
        }
        Some(acquired) => acquired?,
    };
    let event = to_event(world, message).expect("a memo is an event");
    let state = interlude.note(event).await?;
    Ok(Noted::Written(ids_written_at(
        &state.handoff,
        state.head.seq,
    )))
}

/// The merged notes of a session, including those in the inbox.
pub async fn handoff(world: &World, summary: &Summary) -> Result<Handoff, Error> {
    // In this order, a note that the run appends in between is seen in both places and counts once.
    let (waiting, _) = inbox_notes(world, summary.id).await?;
    let state = history::look(world, summary.id).await?;
    let mut handoff = (*state.handoff).clone();
    let (mut seq, now) = (state.head.seq, world.clock.now());
    for event in waiting {
        seq.0 += 1;
        match &event {
            Event::MemosWritten(event) => handoff.write(event, seq, now),
            Event::MemoWithdrawn(event) => handoff.withdraw(event),
            _ => {}
        }
    }
    Ok(handoff)
}

/// The notes in the inbox as events, and the inbox numbers of their messages.
pub(crate) async fn inbox_notes(
    world: &World,
    session: SessionId,
) -> Result<(Vec<Event>, Vec<u64>), StoreError> {
    let pending = world.store.pending(session).await?;
    let memos = pending.into_iter();
    let memos = memos.filter_map(|(number, message)| Some((to_event(world, message)?, number)));
    Ok(memos.unzip())
}

/// The event for an inbox message, if it is about notes. The sender may not know all secrets that
/// this process knows, so it is redacted (P12).
pub(crate) fn to_event(world: &World, message: Message) -> Option<Event> {
    let plain = |text: String| world.redactor.redact(&text).into_owned();
    match message {
        Message::Memos(event) => {
            let memos = event.memos.into_iter();
            let memos = memos.map(|memo| redact_and_bound(world, memo)).collect();
            let by = plain(event.by);
            Some(MemosWritten { memos, by, ..event }.into())
        }
        Message::Withdraw(event) => {
            let (by, reason) = (plain(event.by), event.reason.map(plain));
            Some(
                MemoWithdrawn {
                    by,
                    reason,
                    ..event
                }
                .into(),
            )
        }
        Message::Stop(_) | Message::Answer { .. } => None,
    }
}

/// A note in its stored form: redacted (P12) and bounded.
pub(crate) fn redact_and_bound(world: &World, mut written: Written) -> Written {
    // Redaction comes first: a secret that is cut in two would not be recognized.
    written
        .memo
        .each_text(|text| *text = world.redactor.redact(text).into_owned());
    Written {
        memo: written.memo.bounded(),
        ..written
    }
}

fn to_message(world: &World, author: Author, wish: Wish) -> Message {
    let by = world.redactor.redact(&author.by).into_owned();
    match wish {
        Wish::Write(memos) => Message::Memos(MemosWritten {
            source: author.source,
            by,
            path: author.path,
            memos: memos
                .into_iter()
                .map(|memo| redact_and_bound(world, memo))
                .collect(),
            read_to: None,
            usage: Usage::default(),
        }),
        Wish::Withdraw { memo, reason } => {
            let reason = reason.map(|reason| {
                let reason = world.redactor.redact(&reason);
                reason.chars().take(LONGEST).collect()
            });
            Message::Withdraw(MemoWithdrawn { memo, by, reason })
        }
    }
}

/// The ids of the notes that an event wrote.
fn ids_written_at(handoff: &Handoff, seq: Seq) -> Vec<MemoId> {
    let all = all_notes(handoff).into_iter();
    let own = all.filter(|known| known.seq == seq);
    own.map(|known| known.id).collect()
}

/// The metadata of a note that has an id.
struct NoteMeta {
    id: MemoId,
    seq: Seq,
    source: Source,
    is_valid: bool,
}

fn all_notes(handoff: &Handoff) -> Vec<NoteMeta> {
    fn known<T>(kept: &Kept<T>) -> Option<NoteMeta> {
        Some(NoteMeta {
            id: kept.id?,
            seq: kept.seq,
            source: kept.source,
            is_valid: kept.withdrawn.is_none(),
        })
    }
    let mut all = Vec::new();
    all.extend(handoff.decisions.kept.iter().filter_map(known));
    all.extend(handoff.errors.kept.iter().filter_map(known));
    all.extend(handoff.feedback.kept.iter().filter_map(known));
    all.extend(handoff.todos.kept.iter().filter_map(known));
    all
}

/// Refuses invalid changes before anything is written.
fn validate(
    handoff: &Handoff,
    summary: &Summary,
    author: &Author,
    wish: &Wish,
) -> Result<(), Error> {
    let changed = |id: MemoId| {
        match all_notes(handoff).into_iter().find(|known| known.id == id) {
            None
            | Some(NoteMeta {
                is_valid: false, ..
            }) => Err(no_such(handoff, summary, id)),
            // Only a human changes what a human wrote.
            Some(known) if known.source == Source::Person && author.source != Source::Person => {
                Err(Error::NotYourMemo { memo: id })
            }
            Some(_) => Ok(()),
        }
    };
    let unusable = |reason: &str| Error::UnusableMemo {
        reason: reason.to_owned(),
    };
    match wish {
        Wish::Withdraw { memo, .. } => changed(*memo),
        Wish::Write(memos) => {
            if memos.len() > MAX_NOTES {
                return Err(unusable("more than 100 at once"));
            }
            for written in memos {
                if let Some(id) = written.corrects {
                    if written.memo.sort() != Some(id.sort) {
                        return Err(unusable("a memo is corrected by one of the same sort"));
                    }
                    changed(id)?;
                }
                if is_blank(&written.memo) {
                    return Err(unusable("it says nothing"));
                }
            }
            Ok(())
        }
    }
}

fn is_blank(memo: &Memo) -> bool {
    let blank = |text: &str| text.trim().is_empty();
    match memo {
        Memo::Decision(decision) => blank(&decision.text),
        Memo::Error(error) => blank(&error.text),
        Memo::Feedback(feedback) => {
            blank(&feedback.persona) || feedback.comments.iter().any(|comment| blank(comment))
        }
        Memo::Todo(todo) => blank(&todo.text),
        Memo::Tests(tests) => blank(&tests.command) && tests.expected.is_none(),
        Memo::Todos(list) => list.items.iter().any(|item| blank(&item.text)),
        Memo::Files(files) => files.paths.is_empty(),
    }
}

/// The note with this id, if it is valid.
pub fn find(handoff: &Handoff, summary: &Summary, id: MemoId) -> Result<Memo, Error> {
    fn of<T: Clone>(notes: &Shelf<T>, id: MemoId) -> Option<T> {
        let found = notes.standing().find(|kept| kept.id == Some(id))?;
        Some(found.memo.clone())
    }
    let found = match id.sort {
        Sort::Decision => of(&handoff.decisions, id).map(Memo::Decision),
        Sort::Error => of(&handoff.errors, id).map(Memo::Error),
        Sort::Feedback => of(&handoff.feedback, id).map(Memo::Feedback),
        Sort::Todo => of(&handoff.todos, id).map(Memo::Todo),
    };
    found.ok_or_else(|| no_such(handoff, summary, id))
}

/// The error for an unknown id, with the valid notes of the same kind.
pub fn no_such(handoff: &Handoff, summary: &Summary, id: MemoId) -> Error {
    let all = all_notes(handoff).into_iter();
    let alike = all.filter(|known| known.is_valid && known.id.sort == id.sort);
    Error::NoSuchMemo {
        name: summary.name.clone(),
        memo: id,
        standing: alike.map(|known| known.id).collect(),
    }
}
