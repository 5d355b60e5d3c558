//! The conversation of a session with its agents, oldest message first, one page at a time.
//!
//! All kinds of agents have the same form: what Segno asked an API model, and what a CLI agent
//! reported of its own conversation. A page is bounded in messages, bytes and events (P10).

mod message;

use segno_core::journal::{Head, Seq};
use segno_core::store::{Error as StoreError, Summary};
use segno_engine::{Env, journal};

pub use crate::details::Cursor;
pub use message::{Message, Role};

/// The limit of messages in a page.
pub const MAX_MESSAGES: usize = 100;

/// A page of this many bytes is full.
const PAGE_BYTES: usize = 1 << 20;

/// How many events are in memory at a time.
const CHUNK: usize = 50;

/// How many events one page reads at most. The next page continues after them.
const MAX_EVENTS_READ: usize = 5000;

#[derive(Debug)]
pub struct Page {
    pub messages: Vec<Message>,
    /// The end of the page, if there is a next one.
    pub next: Option<Cursor>,
}

/// One page of the messages after `after`: at most `limit`, oldest first.
pub async fn read(
    env: &Env,
    summary: &Summary,
    after: Option<Cursor>,
    limit: usize,
) -> Result<Page, StoreError> {
    let limit = limit.clamp(1, MAX_MESSAGES);
    // A cursor points into an event: that event is read again, behind the cursor.
    let (mut known, mut skipped) = match after {
        Some(after) => (after.seq.0.saturating_sub(1), after.item.saturating_add(1)),
        None => (0, 0),
    };
    let (mut messages, mut bytes, mut read) = (Vec::new(), 0, 0);
    while known < summary.head.seq.0 {
        let head = match known {
            0 => Head::genesis(summary.id),
            known => env.store.event(summary.id, Seq(known)).await?.head(),
        };
        let entries = env.store.read(summary.id, head, CHUNK).await?;
        if entries.is_empty() {
            break;
        }
        for entry in entries {
            let long_text = match entry.event.text() {
                Some(text) => journal::load_text(env, text).await?,
                None => String::new(),
            };
            let all = Message::in_page(&entry, &long_text);
            let first = std::mem::take(&mut skipped);
            for (item, message) in all.into_iter().enumerate().skip(first) {
                bytes += message.content.len();
                messages.push(message);
                if messages.len() == limit || bytes >= PAGE_BYTES {
                    let next = Some(Cursor::new(entry.seq, item));
                    return Ok(Page { messages, next });
                }
            }
            (known, read) = (entry.seq.0, read + 1);
        }
        if read >= MAX_EVENTS_READ {
            let next = Some(Cursor::new(Seq(known), usize::MAX));
            return Ok(Page { messages, next });
        }
    }
    Ok(Page {
        messages,
        next: None,
    })
}
