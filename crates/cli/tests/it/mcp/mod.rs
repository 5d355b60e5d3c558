//! The server for agents, over its stdin and stdout.

mod agents;
mod hostile;
mod protocol;
mod reader;
mod running;
mod snippets;
mod tools;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use segno_testkit::sandbox::{Sandbox, until};
use serde_json::{Value, json};

/// Someone who speaks to a server, line by line.
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

    /// The next line, which is a message.
    #[track_caller]
    fn hear(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "it has ended");
        serde_json::from_str(&line).unwrap()
    }

    /// Asks, and returns the whole answer.
    #[track_caller]
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(format!("{request}\n").as_bytes());
        let answer = self.hear();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// What a tool says, and whether it failed.
    #[track_caller]
    fn said(&mut self, tool: &str, given: &Value) -> (String, bool) {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": given}));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("{answer}")).to_owned();
        (text, result["isError"] == true)
    }

    /// What a tool answers that does what it is asked.
    #[track_caller]
    fn call(&mut self, tool: &str, given: &Value) -> Value {
        let (text, failed) = self.said(tool, given);
        assert!(!failed, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// What a tool says that cannot do what it is asked.
    #[track_caller]
    fn refused(&mut self, tool: &str, given: &Value) -> String {
        let (text, failed) = self.said(tool, given);
        assert!(failed, "{text}");
        text
    }

    /// What a resource has.
    #[track_caller]
    fn read(&mut self, name: &str) -> String {
        let uri = format!("segno://session/{name}");
        let answer = self.ask("resources/read", &json!({"uri": uri}));
        let text = answer["result"]["contents"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Asks nothing more; the server must end well.
    #[track_caller]
    fn end(mut self) {
        drop(self.stdin.take());
        self.ended();
    }

    #[track_caller]
    fn ended(&mut self) {
        let mut status = None;
        until("the server has ended", || {
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

/// A session called `chain` that is done.
fn done(sandbox: &Sandbox, steps: usize) {
    sandbox.scripted_chain(steps, 0);
    sandbox.segno(&["run", "chain.yaml"]).good();
}

/// The memos of a session, as they are listed.
fn memos(sandbox: &Sandbox, session: &str) -> Vec<Value> {
    let words = ["note", "list", session, "--json", "--all"];
    sandbox.segno(&words).good().json()
}
