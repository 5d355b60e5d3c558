//! A journal read from its end, as far as a page needs it.

use segno_core::journal::{Entry, Head, Seq};
use segno_core::session::Summary;

use super::{Cursor, Item, Page, Room};
use crate::error::Error;
use crate::pen;
use crate::world::World;

/// How many entries are in memory at a time.
const AT_ONCE: u64 = 50;

/// How many entries are looked at for one page. Whoever wants more asks for the next.
const LOOKED_AT: u64 = 5000;

/// Makes items of an entry and its long text, in order.
pub(super) type Make = fn(&Entry, &str) -> Vec<Item>;

/// A page of what `make` finds in the journal before `cursor`.
pub(super) async fn page(
    world: &World,
    summary: &Summary,
    cursor: Option<Cursor>,
    mut room: Room,
    make: Make,
) -> Result<Page, Error> {
    let end = world.store.summary(summary.id).await?.head.seq;
    // A cursor stands in the entry that it names: that is read again, up to there.
    let (mut before, mut within) = match cursor {
        Some(cursor) if cursor.seq <= end => (Seq(cursor.seq.0 + 1), Some(cursor.item)),
        _ => (Seq(end.0 + 1), None),
    };
    let (mut items, last) = (Vec::new(), before.0.saturating_sub(LOOKED_AT));
    while before.0 > 1 && before.0 > last {
        let (entries, from) = chunk(world, summary, before).await?;
        for entry in entries.into_iter().rev() {
            let kept = match entry.event.text() {
                Some(text) => pen::recall(world, text).await?,
                None => String::new(),
            };
            let mut made = make(&entry, &kept);
            made.truncate(within.take().unwrap_or(made.len()));
            while let Some(item) = made.pop() {
                room.take(&item);
                items.push(item);
                if !room.is_left() {
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

/// The entries before a place, oldest first, and the place that they begin at.
async fn chunk(world: &World, summary: &Summary, before: Seq) -> Result<(Vec<Entry>, Seq), Error> {
    let known = before.0.saturating_sub(AT_ONCE + 1);
    let head = match known {
        0 => Head::genesis(summary.id),
        known => world.store.entry(summary.id, Seq(known)).await?.head(),
    };
    let count = usize::try_from(before.0 - 1 - known).unwrap_or(usize::MAX);
    let entries = world.store.read(summary.id, head, count).await?;
    Ok((entries, Seq(known + 1)))
}
