//! Reads lines of any length, with at most one of them in memory.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};

use super::{Object, Reason, Span, json};

const BUFFER: usize = 64 << 10;

/// Reads line by line from the beginning.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    source: BufReader<R>,
    limit: usize,
    line: Vec<u8>,
    next: u64,
    number: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) at: Span,
    /// Whether it is in memory: it is not longer than the limit.
    whole: bool,
    /// Whether it has a newline.
    pub(crate) ended: bool,
}

#[derive(Debug)]
pub(crate) enum Content {
    /// Only white space.
    Blank,
    Record(Object),
    Unreadable(Reason),
}

impl<R: Read + Seek> Lines<R> {
    pub(crate) fn new(mut source: R, limit: usize) -> io::Result<Self> {
        source.rewind()?;
        Ok(Self {
            source: BufReader::with_capacity(BUFFER, source),
            limit,
            line: Vec::new(),
            next: 0,
            number: 0,
        })
    }

    pub(crate) fn rewind(&mut self) -> io::Result<()> {
        self.source.rewind()?;
        (self.next, self.number) = (0, 0);
        Ok(())
    }

    /// Finds the next line. The part beyond the limit is skipped.
    pub(crate) fn next(&mut self) -> io::Result<Option<Found>> {
        self.line.clear();
        // A buffer that one long line has grown would stay that large for all short ones.
        self.line.shrink_to(BUFFER);
        let (mut length, mut ended) = (0_u64, false);
        while !ended {
            let buffer = match self.source.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                break;
            }
            let end = buffer.iter().position(|&byte| byte == b'\n');
            let piece = &buffer[..end.unwrap_or(buffer.len())];
            let room = self.limit.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            let taken = piece.len() + usize::from(end.is_some());
            length += piece.len() as u64;
            ended = end.is_some();
            self.source.consume(taken);
        }
        if length == 0 && !ended {
            return Ok(None);
        }
        self.number += 1;
        let at = Span {
            line: self.number,
            offset: self.next,
            length,
        };
        self.next += length + u64::from(ended);
        let whole = length <= self.limit as u64;
        if !whole {
            self.line = Vec::new();
        }
        Ok(Some(Found { at, whole, ended }))
    }

    /// The bytes of the current line; none if it is too long.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.line
    }

    /// Parses the current line.
    pub(crate) fn content(&self, found: Found) -> Content {
        if !found.whole {
            return Content::Unreadable(Reason::TooLong);
        }
        if self.line.trim_ascii().is_empty() {
            return Content::Blank;
        }
        match json::parse(&self.line) {
            Ok(object) => Content::Record(object),
            Err(reason) if found.ended || reason == Reason::Nul => Content::Unreadable(reason),
            // Without a newline, a line that cannot be parsed may just be unfinished.
            Err(_) => Content::Unreadable(Reason::Torn),
        }
    }

    /// Copies the current line without its newline, also if it is too long for memory.
    pub(crate) fn copy(&mut self, found: Found, to: &mut dyn Write) -> io::Result<()> {
        if found.whole {
            return to.write_all(&self.line);
        }
        self.source.seek(SeekFrom::Start(found.at.offset))?;
        let copied = io::copy(&mut (&mut self.source).take(found.at.length), to)?;
        if copied != found.at.length {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the transcript shrank while it was copied",
            ));
        }
        self.source.seek(SeekFrom::Start(self.next))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn long_line_is_skipped_and_still_copied() {
        let text = format!("{{}}\n{}\nlast", "x".repeat(200_000));
        let mut lines = Lines::new(Cursor::new(text.as_bytes()), 1000).unwrap();
        let mut copy = Vec::new();
        let mut spans = Vec::new();
        while let Some(found) = lines.next().unwrap() {
            lines.copy(found, &mut copy).unwrap();
            if found.ended {
                copy.push(b'\n');
            }
            spans.push((found.at.offset, found.at.length, found.whole));
        }
        assert_eq!(copy, text.as_bytes());
        assert_eq!(
            spans,
            [(0, 2, true), (3, 200_000, false), (200_004, 4, true)]
        );
    }
}
