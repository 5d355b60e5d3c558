//! A door for fuzz targets.

use super::frames::Frames;
use super::protocol::Reading;
use crate::probe::Heard;

/// What comes of a server that answers with `bytes`, so many at once.
pub fn heard(bytes: &[u8], piece: usize) -> String {
    let (heard, mut frames) = (Heard::default(), Frames::default());
    let mut reading = Reading::default();
    for piece in bytes.chunks(piece) {
        frames.push(piece);
        loop {
            let frame = match frames.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(broken) => return heard.with(&broken),
            };
            match reading.take(&frame, &heard) {
                Ok(None) => {}
                over => return heard.with(&over),
            }
        }
    }
    let amid = frames.is_amid();
    heard.with(&(amid, reading.reply()))
}
