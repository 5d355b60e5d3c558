//! `segno serve` and `segno __run` as processes of a sandbox.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::client::{EventStream, Request, Response, connect};
use crate::sandbox::Sandbox;

/// The arguments that start a server on a free port, which prints it as JSON.
pub const SERVE: [&str; 4] = ["serve", "--listen", "127.0.0.1:0", "--json"];

/// A running server. It is killed when it is dropped; its runs are not.
pub struct Serving {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    /// `127.0.0.1:PORT`.
    pub address: String,
}

impl Serving {
    pub fn start(sandbox: &Sandbox) -> Self {
        Self::start_with(sandbox, &[])
    }

    pub fn start_with(sandbox: &Sandbox, more: &[&str]) -> Self {
        Self::of(sandbox.command(&[&SERVE, more].concat()))
    }

    /// The server that this command starts.
    pub fn of(command: Command) -> Self {
        Self::with_stderr(command, Stdio::piped())
    }

    /// The same, with this file for what it prints about requests.
    pub fn with_stderr(mut command: Command, stderr: Stdio) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let line: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("no address: {line}"));
        let urls = line["urls"].as_array().unwrap();
        let url = urls.last().unwrap().as_str().unwrap();
        Self {
            child,
            _stdout: stdout,
            address: url.split_once("://").unwrap().1.to_owned(),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// What the server prints about requests.
    pub fn stderr(&mut self) -> ChildStderr {
        self.child.stderr.take().unwrap()
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until the process has ended, and returns its exit code.
    pub fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Kills the process, unless it has ended.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a request and reads the whole answer.
    pub fn send(&self, request: &Request) -> Response {
        let stream = request.send(&self.address).unwrap();
        Response::read(&mut BufReader::new(stream)).unwrap()
    }

    /// Sends a request to a server that may die of it.
    pub fn send_to_nobody(&self, request: &Request) {
        let mut stream = request.send(&self.address).unwrap();
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }

    /// Follows the events that this request asks for.
    pub fn follow(&self, request: Request) -> EventStream {
        EventStream::open(&self.address, request).unwrap()
    }

    pub fn connect(&self) -> TcpStream {
        connect(&self.address).unwrap()
    }

    pub fn get(&self, token: &str, path: &str) -> Response {
        self.send(&Request::get(path).token(token))
    }

    pub fn post(&self, token: &str, path: &str, body: &Value) -> Response {
        self.send(&Request::post(path, body).token(token))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A new token of this scope.
pub fn token(sandbox: &Sandbox, scope: &str) -> String {
    let name = format!("test-{scope}");
    let words = ["token", "create", &name, "--scope", scope];
    let output = sandbox.segno(&words).expect_success();
    output.stdout.trim().to_owned()
}

/// The processes that run sessions of this sandbox in the background.
pub fn runs(sandbox: &Sandbox) -> Vec<i32> {
    let is_run = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == b"__run")
    };
    processes(sandbox).into_iter().filter(is_run).collect()
}

/// The processes that use this sandbox's home or work in its workspace: segno, guards and agents.
pub fn processes(sandbox: &Sandbox) -> Vec<i32> {
    let home = format!("SEGNO_HOME={}", sandbox.home().display());
    let is_ours = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        let folder = std::fs::read_link(format!("/proc/{pid}/cwd"));
        variables.any(|variable| variable == home.as_bytes())
            || folder.is_ok_and(|folder| folder.starts_with(sandbox.work()))
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(is_ours).collect()
}
