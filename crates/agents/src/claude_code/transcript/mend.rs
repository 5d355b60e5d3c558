//! The records that a repair adds to Claude Code's transcript.

use std::collections::HashSet;

use segno_core::conversation::UNKNOWN_OUTCOME;
use segno_core::time::Timestamp;
use serde_json::json;

use super::made::{Said, beside};
use super::tree::Newest;
use crate::transcript::{Closing, Mend, Object, moment, text, uuid};

/// What stands in the place of a record that was broken.
const LOST: &str = "A record of this transcript was damaged and is left out here.";

/// Adds answers and notes. Each takes its time, folder and session from the record beside it.
#[derive(Debug, Default)]
pub(crate) struct Mender {
    /// The records in whose place a note stands already.
    bridged: HashSet<String>,
}

impl Mend for Mender {
    fn bridge(&mut self, record: &Object, parent: &str) -> Option<Vec<u8>> {
        let lost = text(record, "parentUuid")?.to_owned();
        if !self.bridged.insert(lost.clone()) {
            return None;
        }
        let said = Said::Note {
            subtype: "informational",
            level: "warning",
            content: LOST,
        };
        Some(beside(record, Some(parent), lost, "system", said))
    }

    fn hear(&mut self, _: &Object) {}

    fn close(&mut self, record: &Object, closing: &Closing) -> Vec<Vec<u8>> {
        let record = &dated(record, closing.newest);
        let parent = text(record, "uuid");
        let answers = closing.calls.iter().map(|call| {
            let message = json!({
                "role": "user",
                "content": [{
                    "type": "tool_result",
                    "tool_use_id": call.id,
                    "content": UNKNOWN_OUTCOME,
                    "is_error": true,
                }],
            });
            let session = text(record, "sessionId").unwrap_or_default();
            let id = uuid(&[
                b"unknown outcome",
                session.as_bytes(),
                parent.unwrap_or_default().as_bytes(),
                call.id.as_bytes(),
            ]);
            beside(record, parent, id, "user", Said::Message { message })
        });
        answers.collect()
    }

    fn end(&mut self) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

/// The record with the time that its answer may have.
fn dated(record: &Object, newest: Newest) -> Object {
    let mut dated = record.clone();
    let own = text(record, "timestamp").and_then(moment);
    match newest {
        Newest::AsCalled => {}
        Newest::Timeless => {
            dated.remove("timestamp");
        }
        Newest::Before(end) => {
            let latest = Timestamp(end.0.saturating_sub(1));
            if own.is_some_and(|own| own > latest) {
                dated.insert("timestamp".to_owned(), json!(latest.to_string()));
            }
        }
    }
    dated
}
