//! Full-text search over prompts, answers and messages of all sessions.
//!
//! Reads journals page by page, and holds only the newest matches (P10).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::{Path as Folder, PathBuf};

use segno_core::id::{Name, SessionId};
use segno_core::journal::{Event, Head, JournalEvent, Seq};
use segno_core::step::Path;
use segno_core::store::{Error as StoreError, Filter, Summary};
use segno_core::time::Timestamp;
use segno_engine::{Env, journal};

use crate::messages;

pub use crate::messages::Author;

/// How many events of a journal are in memory at a time.
const PAGE: usize = 50;
/// How many characters a snippet shows before and after the match.
const SNIPPET_CONTEXT: usize = 60;

#[derive(Debug, Clone)]
pub struct Query {
    /// Case-insensitive.
    pub text: String,
    pub session: Option<SessionId>,
    pub folder: Option<PathBuf>,
    pub agent: Option<String>,
    /// Only the newest matches are returned.
    pub limit: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    pub session: SessionId,
    pub name: Name,
    pub path: Path,
    /// The agent of the step.
    pub agent: String,
    pub who: Author,
    pub at: Timestamp,
    /// The journal event with the message.
    pub seq: Seq,
    /// The text around the match, in one line.
    pub snippet: String,
}

#[derive(Debug, Default)]
pub struct SearchResult {
    /// Newest first.
    pub matches: Vec<Match>,
    /// How many matches are not listed.
    pub not_listed: u64,
    /// The errors of sessions that could not be searched.
    pub damaged: Vec<StoreError>,
}

/// Searches for a text. Calls `progress` with the number of searched sessions, and of all sessions.
pub async fn search(
    env: &Env,
    query: &Query,
    mut progress: impl FnMut(u64, u64),
) -> Result<SearchResult, StoreError> {
    let (mut sessions, mut damaged) = (Vec::new(), Vec::new());
    for found in env.store.list(Filter::default()).await? {
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
    let mut newest = NewestMatches {
        needle: query.text.to_lowercase(),
        agent: query.agent.as_deref(),
        limit: query.limit,
        finds: BinaryHeap::new(),
        count: 0,
    };
    for (done, summary) in (1..).zip(&sessions) {
        match newest.search_session(env, summary).await {
            Err(error @ StoreError::Damaged { .. }) => damaged.push(error),
            other => other?,
        }
        progress(done, total);
    }
    let count = newest.count;
    let finds = newest.finds.into_sorted_vec();
    let finds: Vec<Match> = finds
        .into_iter()
        .map(|Reverse(ByTime(find))| find)
        .collect();
    Ok(SearchResult {
        not_listed: count - finds.len() as u64,
        matches: finds,
        damaged,
    })
}

/// A match, ordered by time.
#[derive(PartialEq, Eq)]
struct ByTime(Match);

impl ByTime {
    fn key(&self) -> (Timestamp, SessionId, Seq) {
        (self.0.at, self.0.session, self.0.seq)
    }
}

impl PartialOrd for ByTime {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByTime {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// The newest matches so far.
struct NewestMatches<'a> {
    needle: String,
    agent: Option<&'a str>,
    limit: usize,
    finds: BinaryHeap<Reverse<ByTime>>,
    count: u64,
}

impl NewestMatches<'_> {
    async fn search_session(&mut self, env: &Env, summary: &Summary) -> Result<(), StoreError> {
        let mut head = Head::genesis(summary.id);
        let mut agents = BTreeMap::new();
        loop {
            let page = env.store.read(summary.id, head, PAGE).await?;
            let full = page.len() == PAGE;
            for entry in page {
                head = entry.head();
                if let Event::StepStarted(event) = &entry.event {
                    agents.insert(event.path.clone(), event.agent.clone());
                }
                self.read(env, summary, &agents, &entry).await?;
            }
            if !full {
                return Ok(());
            }
        }
    }

    /// Searches one event of a journal.
    async fn read(
        &mut self,
        env: &Env,
        summary: &Summary,
        agents: &BTreeMap<Path, String>,
        entry: &JournalEvent,
    ) -> Result<(), StoreError> {
        let Some((path, _)) = entry.event.step() else {
            return Ok(());
        };
        let agent = agents.get(path).map_or("", String::as_str);
        if self.agent.is_some_and(|wanted| wanted != agent) {
            return Ok(());
        }
        let long_text = match entry.event.text() {
            Some(text) => journal::load_text(env, text).await?,
            None => String::new(),
        };
        let place = MessageLocation {
            summary,
            path,
            agent,
            seq: entry.seq,
        };
        messages::for_each_message(&entry.event, entry.at, &long_text, |who, at, text| {
            self.add_if_match(&place, who, at, text);
        });
        Ok(())
    }

    /// Adds a message to the matches if it contains the text.
    fn add_if_match(
        &mut self,
        place: &MessageLocation<'_>,
        who: Author,
        at: Timestamp,
        text: &str,
    ) {
        let Some(snippet) = snippet(text, &self.needle) else {
            return;
        };
        self.count += 1;
        let find = Match {
            session: place.summary.id,
            name: place.summary.name.clone(),
            path: place.path.clone(),
            agent: place.agent.to_owned(),
            who,
            at,
            seq: place.seq,
            snippet,
        };
        self.finds.push(Reverse(ByTime(find)));
        if self.finds.len() > self.limit {
            self.finds.pop();
        }
    }
}

/// Where a message is: session, step, agent and event.
struct MessageLocation<'a> {
    summary: &'a Summary,
    path: &'a Path,
    agent: &'a str,
    seq: Seq,
}

/// The text around the first match of `needle` (in lower case), in one line.
fn snippet(text: &str, needle: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let place = lower.find(needle)?;
    // The lower-case form of a letter can have another length, so the offset is counted letter by
    // letter.
    let mut passed = 0;
    let begin = text.char_indices().find(|(_, announcement)| {
        let here = passed >= place;
        passed += announcement
            .to_lowercase()
            .map(char::len_utf8)
            .sum::<usize>();
        here
    });
    let begin = begin.map_or(text.len(), |(at, _)| at);
    let before: Vec<(usize, char)> = text[..begin]
        .char_indices()
        .rev()
        .take(SNIPPET_CONTEXT)
        .collect();
    let from = before.last().map_or(begin, |(at, _)| *at);
    let length = needle.chars().count() + SNIPPET_CONTEXT;
    let rest = &text[begin..];
    let to = rest
        .char_indices()
        .nth(length)
        .map_or(text.len(), |(at, _)| begin + at);
    let line = text[from..to]
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let (head, tail) = (ellipsis_if(from > 0), ellipsis_if(to < text.len()));
    Some(format!("{head}{line}{tail}"))
}

fn ellipsis_if(more: bool) -> &'static str {
    if more { "…" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snippet_shows_the_text_around_the_match() {
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
