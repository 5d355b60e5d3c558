//! Writes records in the format of Claude Code.

use serde::Serialize;
use serde_json::Value;

use crate::transcript::Object;

/// The fields are in the order in which the program writes them: it looks for the first one.
#[derive(Serialize)]
struct Record<'a> {
    #[serde(rename = "parentUuid")]
    parent: Option<&'a str>,
    #[serde(rename = "isSidechain")]
    side: bool,
    #[serde(rename = "agentId", skip_serializing_if = "Option::is_none")]
    agent: Option<&'a Value>,
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(flatten)]
    body: Body<'a>,
    #[serde(rename = "isMeta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Value>,
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
pub(super) enum Body<'a> {
    Message {
        message: Value,
    },
    Note {
        subtype: &'a str,
        level: &'a str,
        content: &'a str,
    },
}

/// A record with the folder, session and timestamp of another one.
pub(super) fn encode_like<'a>(
    record: &'a Object,
    parent: Option<&'a str>,
    uuid: String,
    kind: &'a str,
    body: Body<'a>,
) -> Vec<u8> {
    let encoded = Record {
        parent,
        side: record.get("isSidechain") == Some(&Value::Bool(true)),
        agent: record.get("agentId"),
        kind,
        body,
        meta: record.get("isMeta"),
        uuid,
        timestamp: record.get("timestamp"),
        user_type: record.get("userType"),
        entrypoint: record.get("entrypoint"),
        cwd: record.get("cwd"),
        session: record.get("sessionId"),
        version: record.get("version"),
        git_branch: record.get("gitBranch"),
    };
    serde_json::to_vec(&encoded).expect("the keys of a record are strings")
}
