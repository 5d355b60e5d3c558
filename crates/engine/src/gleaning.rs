//! What a conversation tells by rule, on its way into the journal.
//!
//! Memos stand in the same commit as what they were learnt from, so that a kill separates neither from
//! the other.

use segno_core::conversation::{self, Entry, Outcome, Said, Utterance};
use segno_core::journal::{Event, MemosWritten};
use segno_core::memo::{Handoff, Reader, Source, Written};
use segno_core::model::{ToolCall, ToolResult};
use segno_core::step::Path;
use segno_core::usage::Usage;

use crate::memos;
use crate::world::World;

/// Who finds what no program says in a form of its own.
const RULES: &str = "segno";

/// Reads the conversation of one step.
pub(crate) struct Gleaner {
    reader: Reader,
    /// The agent that speaks.
    agent: String,
    path: Path,
}

impl Gleaner {
    /// One that goes on where others stopped.
    pub(crate) fn new(handoff: &Handoff, agent: &str, path: &Path) -> Self {
        Self {
            reader: Reader::new(handoff),
            agent: agent.to_owned(),
            path: path.clone(),
        }
    }

    /// Hears what led to what is new, and takes nothing down.
    pub(crate) fn catch_up(&mut self, entry: &Entry) {
        self.reader.read(entry);
    }

    /// What entries tell, as the journal has it. They are as they are kept: without secrets.
    pub(crate) fn glean(&mut self, world: &World, entries: &[Entry]) -> Vec<Event> {
        let found = entries.iter().flat_map(|entry| self.reader.read(entry));
        let found: Vec<_> = found.collect();
        // Neighbours by one writer are one entry.
        let groups = found.chunk_by(|one, next| one.0 == next.0);
        let event = |group: &[(Source, Written)]| {
            let source = group[0].0;
            let by = if source == Source::Rule {
                RULES
            } else {
                &self.agent
            };
            let memos = group
                .iter()
                .map(|(_, memo)| memos::clean(world, memo.clone()));
            MemosWritten {
                source,
                by: by.to_owned(),
                path: Some(self.path.clone()),
                memos: memos.collect(),
                read_to: None,
                usage: Usage::default(),
            }
            .into()
        };
        groups.map(event).collect()
    }

    /// What a tool's answer tells.
    pub(crate) fn tool(
        &mut self,
        world: &World,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Vec<Event> {
        let asked = Entry::new(Said::Assistant {
            message: None,
            model: None,
            parts: vec![Utterance::Call(call.clone())],
            usage: None,
        });
        let answered = Entry::new(Said::Result(conversation::Answer {
            id: result.id.clone(),
            parts: vec![conversation::Part::Text {
                text: result.output.clone(),
            }],
            outcome: if result.is_error {
                Outcome::Failed
            } else {
                Outcome::Succeeded
            },
        }));
        self.glean(world, &[asked, answered])
    }
}

/// Whether anything can be learnt from an entry by rule.
pub(crate) fn is_telling(entry: &Entry) -> bool {
    match &entry.said {
        Said::Assistant { parts, .. } => {
            let telling =
                |part: &Utterance| matches!(part, Utterance::Call(_) | Utterance::Raw { .. });
            parts.iter().any(telling)
        }
        Said::Result(_) => true,
        _ => false,
    }
}
