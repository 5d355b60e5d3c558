//! Details of a session's past on demand, by category, newest first, a page at a time.
//!
//! A summary says what there is; whoever goes on asks here for what they need of it. Pages are bounded
//! in number and in length (P10), so that no history is too long to be asked for.

mod back;
mod item;

use std::str::FromStr;

use segno_core::journal::Seq;
use segno_core::memo::Memo;
use segno_core::session::Summary;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::world::World;
use crate::{memos, reconcile};
pub use item::{Git, Item, Kept, Said, Step};

/// The most items of a page.
pub const MOST: usize = 100;

/// From how many bytes on a page takes nothing more.
const FULL: usize = 32 << 10;

/// What there are details of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// What was decided, and why.
    Decisions,
    /// What went wrong, and what became of it.
    Errors,
    /// What reviewers said.
    Feedback,
    /// What is to do.
    Todos,
    /// How the tests stand.
    Tests,
    /// How the repository stands.
    GitChanges,
    /// Which steps were done, and which failed.
    Steps,
    /// What was asked, answered and said.
    Conversation,
}

impl Category {
    /// All of them.
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

    /// Its name.
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

/// Where a page begins: before the item of this number in this entry of the journal, or, where there
/// are no entries, before the item of this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    seq: Seq,
    item: usize,
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
            .ok_or("a cursor is what `next` of the page before says")?;
        let seq = Seq(seq);
        Ok(Self { seq, item })
    }
}

/// Some of what there is.
#[derive(Debug)]
pub struct Page {
    /// The items, newest first.
    pub items: Vec<Item>,
    /// Where the next page begins, if there is one.
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

/// How much there is room for.
struct Room {
    items: usize,
    bytes: usize,
}

impl Room {
    fn new(limit: usize) -> Self {
        Self {
            items: limit.clamp(1, MOST),
            bytes: FULL,
        }
    }

    fn is_left(&self) -> bool {
        self.items > 0 && self.bytes > 0
    }

    fn take(&mut self, item: &Item) {
        let long = serde_json::to_string(item).map_or(0, |text| text.len());
        self.items -= 1;
        self.bytes = self.bytes.saturating_sub(long);
    }
}

/// A page of one category: at most `limit` items, from `cursor` or the newest on.
pub async fn read(
    world: &World,
    summary: &Summary,
    category: Category,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<Page, Error> {
    let room = Room::new(limit);
    let handoff = match category {
        Category::Steps => return back::page(world, summary, cursor, room, item::steps).await,
        Category::Conversation => {
            return back::page(world, summary, cursor, room, item::said).await;
        }
        Category::GitChanges => return git_changes(world, summary).await,
        _ => memos::handoff(world, summary).await?,
    };
    let all: Vec<Item> = match category {
        Category::Decisions => item::kept(&handoff.decisions, Memo::Decision),
        Category::Errors => item::kept(&handoff.errors, Memo::Error),
        Category::Feedback => item::kept(&handoff.feedback, Memo::Feedback),
        Category::Todos => {
            let list = handoff.list.iter().map(|kept| item::one(kept, Memo::Todos));
            let single = item::kept(&handoff.todos, Memo::Todo);
            list.chain(single).collect()
        }
        Category::Tests => {
            let tests = handoff.tests.iter();
            tests.map(|kept| item::one(kept, Memo::Tests)).collect()
        }
        Category::GitChanges | Category::Steps | Category::Conversation => Vec::new(),
    };
    Ok(of_memos(all, cursor, room))
}

/// Memos are few: their cursor counts them from the oldest.
fn of_memos(mut all: Vec<Item>, cursor: Option<Cursor>, mut room: Room) -> Page {
    if let Some(cursor) = cursor {
        all.truncate(cursor.item);
    }
    let mut items = Vec::new();
    while room.is_left()
        && let Some(item) = all.pop()
    {
        room.take(&item);
        items.push(item);
    }
    let next = (!all.is_empty()).then_some(Cursor {
        seq: Seq(0),
        item: all.len(),
    });
    Page { items, next }
}

/// How the repository of the workspace stands now, and what it was when the session was last left.
async fn git_changes(world: &World, summary: &Summary) -> Result<Page, Error> {
    let folder = std::path::Path::new(&summary.workspace);
    let state = crate::history::look(world, summary.id).await?;
    let sight = reconcile::look(world, folder, state.began()).await;
    let Some(git) = item::git(&sight, state.seen.as_ref()) else {
        return Ok(Page::empty());
    };
    Ok(Page {
        items: vec![Item::Git(git)],
        next: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_as_it_was_and_nothing_else_is_one() {
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
    fn every_category_is_written_as_it_is_called() {
        for category in Category::ALL {
            let text = serde_json::to_value(category).unwrap();
            assert_eq!(text, category.as_str());
        }
    }
}
