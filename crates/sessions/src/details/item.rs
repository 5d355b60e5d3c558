//! The items of a page.

use segno_core::checkpoint::{Manifest, Repository};
use segno_core::handoff::{NoteList, StoredNote};
use segno_core::journal::{Event, JournalEvent, Seq, WorkspaceStatusRecorded};
use segno_core::note::{Note, NoteId, Source};
use segno_core::snapshot::WorkspaceStatus;
use segno_core::step::Path;
use segno_core::time::Timestamp;
use segno_core::usage::Usage;
use segno_engine::resume::drift;
use serde::{Serialize, Serializer};

use crate::messages::{self, Author};

/// The limit of characters of a text.
const MAX_TEXT: usize = 2000;

/// The limit of listed files.
const MAX_FILES: usize = 200;

/// As in all JSON for programs and people.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn as_text<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Item {
    Note(NoteItem),
    Step(Step),
    Message(Message),
    Git(Box<Git>),
}

/// A current note and its metadata.
#[derive(Debug, Serialize)]
pub struct NoteItem {
    pub note: Option<NoteId>,
    /// The time of the last correction, or of the note.
    #[serde(serialize_with = "as_text")]
    pub at: Timestamp,
    /// The kind of author.
    pub source: Source,
    pub by: String,
    /// The step that the note is about.
    pub step: Option<Path>,
    /// The journal event with the note.
    pub entry: Seq,
    pub says: Note,
}

#[derive(Debug, Serialize)]
pub struct Step {
    pub step: Path,
    #[serde(serialize_with = "as_text")]
    pub at: Timestamp,
    /// The journal event.
    pub entry: Seq,
    pub outcome: Outcome,
    /// The answer or the error, shortened.
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Finished,
    Failed,
    /// The run was lost, so the outcome is not known.
    Unknown,
}

#[derive(Debug, Serialize)]
pub struct Message {
    #[serde(serialize_with = "as_text")]
    pub at: Timestamp,
    pub step: Path,
    /// The journal event.
    pub entry: Seq,
    pub who: Author,
    /// Shortened.
    pub text: String,
}

/// The status of the workspace's repository.
#[derive(Debug, Serialize)]
pub struct Git {
    /// Branch, commit, counts of changed files by kind, and the changes of the session.
    pub repository: Repository,
    pub changed: Vec<String>,
    /// How many changed files are not listed.
    pub unnamed: usize,
    /// The differences to the end of the last run, as sentences.
    pub drift: Vec<String>,
}

/// The current notes of a list, oldest first.
pub(super) fn note_items<T: Clone>(list: &NoteList<T>, content: fn(T) -> Note) -> Vec<Item> {
    list.active().map(|kept| note_item(kept, content)).collect()
}

pub(super) fn note_item<T: Clone>(kept: &StoredNote<T>, content: fn(T) -> Note) -> Item {
    Item::Note(NoteItem {
        note: kept.id,
        at: kept.at,
        source: kept.source,
        by: kept.by.clone(),
        step: kept.path.clone(),
        entry: kept.seq,
        says: content(kept.note.clone()),
    })
}

pub(super) fn steps(entry: &JournalEvent, long_text: &str) -> Vec<Item> {
    let (path, outcome, text, usage) = match &entry.event {
        Event::StepFinished(event) => {
            (&event.path, Outcome::Finished, long_text, Some(event.usage))
        }
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
        text: shorten(text),
        usage,
    })]
}

pub(super) fn messages(entry: &JournalEvent, long_text: &str) -> Vec<Item> {
    let Some((step, _)) = entry.event.step() else {
        return Vec::new();
    };
    let mut all = Vec::new();
    messages::for_each_message(&entry.event, entry.at, long_text, |who, at, text| {
        if text.trim().is_empty() {
            return;
        }
        all.push(Item::Message(Message {
            at,
            step: step.clone(),
            entry: entry.seq,
            who,
            text: shorten(text),
        }));
    });
    all
}

pub(super) fn git(status: &WorkspaceStatus, seen: Option<&WorkspaceStatusRecorded>) -> Option<Git> {
    Some(Git {
        repository: status.repository.clone()?,
        changed: status.changed.iter().take(MAX_FILES).cloned().collect(),
        unnamed: status.changed.len().saturating_sub(MAX_FILES),
        drift: seen.map_or_else(Vec::new, |seen| drift::drift(seen, status)),
    })
}

/// The repositories of a checkpoint.
pub(super) fn git_at(manifest: &Manifest) -> Vec<Item> {
    let git = |repository: &Repository| {
        let names = &repository.names;
        let counts = [
            repository.staged,
            repository.modified,
            repository.untracked,
            repository.conflicted,
        ];
        let lists = [
            &names.staged,
            &names.modified,
            &names.untracked,
            &names.conflicted,
        ];
        let unnamed = counts.iter().zip(lists).map(|(count, names)| {
            let count = usize::try_from(*count).unwrap_or(usize::MAX);
            count.saturating_sub(names.len())
        });
        let uncommitted = names.uncommitted().into_iter();
        Item::Git(Box::new(Git {
            unnamed: unnamed.sum(),
            changed: uncommitted.map(str::to_owned).collect(),
            drift: Vec::new(),
            repository: repository.clone(),
        }))
    };
    manifest.repositories.iter().map(git).collect()
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
