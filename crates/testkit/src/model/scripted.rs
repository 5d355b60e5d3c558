//! Answers one request from a script: content, wire format, pace, and failures.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::http::{self, ModelRequest};
use super::position::{Manner, Mark, Purpose, position_tag, tag};
use super::response::{self, ModelResponse};
use super::script::{Call, Fault, FaultRepeat, Pace, Script, Turn, Usage};
use super::server::{Ending, State};
use super::{claude, codex};

/// An answer, independent of the vendor.
pub(super) struct Reply {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) thinking: Option<String>,
    pub(super) text: String,
    pub(super) calls: Vec<Call>,
    pub(super) usage: Usage,
}

/// A request that is answered from scripts.
pub(super) struct ScriptedAnswer<'a> {
    pub(super) state: &'a State,
    pub(super) scripts: &'a [Script],
    pub(super) number: usize,
    pub(super) request: &'a ModelRequest,
}

impl ScriptedAnswer<'_> {
    /// Answers the request.
    pub(super) fn send_answer(&self, stream: &mut TcpStream, purpose: &Purpose) -> Ending {
        let named = |name: &str| self.scripts.iter().find(|script| script.name == name);
        let (turn, key) = match purpose {
            Purpose::Probe => return ending(self.probe(stream)),
            Purpose::Side => (Turn::say("{\"title\": \"A scripted conversation\"}"), None),
            Purpose::Unscripted => (Turn::say("No script of this server is named."), None),
            Purpose::Summary { script } => {
                let script = script.as_deref().and_then(named);
                (Turn::say(&summary(self.request, script)), None)
            }
            Purpose::Turn {
                script,
                turn,
                manner,
            } => {
                let found = named(script).expect("the script was found by its name");
                let key = (script.clone(), *turn);
                (scripted_turn(found, *turn, *manner), Some(key))
            }
        };
        let (pace, fault) = (turn.pace, turn.fault);
        if let Pace::Late(pause) = pace {
            thread::sleep(pause);
        }
        let reply = self.reply(stream, turn, key.as_ref().map_or(0, |(_, turn)| *turn));
        let fault = fault.filter(|(_, often)| match (often, &key) {
            (FaultRepeat::First(times), Some(key)) => self.state.failures(key) < *times,
            _ => true,
        });
        match fault {
            Some((fault, _)) => {
                self.fail(stream, &reply, fault);
                Ending::Failed
            }
            None => ending(self.send(stream, &reply, pace, key.as_ref())),
        }
    }

    /// Answers availability checks and token counts.
    fn probe(&self, stream: &mut TcpStream) -> Option<()> {
        let known = self.request.method == "HEAD" || self.request.path.contains("count_tokens");
        let status = if known { "200 OK" } else { "404 Not Found" };
        let head = format!("{status}\r\ncontent-type: application/json");
        let body = json!({"input_tokens": 1000}).to_string();
        http::send_response(stream, self.request, &head, &body)
    }

    fn reply(&self, stream: &TcpStream, turn: Turn, number: usize) -> Reply {
        // Other servers may have answered the same conversation before: their ids must differ.
        let port = stream.local_addr().map_or(0, |own| own.port());
        let usage = Usage {
            input: 1_000 + 100 * number as u64,
            cached: 0,
            output: 50,
        };
        Reply {
            id: format!("{port}x{}", self.number),
            model: self.request.body["model"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            thinking: turn.thinking,
            text: turn.text,
            calls: turn.calls,
            usage: turn.usage.unwrap_or(usage),
        }
    }

    fn send(
        &self,
        stream: &mut TcpStream,
        reply: &Reply,
        pace: Pace,
        key: Option<&(String, usize)>,
    ) -> Option<()> {
        if self.request.body["stream"] != true {
            let head = "200 OK\r\ncontent-type: application/json";
            return http::send_response(stream, self.request, head, &claude::message(reply));
        }
        let pieces = pieces(self.request, reply);
        stream.write_all(STREAM.as_bytes()).ok()?;
        let half = pieces.len() / 2;
        for (number, piece) in pieces.iter().enumerate() {
            match (key, pace) {
                (Some(key), Pace::Held) if number == half => self.state.hold(key)?,
                (_, Pace::Slow(pause)) => thread::sleep(pause),
                _ => {}
            }
            send_piece(stream, piece)?;
        }
        send_piece(stream, "")
    }

    fn fail(&self, stream: &mut TcpStream, reply: &Reply, fault: Fault) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_secs());
        let refusal = if self.request.path.contains("/messages") {
            claude::refusal(fault, now)
        } else {
            codex::refusal(fault, now)
        };
        if let Some((status, headers, body)) = refusal {
            let head = format!("{status}\r\n{headers}content-type: application/json");
            http::send_response(stream, self.request, &head, &body.to_string());
        } else if fault == Fault::Cut && stream.write_all(STREAM.as_bytes()).is_ok() {
            let pieces = pieces(self.request, reply);
            for piece in &pieces[..pieces.len() / 2] {
                let _ = send_piece(stream, piece);
            }
        }
    }
}

const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn ending(sent: Option<()>) -> Ending {
    sent.map_or(Ending::Abandoned, |()| Ending::Whole)
}

/// Writes a chunk; an empty one ends the body.
fn send_piece(stream: &mut TcpStream, piece: &str) -> Option<()> {
    let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
    stream.write_all(chunk.as_bytes()).ok()
}

fn pieces(request: &ModelRequest, reply: &Reply) -> Vec<String> {
    if request.path.contains("/messages") {
        claude::events(reply)
    } else if request.path.contains("/responses") {
        codex::events(reply)
    } else {
        vec![response::openai_events(&ModelResponse::Text(
            reply.text.clone(),
        ))]
    }
}

/// The content of a turn, with the tag by which it is recognized afterwards.
fn scripted_turn(script: &Script, number: usize, manner: Manner) -> Turn {
    let mut turn = script.turns[number].clone();
    let mark = match manner {
        Manner::Repairing => Mark::Again,
        Manner::Plain | Manner::Careful => Mark::Said,
    };
    match manner {
        Manner::Plain => {}
        Manner::Careful => turn.calls = turn.calls.iter().map(Call::careful).collect(),
        Manner::Repairing => {
            turn = Turn {
                calls: script.repair_calls(number),
                pace: turn.pace,
                ..Turn::say("I make sure of it.")
            }
        }
    }
    let tag = tag(&script.name, number, mark);
    turn.text = if turn.text.contains(Turn::TAG) {
        turn.text.replace(Turn::TAG, &tag)
    } else {
        format!("{} {tag}", turn.text)
    };
    turn
}

/// A summary that contains the position in the script.
fn summary(request: &ModelRequest, script: Option<&Script>) -> String {
    let Some(script) = script else {
        return "<summary>Nothing was done.</summary>".to_owned();
    };
    let marker = script.marker();
    let stood = position_tag(request, script).unwrap_or_default();
    format!("<summary>The task is {marker}. It was done up to here: {stood}</summary>")
}
