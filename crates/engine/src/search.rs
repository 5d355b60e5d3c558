//! Finding what was asked, answered and said, in all sessions at once.
//!
//! Journals are read a few entries at a time, and only the newest finds are held (P10).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::{Path as Folder, PathBuf};

use segno_core::id::{Name, SessionId};
use segno_core::journal::{Entry, Event, Head, Seq};
use segno_core::session::Summary;
use segno_core::step::Path;
use segno_core::store::Error as StoreError;
use segno_core::time::Timestamp;

use crate::error::Error;
use crate::pen;
use crate::utterances;
use crate::world::World;

pub use crate::utterances::Who;

/// How many entries of a journal are in memory at a time.
const PAGE: usize = 50;
/// How many characters are shown before and after what was found.
const AROUND: usize = 60;

/// What is looked for.
#[derive(Debug, Clone)]
pub struct Query {
    /// The text, whatever its case.
    pub text: String,
    /// Only in this session.
    pub session: Option<SessionId>,
    /// Only in sessions that work in this folder.
    pub folder: Option<PathBuf>,
    /// Only in steps of this agent.
    pub agent: Option<String>,
    /// How many finds are told: the newest.
    pub limit: usize,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Find {
    /// The session.
    pub session: SessionId,
    /// What it is called.
    pub name: Name,
    /// The step.
    pub path: Path,
    /// Who is asked in the step.
    pub agent: String,
    /// Who said it.
    pub who: Who,
    /// When.
    pub at: Timestamp,
    /// The entry of the journal that has it.
    pub seq: Seq,
    /// The words around it, in one line.
    pub snippet: String,
}

/// What came of a search.
#[derive(Debug, Default)]
pub struct Found {
    /// The newest finds, newest first.
    pub finds: Vec<Find>,
    /// How many more there are.
    pub unlisted: u64,
    /// What is wrong with sessions that could not be searched.
    pub damaged: Vec<StoreError>,
}

/// Looks for a text. `progress` is told how many sessions were searched, of how many.
pub async fn search(
    world: &World,
    query: &Query,
    mut progress: impl FnMut(u64, u64),
) -> Result<Found, Error> {
    let (mut sessions, mut damaged) = (Vec::new(), Vec::new());
    for found in world.store.list().await? {
        match found {
            Ok(summary) => sessions.push(summary),
            Err(error) => damaged.push(error),
        }
    }
    let here = |summary: &Summary| {
        let folder = Folder::new(&summary.workspace);
        let meant = query.session.is_none_or(|wanted| summary.id == wanted);
        meant && query.folder.as_ref().is_none_or(|wanted| folder == wanted)
    };
    sessions.retain(here);
    let total = sessions.len() as u64;
    let mut newest = Newest {
        needle: query.text.to_lowercase(),
        agent: query.agent.as_deref(),
        limit: query.limit,
        finds: BinaryHeap::new(),
        count: 0,
    };
    for (done, summary) in (1..).zip(&sessions) {
        match newest.look(world, summary).await {
            Err(Error::Store(error @ StoreError::Damaged { .. })) => damaged.push(error),
            other => other?,
        }
        progress(done, total);
    }
    let count = newest.count;
    let finds = newest.finds.into_sorted_vec();
    let finds: Vec<Find> = finds.into_iter().map(|Reverse(Dated(find))| find).collect();
    Ok(Found {
        unlisted: count - finds.len() as u64,
        finds,
        damaged,
    })
}

/// A find, in the order of time.
#[derive(PartialEq, Eq)]
struct Dated(Find);

impl Dated {
    fn key(&self) -> (Timestamp, SessionId, Seq) {
        (self.0.at, self.0.session, self.0.seq)
    }
}

impl PartialOrd for Dated {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Dated {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// The newest finds so far.
struct Newest<'a> {
    needle: String,
    agent: Option<&'a str>,
    limit: usize,
    finds: BinaryHeap<Reverse<Dated>>,
    count: u64,
}

impl Newest<'_> {
    async fn look(&mut self, world: &World, summary: &Summary) -> Result<(), Error> {
        let mut head = Head::genesis(summary.id);
        let mut agents = BTreeMap::new();
        loop {
            let page = world.store.read(summary.id, head, PAGE).await?;
            let full = page.len() == PAGE;
            for entry in page {
                head = entry.head();
                if let Event::StepStarted(event) = &entry.event {
                    agents.insert(event.path.clone(), event.agent.clone());
                }
                self.read(world, summary, &agents, &entry).await?;
            }
            if !full {
                return Ok(());
            }
        }
    }

