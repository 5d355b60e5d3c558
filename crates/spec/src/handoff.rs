//! `continuity.handoff`: what the next run learns from the runs before it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::agents::Agent;
use super::cursor::Cursor;
use super::fields::{Fields, Keys};

const KEYS: Keys = Keys {
    required: &[],
    optional: &["reader", "within_s", "resume_context"],
};

/// The default of `within_s`.
const DEFAULT_WITHIN: Duration = Duration::from_secs(20);

/// What the next run learns from the runs before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handoff {
    /// The agent that extracts notes from the conversation when a run has stopped.
    pub reader: Option<HandoffReader>,
    /// Whether the first step of each agent after a resume gets the resume context.
    pub resume_context: bool,
}

impl Default for Handoff {
    fn default() -> Self {
        Self {
            reader: None,
            resume_context: true,
        }
    }
}

impl Handoff {
    pub(super) fn read(cursor: &Cursor<'_>, agents: &BTreeMap<String, Agent>) -> Self {
        let fields = cursor.fields(&KEYS);
        let resume_context = fields.get("resume_context");
        let has_reader = fields.get("reader").is_some();
        // A block without effect, or a time limit without a reader, is a mistake.
        let needs_reader = fields.get("within_s").is_some() || resume_context.is_none();
        if cursor.is_map() && needs_reader && !has_reader {
            cursor.invalid("`reader` is missing");
        }
        Self {
            reader: has_reader.then(|| HandoffReader::read(&fields, agents)),
            resume_context: resume_context.is_none_or(|cursor| cursor.boolean()),
        }
    }
}

/// The agent that extracts notes from a conversation, and its time limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandoffReader {
    /// An agent of the spec.
    pub reader: String,
    /// The time limit for all of the reading.
    pub within: Duration,
}

impl HandoffReader {
    fn read(fields: &Fields<'_>, agents: &BTreeMap<String, Agent>) -> Self {
        let reader = fields.read("reader", |cursor| {
            let name = cursor.text();
            if !agents.contains_key(&name) {
                let message = format!("unknown agent `{name}`");
                cursor.unknown(message, &name, agents.keys().map(String::as_str));
            }
            name
        });
        let within = fields.get("within_s");
        Self {
            reader,
            within: within.map_or(DEFAULT_WITHIN, |cursor| {
                Duration::from_secs(cursor.integer(1..=600).into())
            }),
        }
    }
}
