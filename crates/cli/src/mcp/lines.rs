//! What comes in, cut into lines of a bounded length.

use std::io::{self, BufRead};

/// A line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// All of it.
    Whole(Vec<u8>),
    /// It was longer than allowed, and was passed over.
    TooLong,
}

/// Reads lines. No more than the longest one that is allowed is held.
pub(super) struct Lines<R> {
    from: R,
    longest: usize,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(from: R, longest: usize) -> Self {
        Self { from, longest }
    }

    /// The next line; `None` at the end. A last line needs no end of its own.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        let (mut line, mut long, mut begun) = (Vec::new(), false, false);
        loop {
            let piece = match self.from.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if piece.is_empty() {
                return Ok(begun.then(|| whole(line, long)));
            }
            begun = true;
            let end = piece.iter().position(|byte| *byte == b'\n');
            let part = &piece[..end.unwrap_or(piece.len())];
            if line.len() + part.len() > self.longest {
                long = true;
                line = Vec::new();
            } else if !long {
                line.extend_from_slice(part);
            }
            let read = end.map_or(piece.len(), |end| end + 1);
            self.from.consume(read);
            if end.is_some() {
                return Ok(Some(whole(line, long)));
            }
        }
    }
}

fn whole(line: Vec<u8>, long: bool) -> Line {
    if long {
        Line::TooLong
    } else {
        Line::Whole(line)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;

    const LONGEST: usize = 8;

    /// What the same bytes are as lines, by the plainest rule.
    fn expected(bytes: &[u8]) -> Vec<Line> {
        let mut parts: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        // What ends with the end of a line has no other line after it.
        if parts.last().is_some_and(|last| last.is_empty()) {
            parts.pop();
        }
        let line = |part: &[u8]| whole(part.to_vec(), part.len() > LONGEST);
        parts.into_iter().map(line).collect()
    }

    fn read(bytes: &[u8], piece: usize) -> Vec<Line> {
        let mut lines = Lines::new(BufReader::with_capacity(piece, bytes), LONGEST);
        std::iter::from_fn(|| lines.next().unwrap()).collect()
    }

    proptest! {
        #[test]
        fn however_bytes_arrive_they_are_the_same_lines(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'{'), any::<u8>()], 0..200),
            piece in 1_usize..40,
        ) {
            prop_assert_eq!(read(&bytes, piece), expected(&bytes));
        }
    }

    #[test]
    fn the_longest_line_is_whole_and_a_longer_one_is_passed_over() {
        let lines = read(b"12345678\n123456789\nnext", 3);
        assert_eq!(
            lines,
            [
                Line::Whole(b"12345678".to_vec()),
                Line::TooLong,
                Line::Whole(b"next".to_vec())
            ]
        );
    }
}
