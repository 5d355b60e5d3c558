//! The records that a repair adds to Claude Code's transcript.

use segno_core::conversation::UNKNOWN_OUTCOME;
use serde::Serialize;
use serde_json::{Value, json};

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

/// A record in the order in which the program writes its fields: it looks for the first one.
#[derive(Serialize)]
struct Record<'a> {
    #[serde(rename = "parentUuid")]
    parent: Option<&'a str>,
    #[serde(rename = "isSidechain")]
    side: bool,
    #[serde(rename = "agentId", skip_serializing_if = "Option::is_none")]
    agent: Option<&'a Value>,
    #[serde(rename = "type")]
    sort: &'a str,
    #[serde(flatten)]
    said: Said<'a>,
    uuid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<&'a Value>,
    #[serde(rename = "userType", skip_serializing_if = "Option::is_none")]
    user_type: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entrypoint: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a Value>,
    #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
    session: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a Value>,
    #[serde(rename = "gitBranch", skip_serializing_if = "Option::is_none")]
    git_branch: Option<&'a Value>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Said<'a> {
    Message {
        message: Value,
    },
    Note {
        subtype: &'a str,
        level: &'a str,
        content: &'a str,
    },
}

/// A record beside another one.
fn beside<'a>(
    record: &'a Object,
    parent: Option<&'a str>,
    uuid: String,
    sort: &'a str,
    said: Said<'a>,
) -> Vec<u8> {
    let made = Record {
        parent,
        side: record.get("isSidechain") == Some(&Value::Bool(true)),
        agent: record.get("agentId"),
        sort,
        said,
        uuid,
        timestamp: record.get("timestamp"),
        user_type: record.get("userType"),
        entrypoint: record.get("entrypoint"),
        cwd: record.get("cwd"),
        session: record.get("sessionId"),
        version: record.get("version"),
        git_branch: record.get("gitBranch"),
    };
    serde_json::to_vec(&made).expect("a record has only texts for keys")
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
