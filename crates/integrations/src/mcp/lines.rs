//! Splits input into lines of bounded length.

use std::io::{self, BufRead};

/// A line without its line ending.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    /// The line exceeded the limit and was skipped.
    TooLong,
}

/// Reads lines. Buffers at most one line of the maximum length.
pub(super) struct Lines<R> {
    from: R,
    longest: usize,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(from: R, longest: usize) -> Self {
        Self { from, longest }
    }

    /// Reads the next line. Returns `None` at the end of the input. The last line needs no line
    /// ending.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        let (mut line, mut long, mut begun) = (Vec::new(), false, false);
        loop {
            let piece = match self.from.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if piece.is_empty() {
                return Ok(begun.then(|| to_line(line, long)));
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
                return Ok(Some(to_line(line, long)));
            }
        }
    }
}

fn to_line(line: Vec<u8>, long: bool) -> Line {
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

    const MAX_BYTES: usize = 8;

    /// A reference implementation.
    fn expected(bytes: &[u8]) -> Vec<Line> {
        let mut parts: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        // A final line ending is not followed by an empty line.
        if parts.last().is_some_and(|last| last.is_empty()) {
            parts.pop();
        }
        let line = |part: &[u8]| to_line(part.to_vec(), part.len() > MAX_BYTES);
        parts.into_iter().map(line).collect()
    }

    fn read(bytes: &[u8], piece: usize) -> Vec<Line> {
        let mut lines = Lines::new(BufReader::with_capacity(piece, bytes), MAX_BYTES);
        std::iter::from_fn(|| lines.next().unwrap()).collect()
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_chunk_sizes(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'{'), any::<u8>()], 0..200),
            piece in 1_usize..40,
        ) {
            prop_assert_eq!(read(&bytes, piece), expected(&bytes));
        }
    }

    #[test]
    fn too_long_lines_are_skipped() {
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
