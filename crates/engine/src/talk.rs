//! The conversations of a session that agents' programs keep, as a person wants to see them.

use std::collections::VecDeque;

use segno_core::companion::{Gauge, Program};
use segno_core::conversation::{Entry, Said, Thread, Utterance};
use segno_core::journal::{Event, Text};
use segno_core::ladder::Rung;
use segno_core::step::Path;

use crate::error::Error;
use crate::pen;
use crate::world::World;

/// In how many of the newest entries of a journal the last words are looked for.
const NEWEST: usize = 4;
/// How many characters of the last words are shown.
const SHOWN: usize = 200;

/// A conversation that an agent's program keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Talk {
    /// The step.
    pub path: Path,
    /// The program.
    pub program: Program,
    /// Its name for the conversation.
    pub native: String,
    /// The folder that it works in.
    pub folder: String,
    /// The ways in which it was gone on with.
    pub rungs: Vec<Rung>,
    /// How full the model's context is, if that is known.
    pub context: Option<Gauge>,
    /// What the agent said last, shortened to a line.
    pub last: Option<String>,
}

/// What was heard of conversations so far.
#[derive(Default)]
pub(crate) struct Heard {
    talks: Vec<(Talk, VecDeque<Text>)>,
}

impl Heard {
    pub(crate) fn take(&mut self, event: &Event) {
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

    /// The conversations, each with its last words.
    pub(crate) async fn talks(self, world: &World) -> Result<Vec<Talk>, Error> {
        let mut talks = Vec::new();
        for (mut talk, said) in self.talks {
            for text in said.iter().rev() {
                let text = pen::recall(world, text).await?;
                let entries: Vec<Entry> = serde_json::from_str(&text).unwrap_or_default();
                talk.last = entries.iter().rev().find_map(last_words);
                if talk.last.is_some() {
                    break;
                }
            }
            talks.push(talk);
        }
        Ok(talks)
    }
}

fn last_words(entry: &Entry) -> Option<String> {
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
