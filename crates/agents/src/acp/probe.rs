//! A door for fuzz targets.

use std::path::Path;

use segno_core::agent::Error;
use segno_core::usage::Cost;
use serde_json::Value;

use super::fold::Fold;
use super::leave::{Known, Policy};
use super::rpc::{self, Line, Message};
use super::turn::Outcome;
use super::update::{Tool, Update};
use crate::probe::Heard;

/// What comes of an agent that writes `bytes` while it is asked: what it reports is folded, its
/// questions are answered, and the last answer that says why it stopped ends its turn.
pub fn heard(bytes: &[u8], folder: &Path) -> String {
    let heard = Heard::default();
    let mut fold = Fold::new("agent", Cost::default(), &heard);
    let (mut answered, mut outcome) = (String::new(), None);
    let mut went: Result<(), Error> = Ok(());
    for line in bytes.split(|byte| *byte == b'\n') {
        let Line::Message(message) = rpc::read(line) else {
            continue;
        };
        let update = match message {
            Message::Notice { params, .. } => Some(Update::read(&params["update"])),
            Message::Request { id, params, .. } => {
                let (answer, update) = leave(&params, folder);
                answered += &rpc::answer(&id, Ok(answer)).to_string();
                update
            }
            Message::Answer { outcome: told, .. } => {
                outcome = told.ok().and_then(Outcome::read).or(outcome);
                None
            }
        };
        if let Some(update) = update {
            went = went.and_then(|()| fold.take(update));
        }
    }
    let ended = if let Some(outcome) = outcome {
        went.and_then(|()| fold.finish(&outcome)).map(Some)
    } else {
        fold.end();
        went.map(|()| None)
    };
    heard.with(&(answered, ended))
}

fn leave(params: &Value, folder: &Path) -> (Value, Option<Update>) {
    let Some(tool) = Tool::read(&params["toolCall"]) else {
        return (Value::Null, None);
    };
    let mut known = Known::default();
    known.update(&tool);
    let (answer, granted) = Policy::Edit.answer(&known, folder, &params["options"]);
    (answer, Some(Update::Leave { tool, granted }))
}
