//! Noting what whoever goes on with a session must know, from anywhere.
//!
//! While somebody runs the session, a memo waits in its inbox until the run takes it into the journal;
//! otherwise it is an entry between runs. Either way it is durable when this returns.

mod taken;

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

pub use taken::note_within;

/// How many memos may come at once.
const MOST: usize = 100;

/// Who writes.
#[derive(Debug, Clone)]
pub struct Author {
    /// What sort of writer.
    pub source: Source,
    /// By which name.
    pub by: String,
    /// The step that they are at work on.
    pub path: Option<Path>,
}

/// What they want.
#[derive(Debug, Clone)]
pub enum Wish {
    /// Memos are written, or corrected.
    Write(Vec<Written>),
    /// One no longer holds.
    Withdraw {
        /// Its name.
        memo: MemoId,
        /// Why.
        reason: Option<String>,
    },
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noted {
    /// It stands in the journal; these are the names of what was written.
    Written(Vec<MemoId>),
    /// It waits for the run, which takes it into the journal.
    Posted,
}

/// Notes something.
pub async fn note(
    world: &World,
    summary: &Summary,
    author: Author,
    wish: Wish,
) -> Result<Noted, Error> {
    check(&handoff(world, summary).await?, summary, &author, &wish)?;
    let message = message(world, author, wish);
    let lease = world.store.lease(summary.id).await?;
    // A memo ends nobody: a run that is stopped may go on, and whoever notes may be its own agent.
    let begun = match claim::verdict(world, &lease) {
        Verdict::Ask => Some(Interlude::begin(world, summary).await),
        Verdict::Held | Verdict::EndAndAsk => None,
    };
    let interlude = match begun {
        None | Some(Err(Error::Held { .. })) => {
            let posted = world.store.post(summary.id, world.clock.now(), message);
            posted.await?;
            return Ok(Noted::Posted);
        }
        Some(begun) => begun?,
    };
    let event = event(world, message).expect("a memo is an event");
    let state = interlude.note(event).await?;
    Ok(Noted::Written(named_at(&state.handoff, state.head.seq)))
}

/// What the memos of a session add up to, with those that wait for its run.
pub async fn handoff(world: &World, summary: &Summary) -> Result<Handoff, Error> {
    // In this order, one that is taken meanwhile is seen in both places, and counts once.
    let (waiting, _) = waiting(world, summary.id).await?;
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

/// What waits in the inbox to be taken into the journal, and the numbers that take it.
pub(crate) async fn waiting(
    world: &World,
    session: SessionId,
) -> Result<(Vec<Event>, Vec<u64>), StoreError> {
    let pending = world.store.pending(session).await?;
    let memos = pending.into_iter();
    let memos = memos.filter_map(|(number, message)| Some((event(world, message)?, number)));
    Ok(memos.unzip())
}

/// What a message says in the journal, if it is about memos. Whoever posted it may not have known all
/// secrets that whoever takes it knows (P12).
pub(crate) fn event(world: &World, message: Message) -> Option<Event> {
    let plain = |text: String| world.redactor.redact(&text).into_owned();
    match message {
        Message::Memos(event) => {
            let memos = event.memos.into_iter();
            let memos = memos.map(|memo| clean(world, memo)).collect();
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

/// A memo as it is kept: with secrets taken out (P12), and bounded.
pub(crate) fn clean(world: &World, mut written: Written) -> Written {
    // A secret that is cut in two would not be known any more.
    written
        .memo
        .each_text(|text| *text = world.redactor.redact(text).into_owned());
    Written {
        memo: written.memo.bounded(),
        ..written
    }
}

fn message(world: &World, author: Author, wish: Wish) -> Message {
    let by = world.redactor.redact(&author.by).into_owned();
    match wish {
        Wish::Write(memos) => Message::Memos(MemosWritten {
            source: author.source,
            by,
            path: author.path,
            memos: memos.into_iter().map(|memo| clean(world, memo)).collect(),
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

/// The names of what an entry wrote.
fn named_at(handoff: &Handoff, seq: Seq) -> Vec<MemoId> {
    let all = all(handoff).into_iter();
    let own = all.filter(|known| known.seq == seq);
    own.map(|known| known.id).collect()
}

/// What is known of a memo that has a name, whatever it says.
struct Known {
    id: MemoId,
    seq: Seq,
    source: Source,
    stands: bool,
}

fn all(handoff: &Handoff) -> Vec<Known> {
    fn known<T>(kept: &Kept<T>) -> Option<Known> {
        Some(Known {
            id: kept.id?,
            seq: kept.seq,
            source: kept.source,
            stands: kept.withdrawn.is_none(),
        })
    }
    let mut all = Vec::new();
    all.extend(handoff.decisions.kept.iter().filter_map(known));
    all.extend(handoff.errors.kept.iter().filter_map(known));
    all.extend(handoff.feedback.kept.iter().filter_map(known));
    all.extend(handoff.todos.kept.iter().filter_map(known));
    all
}

/// Refuses what makes no sense, before anything is kept.
fn check(handoff: &Handoff, summary: &Summary, author: &Author, wish: &Wish) -> Result<(), Error> {
    let changed = |id: MemoId| {
        match all(handoff).into_iter().find(|known| known.id == id) {
            None | Some(Known { stands: false, .. }) => Err(no_such(handoff, summary, id)),
            // What a person said is changed by a person.
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
            if memos.len() > MOST {
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
        Memo::Error(trouble) => blank(&trouble.text),
        Memo::Feedback(feedback) => {
            blank(&feedback.persona) || feedback.comments.iter().any(|comment| blank(comment))
        }
        Memo::Todo(todo) => blank(&todo.text),
        Memo::Tests(tests) => blank(&tests.command) && tests.expected.is_none(),
        Memo::Todos(list) => list.items.iter().any(|item| blank(&item.text)),
        Memo::Files(files) => files.paths.is_empty(),
    }
}

/// One memo that has a name, as it stands.
pub fn find(handoff: &Handoff, summary: &Summary, id: MemoId) -> Result<Memo, Error> {
    fn of<T: Clone>(shelf: &Shelf<T>, id: MemoId) -> Option<T> {
        let found = shelf.standing().find(|kept| kept.id == Some(id))?;
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

/// The error that there is no such memo, with those of its sort that hold.
pub fn no_such(handoff: &Handoff, summary: &Summary, id: MemoId) -> Error {
    let all = all(handoff).into_iter();
    let alike = all.filter(|known| known.stands && known.id.sort == id.sort);
    Error::NoSuchMemo {
        name: summary.name.clone(),
        memo: id,
        standing: alike.map(|known| known.id).collect(),
    }
}
