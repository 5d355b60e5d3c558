//! A client of `segno serve`, written without a library: it sees every byte, also those of a server
//! that dies while it answers.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::sandbox::deadline;

/// A request, with the headers that a program sends.
#[derive(Clone)]
pub struct Request {
    method: String,
    path: String,
    host: Option<String>,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    pub fn new(method: &str, path: &str) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            host: None,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    pub fn post(path: &str, body: &Value) -> Self {
        let request = Self::new("POST", path).header("Content-Type", "application/json");
        request.body(body.to_string().as_bytes())
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same request with another method.
    pub fn method(mut self, method: &str) -> Self {
        method.clone_into(&mut self.method);
        self
    }

    /// The same request to another path.
    pub fn at(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    pub fn body(mut self, body: &[u8]) -> Self {
        body.clone_into(&mut self.body);
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn token(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub fn host(mut self, host: &str) -> Self {
        self.host = Some(host.to_owned());
        self
    }

    /// The request as it is sent to this address.
    pub fn bytes(&self, address: &str) -> Vec<u8> {
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

    /// Sends it on a new connection, and returns the connection.
    pub fn send(&self, address: &str) -> io::Result<TcpStream> {
        let mut stream = connect(address)?;
        stream.write_all(&self.bytes(address))?;
        Ok(stream)
    }
}

/// A new connection, which waits for as long as a test does.
pub fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(deadline()))?;
    Ok(stream)
}

/// An answer.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Response {
    /// Reads an answer until the connection is closed. A body that is cut off is an error.
    pub fn read(stream: &mut impl BufRead) -> io::Result<Self> {
        let (status, headers) = read_head(stream)?;
        let mut body = Vec::new();
        // A server that refuses a body closes the connection while we still send.
        let _ = stream.read_to_end(&mut body);
        let find = |name: &str| headers.iter().find(|(known, _)| known == name);
        let length = find("content-length").and_then(|(_, value)| value.parse::<usize>().ok());
        if length.is_some_and(|length| body.len() < length) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let chunked = find("transfer-encoding").is_some_and(|(_, value)| value == "chunked");
        let body = if chunked { dechunk(&body) } else { body };
        let body = String::from_utf8(body).map_err(io::Error::other)?;
        Ok(Self {
            status,
            headers,
            body,
        })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

/// Reads the status and the headers, whose names are in lower case.
pub fn read_head(stream: &mut impl BufRead) -> io::Result<(u16, Vec<(String, String)>)> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no answer: {line:?}")))?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let Some((name, value)) = line.trim_end().split_once(':') else {
            return Ok((status, headers));
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
pub struct EventStream {
    stream: BufReader<TcpStream>,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamedEvent {
    pub id: Option<String>,
    pub name: String,
    pub data: Value,
}

/// What a line of a stream says.
#[derive(Debug, Clone, PartialEq)]
pub enum Streamed {
    Event(StreamedEvent),
    /// The server lives, and has nothing to say.
    Heartbeat,
}

impl EventStream {
    /// Sends the request; an error if it is refused, or if no server answers.
    pub fn open(address: &str, request: Request) -> io::Result<Self> {
        let request = request.header("Accept", "text/event-stream");
        let mut stream = BufReader::new(request.send(address)?);
        let (status, headers) = read_head(&mut stream)?;
        if status != 200 {
            return Err(io::Error::other(format!("{status}: {headers:?}")));
        }
        Ok(Self { stream })
    }

    /// What comes next; `None` once the server has closed the stream, or died. An event that it did
    /// not finish was not sent.
    pub fn next_streamed(&mut self) -> Option<Streamed> {
        let mut event = StreamedEvent {
            id: None,
            name: "message".to_owned(),
            data: Value::Null,
        };
        loop {
            let mut line = String::new();
            if !matches!(self.stream.read_line(&mut line), Ok(1..)) || !line.ends_with('\n') {
                return None;
            }
            let line = line.trim_end();
            // Lines of the chunked encoding have no colon.
            match line.split_once(": ") {
                Some(("id", id)) => event.id = Some(id.to_owned()),
                Some(("event", name)) => name.clone_into(&mut event.name),
                Some(("data", data)) => {
                    event.data = serde_json::from_str(data).unwrap();
                    return Some(Streamed::Event(event));
                }
                Some(("", _)) => return Some(Streamed::Heartbeat),
                _ => {}
            }
        }
    }

    /// The next event.
    pub fn next_any(&mut self) -> Option<StreamedEvent> {
        loop {
            if let Streamed::Event(event) = self.next_streamed()? {
                return Some(event);
            }
        }
    }

    /// The next journal event.
    pub fn next_event(&mut self) -> Option<StreamedEvent> {
        loop {
            let event = self.next_any()?;
            if event.name == "message" {
                return Some(event);
            }
        }
    }
}
