//! `segno serve` through its sockets, as clients use it.

mod audit;
mod compatibility;
mod content;
mod events;
mod guard;
mod idempotency;
mod independent;
mod lifecycle;
mod load;
mod login;
mod metrics;
mod previews;
mod qr;
mod routes;
mod runs;
mod tls;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use segno_testkit::sandbox::{Sandbox, deadline};
use serde_json::Value;

/// A running server. It is killed when it is dropped.
pub(crate) struct Serving {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
}

impl Serving {
    pub(crate) fn start(sandbox: &Sandbox) -> Self {
        Self::start_with(sandbox, &[])
    }

    pub(crate) fn start_with(sandbox: &Sandbox, more: &[&str]) -> Self {
        let words = ["serve", "--listen", "127.0.0.1:0", "--json"];
        Self::of(sandbox.command(&[&words, more].concat()))
    }

    /// The server that this command starts.
    pub(crate) fn of(mut command: Command) -> Self {
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
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

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// What the server prints about requests.
    pub(crate) fn stderr(&mut self) -> ChildStderr {
        self.child.stderr.take().unwrap()
    }

    /// Waits until the process has ended, and returns its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Sends a request and reads the whole answer.
    pub(crate) fn send(&self, request: &Request) -> Response {
        let mut stream = self.connect();
        stream.write_all(&request.bytes(&self.address)).unwrap();
        Response::read(&mut BufReader::new(stream))
    }

    /// Sends a request to a server that may die of it.
    pub(crate) fn send_to_nobody(&self, request: &Request) {
        let mut stream = self.connect();
        stream.write_all(&request.bytes(&self.address)).unwrap();
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        let limit: Duration = deadline();
        stream.set_read_timeout(Some(limit)).unwrap();
        stream
    }

    pub(crate) fn get(&self, token: &str, path: &str) -> Response {
        self.send(&Request::get(path).token(token))
    }

    pub(crate) fn post(&self, token: &str, path: &str, body: &Value) -> Response {
        self.send(&Request::post(path, body).token(token))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A new token of this scope.
pub(crate) fn token(sandbox: &Sandbox, scope: &str) -> String {
    let name = format!("test-{scope}");
    let words = ["token", "create", &name, "--scope", scope];
    let output = sandbox.segno(&words).expect_success();
    output.stdout.trim().to_owned()
}

/// A request, with the headers that a program sends.
#[derive(Clone)]
pub(crate) struct Request {
    method: String,
    path: String,
    host: Option<String>,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            host: None,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    pub(crate) fn post(path: &str, body: &Value) -> Self {
        let request = Self::new("POST", path).header("Content-Type", "application/json");
        request.body(body.to_string().as_bytes())
    }

    pub(crate) fn body(mut self, body: &[u8]) -> Self {
        body.clone_into(&mut self.body);
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn token(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn host(mut self, host: &str) -> Self {
        self.host = Some(host.to_owned());
        self
    }

    pub(crate) fn bytes(&self, address: &str) -> Vec<u8> {
        let host = self.host.as_deref().unwrap_or(address);
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {host}\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        if !self.body.is_empty() {
            let length = self.body.len().to_string();
            head.extend(["Content-Length: ", &length, "\r\n"]);
        }
        head.push_str("Connection: close\r\n\r\n");
        [head.as_bytes(), &self.body].concat()
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Response {
    /// Reads an answer until the connection is closed.
    pub(crate) fn read(stream: &mut impl BufRead) -> Self {
        let (status, headers) = read_head(stream);
        let mut body = Vec::new();
        // A server that refuses a body closes the connection while we still send.
        let _ = stream.read_to_end(&mut body);
        let chunked = headers
            .iter()
            .any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let body = if chunked { dechunk(&body) } else { body };
        Self {
            status,
            headers,
            body: String::from_utf8(body).unwrap(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

/// Reads the status and the headers, whose names are in lower case.
pub(crate) fn read_head(stream: &mut impl BufRead) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no answer: {line:?}"));
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(':') else {
            return (status, headers);
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

fn dechunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    let mut line = String::new();
    while bytes.read_line(&mut line).is_ok_and(|read| read > 0) {
        let length = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
        content.extend(&bytes[..length]);
        bytes = &bytes[(length + 2).min(bytes.len())..];
        line.clear();
    }
    content
}

/// Reads server-sent events from an open connection.
pub(crate) struct EventStream {
    stream: BufReader<TcpStream>,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StreamedEvent {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl EventStream {
    pub(crate) fn open(serving: &Serving, request: Request) -> Self {
        let mut stream = serving.connect();
        let request = request.header("Accept", "text/event-stream");
        stream.write_all(&request.bytes(&serving.address)).unwrap();
        let mut stream = BufReader::new(stream);
        let (status, headers) = read_head(&mut stream);
        assert_eq!(status, 200, "{headers:?}");
        Self { stream }
    }

    /// The next event; `None` once the server has closed the stream.
    pub(crate) fn next(&mut self) -> Option<StreamedEvent> {
        let mut event = StreamedEvent {
            id: None,
            name: "message".to_owned(),
            data: Value::Null,
        };
        loop {
            let mut line = String::new();
            if !matches!(self.stream.read_line(&mut line), Ok(1..)) {
                return None;
            }
            let line = line.trim_end();
            // Lines of the chunked encoding have no colon.
            match line.split_once(": ") {
                Some(("id", id)) => event.id = Some(id.to_owned()),
                Some(("event", name)) => name.clone_into(&mut event.name),
                Some(("data", data)) => {
                    event.data = serde_json::from_str(data).unwrap();
                    return Some(event);
                }
                _ => {}
            }
        }
    }

    /// The next journal event.
    pub(crate) fn next_event(&mut self) -> Option<StreamedEvent> {
        loop {
            let event = self.next()?;
            if event.name == "message" {
                return Some(event);
            }
        }
    }
}
