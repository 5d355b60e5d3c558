//! The records that a repair inserts into Claude Code's transcript.

use std::collections::HashSet;

use segno_core::conversation::UNKNOWN_OUTCOME;
use segno_core::time::Timestamp;
use serde_json::json;

use super::encode::{Body, encode_like};
use super::tree::LatestResultTime;
use crate::transcript::{Closing, Object, Repairer, text, uuid};

/// The content of the record that replaces a broken one.
const LOST_RECORD: &str = "A damaged record of this transcript was removed here.";

/// Inserts results and replacement records. Each takes its timestamp, folder and session from its
/// neighbour.
#[derive(Debug, Default)]
pub(crate) struct ClaudeCodeRepairer {
    /// The lost records that already have a replacement.
    bridged: HashSet<String>,
}

impl Repairer for ClaudeCodeRepairer {
    fn bridge(&mut self, record: &Object, parent: &str) -> Option<Vec<u8>> {
        let lost = text(record, "parentUuid")?.to_owned();
        if !self.bridged.insert(lost.clone()) {
            return None;
        }
        let body = Body::Note {
            subtype: "informational",
            level: "warning",
            content: LOST_RECORD,
        };
        Some(encode_like(record, Some(parent), lost, "system", body))
    }

    fn observe(&mut self, _: &Object) {}

    fn close(&mut self, record: &Object, closing: &Closing) -> Vec<Vec<u8>> {
        let record = &with_timestamp(record, closing.latest);
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
            encode_like(record, parent, id, "user", Body::Message { message })
        });
        answers.collect()
    }

    fn end(&mut self) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

/// The record with the timestamp that a result of its calls may have.
fn with_timestamp(record: &Object, latest: LatestResultTime) -> Object {
    let mut with_timestamp = record.clone();
    let own = text(record, "timestamp").and_then(Timestamp::parse);
    match latest {
        LatestResultTime::AsCalled => {}
        LatestResultTime::Timeless => {
            with_timestamp.remove("timestamp");
        }
        LatestResultTime::Before(end) => {
            let latest = Timestamp(end.0.saturating_sub(1));
            if own.is_some_and(|own| own > latest) {
                with_timestamp.insert("timestamp".to_owned(), json!(latest.to_string()));
            }
        }
    }
    with_timestamp
}
