//! `segno mcp`, the MCP server for agents, over its stdin and stdout.

mod agents;
mod hostile;
mod independent_client;
mod protocol;
mod running;
mod snippets;
mod state;
mod tools;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use segno_testkit::sandbox::{Sandbox, wait_until};
use serde_json::{Value, json};

/// A client that talks to a server line by line.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    asked: u64,
}

impl Client {
    fn start(sandbox: &Sandbox, words: &[&str]) -> Self {
        Self::spawn(sandbox.command(&[&["mcp"], words].concat()))
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            asked: 0,
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    /// Reads the next line, which is a message.
    #[track_caller]
    fn receive(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "it has ended");
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a request, and returns the whole answer.
    #[track_caller]
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(format!("{request}\n").as_bytes());
        let answer = self.receive();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// The text that a tool returns, and whether the call failed.
    #[track_caller]
    fn call_raw(&mut self, tool: &str, given: &Value) -> (String, bool) {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": given}));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("{answer}")).to_owned();
        (text, result["isError"] == true)
    }

    /// The result of a call that must succeed.
    #[track_caller]
    fn call(&mut self, tool: &str, given: &Value) -> Value {
        let (text, failed) = self.call_raw(tool, given);
        assert!(!failed, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// The error text of a call that must fail.
    #[track_caller]
    fn refused(&mut self, tool: &str, given: &Value) -> String {
        let (text, failed) = self.call_raw(tool, given);
        assert!(failed, "{text}");
        text
    }

    /// The text of a resource.
    #[track_caller]
    fn read(&mut self, name: &str) -> String {
        let uri = format!("segno://session/{name}");
        let answer = self.ask("resources/read", &json!({"uri": uri}));
        let text = answer["result"]["contents"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Closes stdin; the server must exit successfully.
    #[track_caller]
    fn end(mut self) {
        drop(self.stdin.take());
        self.assert_exits();
    }

    #[track_caller]
    fn assert_exits(&mut self) {
        let mut status = None;
        wait_until("the server has ended", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success(), "{status:?}");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a session called `chain` to its end.
fn completed_session(sandbox: &Sandbox, steps: usize) {
    sandbox.scripted_chain(steps, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
}

/// The notes of a session, as `note list` prints them.
fn notes(sandbox: &Sandbox, session: &str) -> Vec<Value> {
    let words = ["note", "list", session, "--json", "--all"];
    sandbox.segno(&words).expect_success().json()
}
