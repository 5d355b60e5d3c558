//! Reads a journal backwards, as far as one page needs it.

use segno_core::id::SessionId;
use segno_core::journal::{Head, JournalEvent, Seq};
use segno_core::store::Error as StoreError;
use segno_engine::{Env, journal};

use super::{Cursor, Item, Page, PageBudget};

/// How many events are in memory at a time.
const CHUNK: u64 = 50;

/// How many events one page reads at most. The next page continues after them.
const MAX_EVENTS_READ: u64 = 5000;

/// Converts an event and its long text into items, oldest first.
pub(super) type Make = fn(&JournalEvent, &str) -> Vec<Item>;

/// The part of a journal that is read: up to the event `end`.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) session: SessionId,
    pub(super) end: Seq,
}

/// One page of the items that `make` finds in the journal before `cursor`.
pub(super) async fn page(
    env: &Env,
    range: Range,
    cursor: Option<Cursor>,
    mut budget: PageBudget,
    make: Make,
) -> Result<Page, StoreError> {
    let Range { session, end } = range;
    // A cursor points into an event: that event is read again, up to the cursor.
    let (mut before, mut within) = match cursor {
        Some(cursor) if cursor.seq <= end => (Seq(cursor.seq.0 + 1), Some(cursor.item)),
        _ => (Seq(end.0 + 1), None),
    };
    let (mut items, last) = (Vec::new(), before.0.saturating_sub(MAX_EVENTS_READ));
    while before.0 > 1 && before.0 > last {
        let (entries, from) = chunk(env, session, before).await?;
        for entry in entries.into_iter().rev() {
            let long_text = match entry.event.text() {
                Some(text) => journal::load_text(env, text).await?,
                None => String::new(),
            };
            let mut made = make(&entry, &long_text);
            made.truncate(within.take().unwrap_or(made.len()));
            while let Some(item) = made.pop() {
                budget.consume(&item);
                items.push(item);
                if !budget.has_room() {
                    let next = Cursor {
                        seq: entry.seq,
                        item: made.len(),
                    };
                    let is_end = made.is_empty() && entry.seq.0 == 1;
                    return Ok(Page {
                        items,
                        next: (!is_end).then_some(next),
                    });
                }
            }
        }
        before = from;
    }
    let next = (before.0 > 1).then_some(Cursor {
        seq: before,
        item: 0,
    });
    Ok(Page { items, next })
}

/// The events before a position, oldest first, and the position of the first one.
async fn chunk(
    env: &Env,
    session: SessionId,
    before: Seq,
) -> Result<(Vec<JournalEvent>, Seq), StoreError> {
    let known = before.0.saturating_sub(CHUNK + 1);
    let head = match known {
        0 => Head::genesis(session),
        known => env.store.event(session, Seq(known)).await?.head(),
    };
    let count = usize::try_from(before.0 - 1 - known).unwrap_or(usize::MAX);
    let entries = env.store.read(session, head, count).await?;
    Ok((entries, Seq(known + 1)))
}
