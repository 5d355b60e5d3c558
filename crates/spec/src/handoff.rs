//! `continuity.handoff`: the agent that reads the conversation when a session stops, and extracts
//! notes for the next run.

use std::collections::BTreeMap;
use std::time::Duration;

use super::agents::Agent;
use super::cursor::Cursor;
use super::fields::Keys;

const KEYS: Keys = Keys {
    required: &["reader"],
    optional: &["within_s"],
};

/// The default of `within_s`.
const DEFAULT_WITHIN: Duration = Duration::from_secs(20);

/// The agent that extracts notes from a conversation, and its time limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandoffReader {
    /// An agent of the spec.
    pub reader: String,
    /// The time limit for all of the reading.
    pub within: Duration,
}

impl HandoffReader {
    pub(super) fn read(cursor: &Cursor<'_>, agents: &BTreeMap<String, Agent>) -> Self {
        let fields = cursor.fields(&KEYS);
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
