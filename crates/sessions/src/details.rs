//! Details of a session's history on request: by category, newest first, one page at a time.
//!
//! The resume context summarizes what exists; a new agent requests the details here. Pages are
//! bounded in items and bytes (P10), so a history can have any length.

mod item;
mod reverse;

use std::str::FromStr;

use segno_core::checkpoint::Manifest;
use segno_core::handoff::Handoff;
use segno_core::id::SessionId;
use segno_core::journal::Seq;
use segno_core::note::Note;
use segno_core::session::Status;
use segno_core::store::Summary;
use segno_engine::{Env, history, workspace};
use serde::{Deserialize, Serialize};

use crate::checkpoint::Content;
use crate::notes;

pub use item::{Git, Item, Message, NoteItem, Step};

/// The limit of items in a page.
pub const MAX_ITEMS: usize = 100;

/// A page of this many bytes is full.
const PAGE_BYTES: usize = 32 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    Decisions,
    Errors,
    Feedback,
    Todos,
    Tests,
    GitChanges,
    Steps,
    /// Prompts, answers and messages.
    Conversation,
}

impl Category {
    pub const ALL: [Self; 8] = [
        Self::Decisions,
        Self::Errors,
        Self::Feedback,
        Self::Todos,
        Self::Tests,
        Self::GitChanges,
        Self::Steps,
        Self::Conversation,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Decisions => "decisions",
            Self::Errors => "errors",
            Self::Feedback => "feedback",
            Self::Todos => "todos",
            Self::Tests => "tests",
            Self::GitChanges => "git_changes",
            Self::Steps => "steps",
            Self::Conversation => "conversation",
        }
    }
}

/// Where a page begins: before the item with this index in this journal event; for notes, which
/// have no event, before the item with this index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    pub(crate) seq: Seq,
    pub(crate) item: usize,
}

impl Cursor {
    pub(crate) fn new(seq: Seq, item: usize) -> Self {
        Self { seq, item }
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.seq, self.item)
    }
}

impl FromStr for Cursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = |(seq, item): (&str, &str)| Some((seq.parse().ok()?, item.parse().ok()?));
        let (seq, item) = text
            .split_once('.')
            .and_then(read)
            .ok_or("a cursor is the value of `next` in the previous page")?;
        let seq = Seq(seq);
        Ok(Self { seq, item })
    }
}

#[derive(Debug)]
pub struct Page {
    /// Newest first.
    pub items: Vec<Item>,
    /// The start of the next page, if there is one.
    pub next: Option<Cursor>,
}

impl Page {
    fn empty() -> Self {
        Self {
            items: Vec::new(),
            next: None,
        }
    }
}

/// The items and bytes that still fit into a page.
struct PageBudget {
    items: usize,
    bytes: usize,
}

impl PageBudget {
    fn new(limit: usize) -> Self {
        Self {
            items: limit.clamp(1, MAX_ITEMS),
            bytes: PAGE_BYTES,
        }
    }

    fn has_room(&self) -> bool {
        self.items > 0 && self.bytes > 0
    }

    fn consume(&mut self, item: &Item) {
        let long = serde_json::to_string(item).map_or(0, |text| text.len());
        self.items -= 1;
        self.bytes = self.bytes.saturating_sub(long);
    }
}

