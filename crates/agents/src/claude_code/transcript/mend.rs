//! The records that a repair adds to Claude Code's transcript.

use segno_core::conversation::UNKNOWN_OUTCOME;
use serde_json::json;

use super::made::{Said, beside};
use crate::transcript::{Closed, Mend, Object, text, uuid};

/// What stands in the place of a record that was broken.
const LOST: &str = "A record of this transcript was damaged and is left out here.";

/// Adds answers and notes. Each takes its time, folder and session from the record beside it.
#[derive(Debug, Default)]
pub(crate) struct Mender {
    /// The record that came last, and in which thread.
    last: Option<String>,
    bridged: Vec<String>,
}

impl Mend for Mender {
    fn bridge(&mut self, record: &Object) -> Option<Vec<u8>> {
        let lost = text(record, "parentUuid")?.to_owned();
        if self.bridged.contains(&lost) {
            return None;
        }
        self.bridged.push(lost.clone());
        let said = Said::Note {
            subtype: "informational",
            level: "warning",
            content: LOST,
        };
        Some(beside(record, self.last.as_deref(), lost, "system", said))
    }

    fn hear(&mut self, record: &Object) {
        if let Some(id) = text(record, "uuid") {
            self.last = Some(id.to_owned());
        }
    }

    fn close(&mut self, record: &Object, calls: &[Closed]) -> Vec<Vec<u8>> {
        let parent = text(record, "uuid");
        let answers = calls.iter().map(|call| {
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
