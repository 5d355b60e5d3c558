//! A fuzzing entry point.

use std::path::Path;

use segno_core::agent::{Error, RefusalReason};
use segno_core::usage::Cost;
use serde_json::Value;

use super::fold::Fold;
use super::permissions::{Policy, ToolCallInfo};
use super::turn::Outcome;
use super::update::{Tool, Update};
use crate::json_rpc::{self, Line, Message};
use crate::probe::EventLog;

/// Feeds `bytes` as the output of an agent during a prompt: folds its updates, answers its
/// requests, and ends the turn with the last response that has a stop reason.
pub fn parse_stream(bytes: &[u8], folder: &Path) -> String {
    let log = EventLog::default();
    let mut fold = Fold::new("agent", Cost::default(), RefusalReason::Permissions, &log);
    let (mut answered, mut outcome) = (String::new(), None);
    let mut result: Result<(), Error> = Ok(());
    for line in bytes.split(|byte| *byte == b'\n') {
        let Line::Message(message) = json_rpc::read(line) else {
            continue;
        };
        let update = match message {
            Message::Notification { params, .. } => Some(Update::read(&params["update"])),
            Message::Request { id, params, .. } => {
                let (answer, update) = answer_permission(&params, folder);
                answered += &json_rpc::response(&id, Ok(answer)).to_string();
                update
            }
            Message::Response { outcome: value, .. } => {
                outcome = value.ok().and_then(Outcome::read).or(outcome);
                None
            }
        };
        if let Some(update) = update {
            result = result.and_then(|()| fold.handle(update));
        }
    }
    let ended = if let Some(outcome) = outcome {
        result.and_then(|()| fold.finish(&outcome)).map(Some)
    } else {
        fold.end();
        result.map(|()| None)
    };
    log.with_outcome(&(answered, ended))
}

fn answer_permission(params: &Value, folder: &Path) -> (Value, Option<Update>) {
    let Some(tool) = Tool::read(&params["toolCall"]) else {
        return (Value::Null, None);
    };
    let mut known = ToolCallInfo::default();
    known.update(&tool);
    let (answer, granted) = Policy::Edit.answer(&known, folder, &params["options"]);
    (answer, Some(Update::Permission { tool, granted }))
}
