//! A door for fuzz targets.

use std::path::Path;

use segno_core::agent::{Error, ErrorKind};
use segno_core::usage::Usage;

use super::stream::{Known, Stream};
use super::tail::Tail;
use crate::command::output::{Line, Lines, Sink};
use crate::probe::{Heard, Still};
use crate::program::LONGEST_LINE;
use crate::reset;

/// What comes of a process that goes on with thread `id`, or begins one, and writes `bytes`, so many
/// at once.
pub fn heard(id: Option<&str>, bytes: &[u8], piece: usize) -> String {
    let heard = Heard::default();
    let known = Known {
        expected: id,
        before: Usage::default(),
        window: None,
        mark: "1.".to_owned(),
    };
    let mut stream = Stream::new(known, Tail::new(Path::new("/nowhere")), &heard);
    let mut lines = Lines::new(LONGEST_LINE, |line: Line<'_>| stream.line(line));
    let mut taken = bytes.chunks(piece).try_for_each(|piece| lines.take(piece));
    taken = taken.and_then(|()| lines.end());
    let outcome = taken.and_then(|()| stream.finish(None));
    heard.with(&outcome)
}

/// What the rollout of thread `id` tells of its figures while it grows by so many bytes at a time.
pub fn counted(id: &str, bytes: &[u8], piece: usize) -> String {
    let mut tail = Tail::new(Path::new("/nowhere"));
    bytes.chunks(piece).for_each(|piece| tail.take(piece, id));
    format!("{:?}", tail.figures())
}

/// What is made of words about a limit.
pub fn limited(words: &str) -> String {
    let error = Error::new(ErrorKind::RateLimited(None), words);
    format!("{:?}", reset::timed(error, &Still).kind)
}
