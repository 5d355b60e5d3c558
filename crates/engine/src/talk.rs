//! Summaries of a session's CLI agent conversations, for display.

use std::collections::VecDeque;

use segno_core::companion::{Gauge, Program};
use segno_core::conversation::{Entry, Said, Thread, Utterance};
use segno_core::journal::{Event, Text};
use segno_core::ladder::Rung;
use segno_core::step::Path;

use crate::error::Error;
use crate::pen;
use crate::world::World;

/// How many of the newest journal events are searched for the last message.
const NEWEST: usize = 4;
/// How many characters of the last message are shown.
const SHOWN: usize = 200;

/// A conversation of a CLI agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Talk {
    pub path: Path,
    pub program: Program,
    /// The agent's id of the conversation.
    pub native: String,
    /// The folder that the agent works in.
    pub folder: String,
    /// The resume strategies that continued it, oldest first.
    pub rungs: Vec<Rung>,
    /// The context usage, if it is known.
    pub context: Option<Gauge>,
    /// The agent's last message, shortened to one line.
    pub last: Option<String>,
}

/// Collects conversations from the events of a journal.
#[derive(Default)]
pub(crate) struct Collector {
    talks: Vec<(Talk, VecDeque<Text>)>,
}

impl Collector {
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::AgentOpened(event) => {
                let same = |(talk, _): &&mut (Talk, VecDeque<Text>)| {
                    (&talk.path, &talk.native) == (&event.path, &event.native)
                };
                if let Some((talk, _)) = self.talks.iter_mut().find(same) {
                    talk.rungs.extend(event.rung);
                    talk.folder.clone_from(&event.folder);
                    return;
                }
                let talk = Talk {
                    path: event.path.clone(),
                    program: event.program,
                    native: event.native.clone(),
                    folder: event.folder.clone(),
                    rungs: event.rung.into_iter().collect(),
                    context: None,
                    last: None,
                };
                self.talks.push((talk, VecDeque::new()));
            }
            Event::AgentSaid(event) => {
                let of_step = |(talk, _): &&mut (Talk, VecDeque<Text>)| talk.path == event.path;
                let Some((talk, said)) = self.talks.iter_mut().rev().find(of_step) else {
                    return;
                };
                talk.context = event.context.or(talk.context);
                said.push_back(event.entries.clone());
                if said.len() > NEWEST {
                    said.pop_front();
                }
            }
            _ => {}
        }
    }

    /// The conversations, each with its last message.
    pub(crate) async fn finish(self, world: &World) -> Result<Vec<Talk>, Error> {
        let mut talks = Vec::new();
        for (mut talk, said) in self.talks {
            for text in said.iter().rev() {
                let text = pen::recall(world, text).await?;
                let entries: Vec<Entry> = serde_json::from_str(&text).unwrap_or_default();
                talk.last = entries.iter().rev().find_map(last_message);
                if talk.last.is_some() {
                    break;
                }
            }
            talks.push(talk);
        }
        Ok(talks)
    }
}

fn last_message(entry: &Entry) -> Option<String> {
    let Said::Assistant { parts, .. } = &entry.said else {
        return None;
    };
    let text = parts.iter().rev().find_map(|part| match part {
        Utterance::Text { text } if !text.trim().is_empty() => Some(text),
        _ => None,
    });
    let text = text.filter(|_| entry.thread == Thread::Main)?;
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(SHOWN) {
        line.truncate(end);
        line.push('…');
    }
    Some(line)
}
