//! Requests as they come in, and the few ways in which answers go out.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// What was asked.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The method: `GET`, `POST` and so on.
    pub method: String,
    /// The path of the address, with what follows a question mark.
    pub path: String,
    /// The headers, their names in small letters.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Value,
}

impl Asked {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let known = self.headers.iter().find(|(known, _)| known == name);
        known.map(|(_, value)| value.as_str())
    }

    /// The last thing that the asking side said, as text.
    pub fn last(&self) -> String {
        let last = self.body["messages"].as_array().and_then(|all| all.last());
        match last.map(|last| &last["content"]) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }
}

/// The next request on a connection; `None` if it is over.
pub(super) fn read(stream: &TcpStream) -> Option<Asked> {
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
    Some(Asked {
        method,
        path,
        headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}

/// Answers with a whole body; `None` if the connection is over.
pub(super) fn whole(stream: &mut TcpStream, asked: &Asked, head: &str, body: &str) -> Option<()> {
    let length = body.len();
    let body = if asked.method == "HEAD" { "" } else { body };
    let whole = format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(whole.as_bytes()).ok()
}

/// An event of a stream, as both vendors' protocols have them.
pub(super) fn event(kind: &str, mut data: Value) -> String {
    data["type"] = kind.into();
    format!("event: {kind}\ndata: {data}\n\n")
}
