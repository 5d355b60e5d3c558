//! Reads requests and writes responses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// A request that the server received.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    pub method: String,
    /// The path, with the query.
    pub path: String,
    /// The headers; the names are in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl ModelRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        let known = self.headers.iter().find(|(known, _)| known == name);
        known.map(|(_, value)| value.as_str())
    }

    /// The last message in the request, as text.
    pub fn last_message(&self) -> String {
        let last = self.body["messages"].as_array().and_then(|all| all.last());
        match last.map(|last| &last["content"]) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }
}

/// The next request on a connection; `None` if the connection is closed.
pub(super) fn read(stream: &TcpStream) -> Option<ModelRequest> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(ModelRequest {
        method,
        path,
        headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}

/// Answers with a complete body; `None` if the connection is closed.
pub(super) fn send_response(
    stream: &mut TcpStream,
    request: &ModelRequest,
    head: &str,
    body: &str,
) -> Option<()> {
    let length = body.len();
    let body = if request.method == "HEAD" { "" } else { body };
    let whole = format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(whole.as_bytes()).ok()
}

/// An event of a stream, as both vendors' protocols have them.
pub(super) fn event(kind: &str, mut data: Value) -> String {
    data["type"] = kind.into();
    format!("event: {kind}\ndata: {data}\n\n")
}