    /// Looks at one entry of a journal.
    async fn read(
        &mut self,
        world: &World,
        summary: &Summary,
        agents: &BTreeMap<Path, String>,
        entry: &Entry,
    ) -> Result<(), Error> {
        let Some((path, _)) = entry.event.step() else {
            return Ok(());
        };
        let agent = agents.get(path).map_or("", String::as_str);
        if self.agent.is_some_and(|wanted| wanted != agent) {
            return Ok(());
        }
        let kept = match entry.event.text() {
            Some(text) => pen::recall(world, text).await?,
            None => String::new(),
        };
        let place = Place {
            summary,
            path,
            agent,
            seq: entry.seq,
        };
        utterances::each(&entry.event, entry.at, &kept, |who, at, text| {
            self.hear(&place, who, at, text);
        });
        Ok(())
    }

    /// Takes in what was said, if the text is in it.
    fn hear(&mut self, place: &Place<'_>, who: Who, at: Timestamp, text: &str) {
        let Some(snippet) = snippet(text, &self.needle) else {
            return;
        };
        self.count += 1;
        let find = Find {
            session: place.summary.id,
            name: place.summary.name.clone(),
            path: place.path.clone(),
            agent: place.agent.to_owned(),
            who,
            at,
            seq: place.seq,
            snippet,
        };
        self.finds.push(Reverse(Dated(find)));
        if self.finds.len() > self.limit {
            self.finds.pop();
        }
    }
}

/// Where something was said.
struct Place<'a> {
    summary: &'a Summary,
    path: &'a Path,
    agent: &'a str,
    seq: Seq,
}

/// The words around the first place where a text in lower case is found, in one line.
fn snippet(text: &str, needle: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let place = lower.find(needle)?;
    // Letters may be longer or shorter in lower case, so the place is counted, not taken.
    let mut passed = 0;
    let begin = text.char_indices().find(|(_, letter)| {
        let here = passed >= place;
        passed += letter.to_lowercase().map(char::len_utf8).sum::<usize>();
        here
    });
    let begin = begin.map_or(text.len(), |(at, _)| at);
    let before: Vec<(usize, char)> = text[..begin].char_indices().rev().take(AROUND).collect();
    let from = before.last().map_or(begin, |(at, _)| *at);
    let length = needle.chars().count() + AROUND;
    let rest = &text[begin..];
    let to = rest
        .char_indices()
        .nth(length)
        .map_or(text.len(), |(at, _)| begin + at);
    let line = text[from..to]
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let (head, tail) = (mark(from > 0), mark(to < text.len()));
    Some(format!("{head}{line}{tail}"))
}

fn mark(more: bool) -> &'static str {
    if more { "…" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_is_what_stands_around() {
        assert_eq!(
            snippet("a Turnip\n is red", "turnip"),
            Some("a Turnip is red".into())
        );
        assert_eq!(snippet("a turnip", "beet"), None);
        let long = format!("{} İstanbul Turnip {}", "x ".repeat(100), "y".repeat(200));
        let found = snippet(&long, "turnip").unwrap();
        assert!(found.starts_with('…') && found.ends_with("y…"), "{found}");
        assert!(found.contains("İstanbul Turnip yy"), "{found}");
    }
}
