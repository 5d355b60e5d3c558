//! What pages consist of.

use segno_core::checkpoint::Repository;
use segno_core::journal::{Entry, Event, Seq, WorkspaceSeen};
use segno_core::memo::{self, Memo, MemoId, Shelf, Source};
use segno_core::snapshot::Sight;
use segno_core::step::Path;
use segno_core::time::Timestamp;
use segno_core::usage::Usage;
use serde::Serialize;

use crate::drift;
use crate::utterances::{self, Who};

/// How many characters of a text are shown.
const SHOWN: usize = 2000;

/// How many changed files are named.
const NAMED: usize = 200;

/// One detail.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Item {
    /// A memo.
    Memo(Kept),
    /// What became of a step.
    Step(Step),
    /// Something that was said.
    Said(Said),
    /// How a repository stands.
    Git(Git),
}

/// A memo that holds, and what is known about it.
#[derive(Debug, Serialize)]
pub struct Kept {
    /// Its name, if it has one.
    pub memo: Option<MemoId>,
    /// When it was written or last corrected.
    pub at: Timestamp,
    /// By what sort of writer.
    pub source: Source,
    /// By whom.
    pub by: String,
    /// The step that it is about.
    pub step: Option<Path>,
    /// The entry of the journal that it stands in.
    pub entry: Seq,
    /// What it says.
    pub says: Memo,
}

/// What became of a step.
#[derive(Debug, Serialize)]
pub struct Step {
    /// The step.
    pub step: Path,
    /// When.
    pub at: Timestamp,
    /// The entry of the journal.
    pub entry: Seq,
    /// What.
    pub outcome: Outcome,
    /// Its answer, or why it failed, cut.
    pub text: String,
    /// What it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// How an attempt at a step ended.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is done.
    Finished,
    /// It failed.
    Failed,
    /// Its run was lost, and whether it took effect is not known.
    Unknown,
}

/// Something that was said.
#[derive(Debug, Serialize)]
pub struct Said {
    /// When.
    pub at: Timestamp,
    /// In which step.
    pub step: Path,
    /// The entry of the journal.
    pub entry: Seq,
    /// By whom.
    pub who: Who,
    /// What, cut.
    pub text: String,
}

/// How the repository of a workspace stands.
#[derive(Debug, Serialize)]
pub struct Git {
    /// Branch, commit, how many files differ in which way, and what the session has changed.
    pub repository: Repository,
    /// The files that differ from the commit.
    pub changed: Vec<String>,
    /// How many more differ.
    pub unnamed: usize,
    /// What is different from when the session was last left, in words.
    pub drift: Vec<String>,
}

/// The memos of a shelf that hold, oldest first.
pub(super) fn kept<T: Clone>(shelf: &Shelf<T>, memo: fn(T) -> Memo) -> Vec<Item> {
    shelf.standing().map(|kept| one(kept, memo)).collect()
}

pub(super) fn one<T: Clone>(kept: &memo::Kept<T>, memo: fn(T) -> Memo) -> Item {
    Item::Memo(Kept {
        memo: kept.id,
        at: kept.at,
        source: kept.source,
        by: kept.by.clone(),
        step: kept.path.clone(),
        entry: kept.seq,
        says: memo(kept.memo.clone()),
    })
}

pub(super) fn steps(entry: &Entry, kept: &str) -> Vec<Item> {
    let (path, outcome, text, usage) = match &entry.event {
        Event::StepFinished(event) => (&event.path, Outcome::Finished, kept, Some(event.usage)),
        Event::StepFailed(event) => {
            let text = event.error.message.as_str();
            (&event.path, Outcome::Failed, text, Some(event.usage))
        }
        Event::StepUnknown(event) => (&event.path, Outcome::Unknown, "", None),
        _ => return Vec::new(),
    };
    vec![Item::Step(Step {
        step: path.clone(),
        at: entry.at,
        entry: entry.seq,
        outcome,
        text: cut(text),
        usage,
    })]
}

pub(super) fn said(entry: &Entry, kept: &str) -> Vec<Item> {
    let Some((step, _)) = entry.event.step() else {
        return Vec::new();
    };
    let mut all = Vec::new();
    utterances::each(&entry.event, entry.at, kept, |who, at, text| {
        if text.trim().is_empty() {
            return;
        }
        all.push(Item::Said(Said {
            at,
            step: step.clone(),
            entry: entry.seq,
            who,
            text: cut(text),
        }));
    });
    all
}

pub(super) fn git(sight: &Sight, seen: Option<&WorkspaceSeen>) -> Option<Git> {
    Some(Git {
        repository: sight.repository.clone()?,
        changed: sight.changed.iter().take(NAMED).cloned().collect(),
        unnamed: sight.changed.len().saturating_sub(NAMED),
        drift: seen.map_or_else(Vec::new, |seen| drift::drift(seen, sight)),
    })
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
