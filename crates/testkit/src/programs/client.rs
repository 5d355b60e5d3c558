//! A client of the Agent Client Protocol, as far as tests need one.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;

use serde_json::{Value, json};

use super::{Program, Stage};
use crate::sandbox::deadline;

/// A line, and who said it.
#[derive(Debug, Clone)]
pub enum Line {
    /// The client.
    Sent(Value),
    /// The agent.
    Received(Value),
}

/// A client that allows everything once.
pub struct Client {
    child: Child,
    stdin: ChildStdin,
    lines: mpsc::Receiver<Value>,
    seen: Vec<Line>,
    asked: u64,
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    /// Starts an adapter.
    pub fn start(stage: &Stage, program: Program) -> Self {
        let mut child = stage
            .command(program, &[])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = send.send(serde_json::from_str(&line).unwrap_or(Value::String(line)));
            }
        });
        Self {
            stdin: child.stdin.take().unwrap(),
            child,
            lines,
            seen: Vec::new(),
            asked: 100,
        }
    }

    /// All that was said so far.
    pub fn seen(&self) -> &[Line] {
        &self.seen
    }

    /// Greets the agent and begins a session in the stage's folder; returns its id.
    #[track_caller]
    pub fn session(&mut self, stage: &Stage) -> String {
        let none =
            json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
        let hello = json!({"protocolVersion": 1, "clientCapabilities": none});
        self.ask("initialize", &hello);
        let place = json!({"cwd": stage.work(), "mcpServers": []});
        let session = self.ask("session/new", &place)["sessionId"].clone();
        session.as_str().unwrap().to_owned()
    }

    /// Gives the agent a prompt and waits until it has done with it; returns the reason it stopped.
    #[track_caller]
    pub fn prompt(&mut self, session: &str, text: &str) -> String {
        let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        let end = self.ask("session/prompt", &prompt);
        end["stopReason"].as_str().unwrap_or_default().to_owned()
    }

    fn send(&mut self, message: &Value) {
        self.seen.push(Line::Sent(message.clone()));
        writeln!(self.stdin, "{message}").unwrap();
    }

    /// Asks, and waits for the answer.
    #[track_caller]
    pub fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let line = match self.lines.recv_timeout(deadline()) {
                Ok(line) => line,
                Err(error) => panic!("{method}: {error}; so far: {:#?}", self.seen),
            };
            self.seen.push(Line::Received(line.clone()));
            if line["method"] == "session/request_permission" {
                let options = line["params"]["options"].as_array().unwrap();
                let once = options.iter().find(|option| option["kind"] == "allow_once");
                let outcome = json!({"outcome": "selected", "optionId": once.unwrap()["optionId"]});
                let answer =
                    json!({"jsonrpc": "2.0", "id": line["id"], "result": {"outcome": outcome}});
                self.send(&answer);
            } else if line["id"] == id {
                assert!(line["error"].is_null(), "{method}: {line}");
                return line["result"].clone();
            }
        }
    }
}
