//! A client of the Agent Client Protocol, as far as tests need one.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;

use serde_json::{Value, json};

use super::{AgentSandbox, Program};
use crate::sandbox::deadline;

/// A line, and its direction.
#[derive(Debug, Clone)]
pub enum Line {
    /// From the client to the agent.
    Sent(Value),
    /// From the agent to the client.
    Received(Value),
}

/// A client that approves every permission request once.
pub struct Client {
    child: Child,
    stdin: ChildStdin,
    lines: mpsc::Receiver<Value>,
    seen: Vec<Line>,
    last_id: u64,
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    /// Starts an adapter.
    pub fn start(stage: &AgentSandbox, program: Program) -> Self {
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
            last_id: 100,
        }
    }

    /// All lines so far.
    pub fn seen(&self) -> &[Line] {
        &self.seen
    }

    /// Initializes the connection and begins a session in the stage's workspace; returns its id.
    #[track_caller]
    pub fn session(&mut self, stage: &AgentSandbox) -> String {
        let none =
            json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
        let hello = json!({"protocolVersion": 1, "clientCapabilities": none});
        self.request("initialize", &hello);
        let workspace = json!({"cwd": stage.work(), "mcpServers": []});
        let session = self.request("session/new", &workspace)["sessionId"].clone();
        session.as_str().unwrap().to_owned()
    }

    /// Sends a prompt and waits until the agent has finished; returns the stop reason.
    #[track_caller]
    pub fn prompt(&mut self, session: &str, text: &str) -> String {
        let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        let end = self.request("session/prompt", &prompt);
        end["stopReason"].as_str().unwrap_or_default().to_owned()
    }

    fn send(&mut self, message: &Value) {
        self.seen.push(Line::Sent(message.clone()));
        writeln!(self.stdin, "{message}").unwrap();
    }

    /// Sends a request and waits for its result.
    #[track_caller]
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
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
