//! Server-sent events, parsed as they arrive and limited in size.

use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use segno_core::agent::{Error, ErrorKind};

use super::errors;

/// The longest accepted response, in bytes.
const MAX_RESPONSE: usize = 64 * 1024 * 1024;

/// The events of a response. Only their data is used.
pub(crate) struct Stream {
    response: Response,
    events: Events,
    seen: usize,
}

/// Splits bytes that arrive in any chunks into events.
#[derive(Default)]
pub(crate) struct Events {
    /// Bytes that were received and not yet parsed.
    buffer: Vec<u8>,
    /// How many of them are known to hold no end of an event.
    searched: usize,
}

impl Stream {
    pub(crate) fn new(response: Response) -> Result<Self, Error> {
        let kind = response.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            let what = if kind.is_empty() { "nothing" } else { kind };
            let message = format!("the server sent {what} instead of an event stream");
            return Err(errors::protocol_error(message));
        }
        Ok(Self {
            response,
            events: Events::default(),
            seen: 0,
        })
    }

    /// The data of the next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, Error> {
        loop {
            if let Some(data) = self.events.next() {
                return Ok(Some(data));
            }
            let chunk = self.response.chunk().await;
            let chunk = chunk.map_err(|error| {
                if error.is_timeout() {
                    Error::new(ErrorKind::Timeout, "the response timed out")
                } else {
                    Error::new(ErrorKind::Network, "the response was cut off")
                }
            })?;
            let Some(chunk) = chunk else {
                return Ok(None);
            };
            self.seen += chunk.len();
            if self.seen > MAX_RESPONSE {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    "the response is longer than 64 MB",
                ));
            }
            self.events.push(&chunk);
        }
    }
}

impl Events {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The data of the next event that has any; `None` if it has not arrived completely.
    pub(crate) fn next(&mut self) -> Option<String> {
        while let Some(block) = self.block() {
            if let Some(data) = data(&block) {
                return Some(data);
            }
        }
        None
    }

    /// The next complete event, including its empty line.
    fn block(&mut self) -> Option<String> {
        let ends: [&[u8]; 3] = [b"\n\n", b"\r\n\r\n", b"\r\r"];
        // An end may have begun in the bytes that were searched before.
        let from = self.searched.saturating_sub(3);
        let found = ends.iter().filter_map(|end| {
            let mut windows = self.buffer[from..].windows(end.len());
            let at = windows.position(|window| window == *end)?;
            Some((from + at, end.len()))
        });
        let Some((at, length)) = found.min() else {
            self.searched = self.buffer.len();
            return None;
        };
        self.searched = 0;
        let block: Vec<u8> = self.buffer.drain(..at + length).collect();
        Some(String::from_utf8_lossy(&block).into_owned())
    }
}

/// The data lines of an event, joined; `None` if it has none, like a comment.
fn data(block: &str) -> Option<String> {
    let lines: Vec<&str> = block
        .split(['\n', '\r'])
        .filter_map(|line| line.strip_prefix("data:"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::data;

    #[test]
    fn data_lines_of_an_event_are_joined() {
        for (block, expected) in [
            ("event: x\ndata: {\"a\": 1}\n\n", Some("{\"a\": 1}")),
            ("data:no space\r\n\r\n", Some("no space")),
            ("data: one\ndata: two\n\n", Some("one\ntwo")),
            (": a comment\n\n", None),
            ("event: ping\n\n", None),
        ] {
            assert_eq!(data(block).as_deref(), expected, "{block:?}");
        }
    }
}
