//! The newest events of one session, read once for all its readers.
//!
//! A thousand readers of a session want the same event at the same moment. The first one reads it
//! from the journal, the others take it from here. Only one page is kept (P10); a reader that is
//! elsewhere in the journal reads its own.

use std::sync::Arc;
use std::time::Duration;

use segno_core::id::SessionId;
use segno_core::journal::{Head, JournalEvent};
use segno_core::preview::{Preview, replaced_step};
use segno_core::step::Path;
use segno_core::store::Error as StoreError;
use segno_core::time::Timestamp;
use segno_engine::{Env, lease};
use segno_sessions::json;
use tokio::sync::{Mutex, watch};

/// How many events are read at once.
const PAGE: usize = 64;
/// How long a page may be used without a report that the journal grew: a process that was killed may
/// not have reported its last events. The same holds for a preview, whose run may have been killed.
const FRESH: Duration = Duration::from_secs(1);

/// An event as it is sent.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) head: Head,
    pub(super) at: Timestamp,
    /// The event as JSON.
    pub(super) body: Arc<str>,
    /// The step whose preview it replaces.
    pub(super) replaces: Option<Path>,
}

/// How many changes were reported.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Changes {
    pub(super) journal: u64,
    pub(super) previews: u64,
}

/// What a reader gets.
pub(super) struct Page {
    pub(super) lines: Vec<Line>,
    /// Whether the journal may have more events.
    pub(super) has_more: bool,
}

/// A session that streams follow.
pub(super) struct SessionFeed {
    pub(super) session: SessionId,
    changes: watch::Sender<Changes>,
    newest: Mutex<Option<Newest>>,
    preview: Mutex<Option<NewestPreview>>,
}

/// The preview that was read last.
struct NewestPreview {
    /// How many changes had been reported before it was read.
    changes: u64,
    read_at: Duration,
    preview: Option<Arc<Preview>>,
}

/// The page that was read last.
struct Newest {
    /// How many changes had been reported before it was read.
    changes: u64,
    read_at: Duration,
    after: Head,
    lines: Vec<Line>,
    has_more: bool,
}

impl Newest {
    /// The lines after `head`, if this page has them, or if there are none.
    fn after(&self, head: Head) -> Option<Page> {
        let mut heads = std::iter::once(self.after).chain(self.lines.iter().map(|line| line.head));
        let start = heads.position(|known| known == head)?;
        if start == self.lines.len() && self.has_more {
            // They are on the next page.
            return None;
        }
        Some(Page {
            lines: self.lines[start..].to_vec(),
            has_more: self.has_more,
        })
    }
}

impl SessionFeed {
    pub(super) fn new(session: SessionId) -> Self {
        Self {
            session,
            changes: watch::Sender::default(),
            newest: Mutex::default(),
            preview: Mutex::default(),
        }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Changes> {
        self.changes.subscribe()
    }

    pub(super) fn has_readers(&self) -> bool {
        self.changes.receiver_count() > 0
    }

    /// Reports that the journal may have grown.
    pub(super) fn bump(&self) {
        let next = |changes: &mut Changes| changes.journal = changes.journal.wrapping_add(1);
        self.changes.send_modify(next);
    }

    /// Reports that the preview may have changed.
    pub(super) fn bump_preview(&self) {
        let next = |changes: &mut Changes| changes.previews = changes.previews.wrapping_add(1);
        self.changes.send_modify(next);
    }

    /// The preview of the run that is active, read once for all readers.
    pub(super) async fn preview(&self, env: &Env) -> Option<Arc<Preview>> {
        let mut newest = self.preview.lock().await;
        let (changes, now) = (self.changes.borrow().previews, env.clock.elapsed());
        if let Some(known) = &*newest
            && known.changes == changes
            && now.saturating_sub(known.read_at) < FRESH
        {
            return known.preview.clone();
        }
        let preview = self.read_preview(env).await.map(Arc::new);
        *newest = Some(NewestPreview {
            changes,
            read_at: now,
            preview: preview.clone(),
        });
        preview
    }

    async fn read_preview(&self, env: &Env) -> Option<Preview> {
        let preview = env.store.preview(self.session).await.ok()??;
        // A killed run may have left it.
        let lease = env.store.lease(self.session).await.ok()?;
        let is_active = lease.run == preview.run && lease::verdict(env, &lease).is_held();
        is_active.then_some(preview)
    }

    /// The next events after `head`.
    pub(super) async fn read(&self, env: &Env, head: Head) -> Result<Page, StoreError> {
        let mut newest = self.newest.lock().await;
        // Before the journal is read: a change in between makes the next reader read again.
        let (changes, now) = (self.changes.borrow().journal, env.clock.elapsed());
        if let Some(known) = &*newest
            && known.changes == changes
            && now.saturating_sub(known.read_at) < FRESH
            && let Some(page) = known.after(head)
        {
            return Ok(page);
        }
        let events = env.store.read(self.session, head, PAGE).await?;
        let has_more = events.len() == PAGE;
        let line = |event: JournalEvent| Line {
            head: Head {
                seq: event.seq,
                hash: event.hash,
            },
            at: event.at,
            replaces: replaced_step(&event.event).cloned(),
            body: json::entry(self.session, &event).to_string().into(),
        };
        let lines: Vec<Line> = events.into_iter().map(line).collect();
        *newest = Some(Newest {
            changes,
            read_at: now,
            after: head,
            lines: lines.clone(),
            has_more,
        });
        Ok(Page { lines, has_more })
    }
}

#[cfg(test)]
mod tests {
    use segno_core::digest::Digest;
    use segno_core::journal::Seq;

    use super::*;

    fn head(seq: u64) -> Head {
        Head {
            seq: Seq(seq),
            hash: Digest::of(&seq.to_le_bytes()),
        }
    }

    fn page_of_events_4_to_6(has_more: bool) -> Newest {
        let line = |seq| Line {
            head: head(seq),
            at: Timestamp(0),
            body: "{}".into(),
            replaces: None,
        };
        Newest {
            changes: 0,
            read_at: Duration::ZERO,
            after: head(3),
            lines: (4..=6).map(line).collect(),
            has_more,
        }
    }

    #[test]
    fn page_is_used_where_it_continues_a_reader() {
        let count = |has_more, seq| {
            let page = page_of_events_4_to_6(has_more).after(head(seq));
            page.map(|page| (page.lines.len(), page.has_more))
        };
        for has_more in [true, false] {
            assert_eq!(count(has_more, 2), None);
            assert_eq!(count(has_more, 3), Some((3, has_more)));
            assert_eq!(count(has_more, 5), Some((1, has_more)));
            assert_eq!(count(has_more, 7), None);
        }
        // A reader at its end needs the next page, if there is one.
        assert_eq!(count(true, 6), None);
        assert_eq!(count(false, 6), Some((0, false)));
    }
}
