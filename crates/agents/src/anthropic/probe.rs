//! Fuzzing entry points.

use super::protocol::ReplyBuilder;
use crate::http::Events;
use crate::probe::EventLog;

/// Feeds `bytes` in chunks of `piece`, as a server's response.
pub fn parse_stream(bytes: &[u8], piece: usize) -> String {
    let (log, mut events) = (EventLog::default(), Events::default());
    let mut builder = ReplyBuilder::default();
    for piece in bytes.chunks(piece) {
        events.push(piece);
        while let Some(data) = events.next() {
            match builder.handle(&data, &log) {
                Ok(None) => {}
                over => return log.with_outcome(&over),
            }
        }
    }
    log.with_outcome(&builder.cut_off())
}

/// Parses the retry delay from header lines.
pub fn parse_retry_after(lines: &[u8]) -> String {
    let mut headers = reqwest::header::HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let mut halves = line.splitn(2, |byte| *byte == b':');
        let (name, value) = (halves.next(), halves.next());
        if let (Some(name), Some(value)) = (name, value)
            && let Ok(name) = reqwest::header::HeaderName::from_bytes(name)
            && let Ok(value) = reqwest::header::HeaderValue::from_bytes(value)
        {
            headers.insert(name, value);
        }
    }
    format!("{:?}", crate::http::retry_after(&headers))
}