/// One page of a category: at most `limit` items, starting at `cursor` or at the newest.
pub async fn read(
    env: &Env,
    summary: &Summary,
    category: Category,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<Page, history::Error> {
    let end = env.store.summary(summary.id).await?.head.seq;
    let handoff = match category {
        Category::GitChanges => return git_changes(env, summary).await,
        Category::Steps | Category::Conversation => Handoff::default(),
        _ => notes::merged(env, summary).await?,
    };
    let known = Known {
        session: summary.id,
        end,
        handoff,
    };
    known.page(env, category, cursor, limit).await
}

/// Like [`read`], as it was at a checkpoint; `None` if its journal is not here.
pub async fn read_at(
    env: &Env,
    manifest: &Manifest,
    category: Category,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<Option<Page>, history::Error> {
    if category == Category::GitChanges {
        return Ok(Some(Page {
            items: item::git_at(manifest),
            next: None,
        }));
    }
    let Some(content) = Content::of(env, manifest).await? else {
        return Ok(None);
    };
    let known = Known {
        session: manifest.session,
        end: manifest.journal.seq,
        handoff: content.handoff,
    };
    known.page(env, category, cursor, limit).await.map(Some)
}

/// What is known of a session up to an event.
struct Known {
    session: SessionId,
    end: Seq,
    handoff: Handoff,
}

impl Known {
    async fn page(
        self,
        env: &Env,
        category: Category,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<Page, history::Error> {
        let budget = PageBudget::new(limit);
        let make = match category {
            Category::Steps => item::steps,
            Category::Conversation => item::messages,
            _ => {
                return Ok(page_of_notes(
                    notes_of(&self.handoff, category),
                    cursor,
                    budget,
                ));
            }
        };
        let range = reverse::Range {
            session: self.session,
            end: self.end,
        };
        Ok(reverse::page(env, range, cursor, budget, make).await?)
    }
}

/// The notes of a category, oldest first.
fn notes_of(handoff: &Handoff, category: Category) -> Vec<Item> {
    match category {
        Category::Decisions => item::note_items(&handoff.decisions, Note::Decision),
        Category::Errors => item::note_items(&handoff.errors, Note::Error),
        Category::Feedback => item::note_items(&handoff.feedback, Note::Feedback),
        Category::Todos => {
            let list = handoff
                .list
                .iter()
                .map(|kept| item::note_item(kept, Note::Todos));
            let single = item::note_items(&handoff.todos, Note::Todo);
            list.chain(single).collect()
        }
        Category::Tests => {
            let tests = handoff.tests.iter();
            tests
                .map(|kept| item::note_item(kept, Note::Tests))
                .collect()
        }
        Category::GitChanges | Category::Steps | Category::Conversation => Vec::new(),
    }
}

/// Pages the notes, which are few: their cursor counts from the oldest.
fn page_of_notes(mut all: Vec<Item>, cursor: Option<Cursor>, mut budget: PageBudget) -> Page {
    if let Some(cursor) = cursor {
        all.truncate(cursor.item);
    }
    let mut items = Vec::new();
    while budget.has_room()
        && let Some(item) = all.pop()
    {
        budget.consume(&item);
        items.push(item);
    }
    let next = (!all.is_empty()).then_some(Cursor {
        seq: Seq(0),
        item: all.len(),
    });
    Page { items, next }
}

/// The current status of the workspace's repository, and how it differs from the end of the last
/// run.
async fn git_changes(env: &Env, summary: &Summary) -> Result<Page, history::Error> {
    let folder = std::path::Path::new(&summary.workspace);
    let state = history::load_state(env, summary.id).await?;
    let status = workspace::workspace_status(env, folder, state.start_commit()).await;
    // While a run is active, its own agents change files.
    let seen = state.workspace_status.as_ref();
    let seen = seen.filter(|_| state.status != Status::Running);
    let Some(git) = item::git(&status, seen) else {
        return Ok(Page::empty());
    };
    Ok(Page {
        items: vec![Item::Git(Box::new(git))],
        next: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_round_trips_and_rejects_other_text() {
        let cursor = Cursor {
            seq: Seq(120),
            item: 3,
        };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for wrong in ["", "7", "7.", ".7", "-1.0", "1.-1", "a.b", "1.2.3"] {
            assert!(wrong.parse::<Cursor>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn category_serializes_as_its_name() {
        for category in Category::ALL {
            let text = serde_json::to_value(category).unwrap();
            assert_eq!(text, category.as_str());
        }
    }
}
