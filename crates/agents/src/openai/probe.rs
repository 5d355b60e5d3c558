//! A fuzzing entry point.

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
            if data.trim() == "[DONE]" {
                return log.with_outcome(&builder.reply());
            }
            if let Err(error) = builder.handle(&data, &log) {
                return log.with_outcome(&error);
            }
        }
    }
    log.with_outcome(&builder.reply())
}
