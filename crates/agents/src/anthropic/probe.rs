//! A door for fuzz targets.

use super::protocol::Reading;
use crate::http::Events;
use crate::probe::Heard;

/// What comes of a server that answers with `bytes`, so many at once.
pub fn heard(bytes: &[u8], piece: usize) -> String {
    let (heard, mut events) = (Heard::default(), Events::default());
    let mut reading = Reading::default();
    for piece in bytes.chunks(piece) {
        events.push(piece);
        while let Some(data) = events.next() {
            match reading.take(&data, &heard) {
                Ok(None) => {}
                over => return heard.with(&over),
            }
        }
    }
    heard.with(&reading.cut_off())
}

/// How long a server says to wait, in header lines.
pub fn wait(lines: &[u8]) -> String {
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
