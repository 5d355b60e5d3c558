//! Extracts notes from a conversation by rules, while it is journaled.
//!
//! The notes are in the same commit as the entries that they were extracted from, so that a kill
//! cannot separate them.

use segno_core::conversation::{self, Entry, Outcome, Said, Utterance};
use segno_core::journal::{Event, MemosWritten};
use segno_core::memo::{Handoff, Reader, Source, Written};
use segno_core::model::{ToolCall, ToolResult};
use segno_core::step::Path;
use segno_core::usage::Usage;

use crate::memos;
use crate::world::World;

/// The author of notes that no agent wrote in a form of its own.
const RULES: &str = "segno";

/// Extracts notes from the conversation of one step.
pub(crate) struct Gleaner {
    reader: Reader,
    /// The agent whose conversation it is.
    agent: String,
    path: Path,
}

impl Gleaner {
    /// A reader that knows the notes so far.
    pub(crate) fn new(handoff: &Handoff, agent: &str, path: &Path) -> Self {
        Self {
            reader: Reader::new(handoff),
            agent: agent.to_owned(),
            path: path.clone(),
        }
    }

    /// Reads earlier entries as context, without extracting notes.
    pub(crate) fn catch_up(&mut self, entry: &Entry) {
        self.reader.read(entry);
    }

    /// The notes in the entries, as events. The entries must be redacted.
    pub(crate) fn glean(&mut self, world: &World, entries: &[Entry]) -> Vec<Event> {
        let found = entries.iter().flat_map(|entry| self.reader.read(entry));
        let found: Vec<_> = found.collect();
        // Adjacent notes of one source become one event.
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
                .map(|(_, memo)| memos::redact_and_bound(world, memo.clone()));
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

    /// The notes in the result of a tool call.
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

/// Whether the rules can extract anything from an entry.
pub(crate) fn has_note_source(entry: &Entry) -> bool {
    match &entry.said {
        Said::Assistant { parts, .. } => {
            let is_source =
                |part: &Utterance| matches!(part, Utterance::Call(_) | Utterance::Raw { .. });
            parts.iter().any(is_source)
        }
        Said::Result(_) => true,
        _ => false,
    }
}
