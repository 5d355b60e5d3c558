//! A fuzzing entry point.

use super::frames::Frames;
use super::protocol::ReplyBuilder;
use crate::probe::EventLog;

/// Feeds `bytes` in chunks of `piece`, as a server's response.
pub fn parse_stream(bytes: &[u8], piece: usize) -> String {
    let (log, mut frames) = (EventLog::default(), Frames::default());
    let mut builder = ReplyBuilder::default();
    for piece in bytes.chunks(piece) {
        frames.push(piece);
        loop {
            let frame = match frames.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(broken) => return log.with_outcome(&broken),
            };
            match builder.handle(&frame, &log) {
                Ok(None) => {}
                over => return log.with_outcome(&over),
            }
        }
    }
    let partial = frames.has_partial_frame();
    log.with_outcome(&(partial, builder.reply()))
}
