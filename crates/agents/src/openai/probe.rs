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
            if data.trim() == "[DONE]" {
                return heard.with(&reading.reply());
            }
            if let Err(error) = reading.take(&data, &heard) {
                return heard.with(&error);
            }
        }
    }
    heard.with(&reading.reply())
}
