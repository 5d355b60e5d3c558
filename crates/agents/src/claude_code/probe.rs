//! A fuzzing entry point.

use segno_core::agent::RefusalReason;

use super::stream::{SessionInfo, Stream};
use super::window::Window;
use crate::command::output::{Line, Lines, Sink};
use crate::probe::{EventLog, FixedClock};
use crate::program::LONGEST_LINE;

/// Feeds `bytes` in chunks of `piece`, as the output of a process of session `id`.
pub fn parse_stream(id: &str, bytes: &[u8], piece: usize) -> String {
    let log = EventLog::default();
    let info = SessionInfo {
        id,
        window: Window::default(),
        cost: None,
        refusal: RefusalReason::Permissions,
    };
    let mut stream = Stream::new(info, &log, &FixedClock);
    let mut lines = Lines::new(LONGEST_LINE, &log, |line: Line<'_>| stream.line(line));
    let mut taken = bytes.chunks(piece).try_for_each(|piece| lines.push(piece));
    taken = taken.and_then(|()| lines.end());
    let outcome = taken.and_then(|()| stream.finish(None));
    log.with_outcome(&outcome)
}
