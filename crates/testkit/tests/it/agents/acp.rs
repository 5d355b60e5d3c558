//! The adapters of the Agent Client Protocol over both agents.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;

use segno_testkit::model::{ModelServer, files, standard, standard_files};
use segno_testkit::programs::{Program, Stage};
use segno_testkit::sandbox::DEADLINE;
use serde_json::{Value, json};

/// A client that allows everything once.
struct Client {
    child: Child,
    stdin: ChildStdin,
    lines: mpsc::Receiver<Value>,
    seen: Vec<Value>,
    asked: u64,
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    fn start(stage: &Stage, program: Program) -> Self {
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

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let line = match self.lines.recv_timeout(DEADLINE) {
                Ok(line) => line,
                Err(error) => panic!("{method}: {error}; so far: {:#?}", self.seen),
            };
            self.seen.push(line.clone());
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

fn plays_the_standard_script(program: Program) {
    let server = ModelServer::scripted([standard()]);
    let stage = Stage::new(&server);
    let mut client = Client::start(&stage, program);
    let hello = json!({"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false}});
    let hello = client.ask("initialize", &hello);
    assert_eq!(hello["agentInfo"]["version"], program.version());
    let new = client.ask(
        "session/new",
        &json!({"cwd": stage.work(), "mcpServers": []}),
    );
    let session = new["sessionId"].as_str().unwrap();
    let prompt = format!("Do the task. {}", standard().marker());
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": prompt}]});
    let end = client.ask("session/prompt", &prompt);
    assert_eq!(end["stopReason"], "end_turn", "{:#?}", client.seen);
    assert_eq!(files(&stage.work()), standard_files());
    assert_eq!(server.paid("standard"), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(server.mended("standard"), [0; 0]);
}

#[test]
fn the_adapter_of_claude_code_plays_the_standard_script() {
    plays_the_standard_script(Program::ClaudeAcp);
}

#[test]
fn the_adapter_of_codex_plays_the_standard_script() {
    plays_the_standard_script(Program::CodexAcp);
}
