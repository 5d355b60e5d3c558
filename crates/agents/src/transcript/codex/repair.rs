//! The records that a repair inserts into a rollout.

use segno_core::conversation::UNKNOWN_OUTCOME;
use serde_json::{Value, json};

use crate::transcript::{Closing, Object, Repairer, text};

/// Appends results at the end of the file, with increasing ordinals.
#[derive(Debug, Default)]
pub(crate) struct CodexRepairer {
    ordinal: Option<u64>,
    timestamp: Option<Value>,
    /// The payloads to append at the end.
    answers: Vec<Value>,
}

impl Repairer for CodexRepairer {
    /// Records of a rollout have no parents; their order links them.
    fn bridge(&mut self, _: &Object, _: &str) -> Option<Vec<u8>> {
        None
    }

    fn observe(&mut self, record: &Object) {
        let ordinal = record.get("ordinal").and_then(Value::as_u64);
        self.ordinal = self.ordinal.max(ordinal);
        if let Some(timestamp) = record.get("timestamp") {
            self.timestamp = Some(timestamp.clone());
        }
    }

    fn close(&mut self, record: &Object, closing: &Closing) -> Vec<Vec<u8>> {
        let payload = record.get("payload").and_then(Value::as_object);
        let kind = match payload.and_then(|payload| text(payload, "type")) {
            Some("custom_tool_call") => "custom_tool_call_output",
            _ => "function_call_output",
        };
        self.answers.extend(
            closing
                .calls
                .iter()
                .map(|call| json!({"type": kind, "call_id": call.id, "output": UNKNOWN_OUTCOME})),
        );
        Vec::new()
    }

    fn end(&mut self) -> Vec<Vec<u8>> {
        let mut ordinal = self.ordinal;
        let answers = std::mem::take(&mut self.answers).into_iter();
        let records = answers.map(|payload| {
            let mut record = Object::new();
            if let Some(timestamp) = &self.timestamp {
                record.insert("timestamp".into(), timestamp.clone());
            }
            if let Some(last) = ordinal {
                ordinal = last.checked_add(1);
                record.insert("ordinal".into(), json!(ordinal));
            }
            record.insert("type".into(), json!("response_item"));
            record.insert("payload".into(), payload);
            Value::Object(record).to_string().into_bytes()
        });
        records.collect()
    }
}
