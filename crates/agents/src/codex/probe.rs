//! Fuzzing entry points.

use std::path::Path;

use segno_core::agent::{Error, ErrorKind, RefusalReason};
use segno_core::usage::Usage;

use super::stream::{Stream, ThreadInfo};
use super::tail::Tail;
use crate::command::output::{Line, Lines, Sink};
use crate::probe::{EventLog, FixedClock};
use crate::program::LONGEST_LINE;
use crate::reset;

/// Feeds `bytes` in chunks of `piece`, as the output of a process that resumes thread `id`, or
/// starts one.
pub fn parse_stream(id: Option<&str>, bytes: &[u8], piece: usize) -> String {
    let log = EventLog::default();
    let info = ThreadInfo {
        expected: id,
        before: Usage::default(),
        window: None,
        refusal: RefusalReason::Permissions,
        id_prefix: "1.".to_owned(),
    };
    let mut stream = Stream::new(info, Tail::new(Path::new("/nowhere")), &log);
    let mut lines = Lines::new(LONGEST_LINE, &log, |line: Line<'_>| stream.line(line));
    let mut taken = bytes.chunks(piece).try_for_each(|piece| lines.push(piece));
    taken = taken.and_then(|()| lines.end());
    let outcome = taken.and_then(|()| stream.finish(None));
    log.with_outcome(&outcome)
}

/// Feeds the rollout of thread `id` in chunks of `piece`, and returns the token counts read from
/// it.
pub fn read_token_counts(id: &str, bytes: &[u8], piece: usize) -> String {
    let mut tail = Tail::new(Path::new("/nowhere"));
    bytes.chunks(piece).for_each(|piece| tail.push(piece, id));
    format!("{:?}", tail.counts())
}

/// Parses the retry delay from a rate limit message.
pub fn parse_retry_delay(words: &str) -> String {
    let error = Error::new(ErrorKind::RateLimited(None), words);
    format!("{:?}", reset::with_retry_delay(error, &FixedClock).kind)
}
