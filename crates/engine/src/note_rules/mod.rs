//! Extracts notes from a conversation by rules, while it is journaled.
//!
//! The notes are in the same commit as the entries that they were extracted from, so that a kill
//! cannot separate them.

mod extractor;

use segno_core::conversation::{self, AssistantPart, ConversationItem, ItemContent, Outcome};
use segno_core::handoff::Handoff;
use segno_core::journal::{Event, NotesWritten};
use segno_core::note::{Source, WrittenNote};
use segno_core::step::Path;
use segno_core::tool::{ToolCall, ToolResult};
use segno_core::usage::Usage;

use crate::env::Env;
use crate::note_events;

pub use extractor::{FoundNotes, NoteExtractor};

/// The author of notes that no agent wrote in a form of its own.
const RULES: &str = "segno";

/// Extracts notes from the conversation of one step.
pub struct StepNotes {
    reader: NoteExtractor,
    /// The agent whose conversation it is.
    agent: String,
    path: Path,
}

impl StepNotes {
    /// A reader that knows the notes so far.
    pub fn new(handoff: &Handoff, agent: &str, path: &Path) -> Self {
        Self {
            reader: NoteExtractor::new(handoff),
            agent: agent.to_owned(),
            path: path.clone(),
        }
    }

    /// Reads earlier entries as context, without extracting notes.
    pub fn read_context(&mut self, entry: &ConversationItem) {
        self.reader.read(entry);
    }

    /// The notes in the entries, as events. The entries must be redacted.
    pub fn extract(&mut self, env: &Env, entries: &[ConversationItem]) -> Vec<Event> {
        let found = entries.iter().flat_map(|entry| self.reader.read(entry));
        let found: Vec<_> = found.collect();
        // Adjacent notes of one source become one event.
        let groups = found.chunk_by(|one, next| one.0 == next.0);
        let event = |group: &[(Source, WrittenNote)]| {
            let source = group[0].0;
            let by = if source == Source::Rule {
                RULES
            } else {
                &self.agent
            };
            let notes = group
                .iter()
                .map(|(_, note)| note_events::redact_and_bound(env, note.clone()));
            NotesWritten {
                source,
                by: by.to_owned(),
                path: Some(self.path.clone()),
                notes: notes.collect(),
                read_to: None,
                usage: Usage::default(),
            }
            .into()
        };
        groups.map(event).collect()
    }

    /// The notes in the result of a tool call.
    pub(crate) fn extract_from_tool(
        &mut self,
        env: &Env,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Vec<Event> {
        let asked = ConversationItem::new(ItemContent::Assistant {
            message: None,
            model: None,
            parts: vec![AssistantPart::Call(call.clone())],
            usage: None,
        });
        let answered = ConversationItem::new(ItemContent::Result(conversation::Answer {
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
        self.extract(env, &[asked, answered])
    }
}

/// Whether the rules can extract anything from an entry.
pub(crate) fn has_note_source(entry: &ConversationItem) -> bool {
    match &entry.content {
        ItemContent::Assistant { parts, .. } => {
            let is_source = |part: &AssistantPart| {
                matches!(part, AssistantPart::Call(_) | AssistantPart::Raw { .. })
            };
            parts.iter().any(is_source)
        }
        ItemContent::Result(_) => true,
        _ => false,
    }
}
