//! A door for fuzz targets.

use super::stream::Stream;
use super::window::Window;
use crate::command::output::{Line, Lines, Sink};
use crate::probe::{Heard, Still};
use crate::program::LONGEST_LINE;

/// What comes of a process of conversation `id` that writes `bytes`, so many at once.
pub fn heard(id: &str, bytes: &[u8], piece: usize) -> String {
    let heard = Heard::default();
    let mut stream = Stream::new(id, Window::default(), &heard, &Still);
    let mut lines = Lines::new(LONGEST_LINE, |line: Line<'_>| stream.line(line));
    let mut taken = bytes.chunks(piece).try_for_each(|piece| lines.take(piece));
    taken = taken.and_then(|()| lines.end());
    let outcome = taken.and_then(|()| stream.finish(None));
    heard.with(&outcome)
}
