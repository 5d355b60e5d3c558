//! What an agent writes: the answer, bounded and made into text piece by piece, and the end of its
//! stderr, made harmless.

use segno_core::agent::{Error, ErrorKind, Event, Listener};
use tokio::io::{AsyncRead, AsyncReadExt};

/// How much is read at once.
const PIECE: usize = 64 << 10;
/// How much of stderr is kept.
const TAIL: usize = 2 << 10;

/// Takes what a program writes to its stdout, piece by piece.
pub(crate) trait Sink: Send {
    /// Takes the next piece. An error ends the program.
    fn take(&mut self, piece: &[u8]) -> Result<(), Error>;

    /// Nothing more comes.
    fn end(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// Reads to the end, and hands everything on.
pub(super) async fn pour(
    mut from: impl AsyncRead + Unpin,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let mut piece = vec![0; PIECE];
    // A pipe that cannot be read has ended: what counts is how the warden says it went.
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        sink.take(&piece[..count])?;
    }
    sink.end()
}

/// An answer that is all that a program writes, reported as it comes.
pub(crate) struct Answer<'a> {
    text: Text,
    /// How many bytes came.
    bytes: usize,
    /// How many may.
    limit: usize,
    program: &'a str,
    listener: &'a dyn Listener,
}

impl<'a> Answer<'a> {
    /// Of `program`, with at most `limit` bytes.
    pub(crate) fn new(program: &'a str, limit: usize, listener: &'a dyn Listener) -> Self {
        Self {
            text: Text::default(),
            bytes: 0,
            limit,
            program,
            listener,
        }
    }

    /// What came.
    pub(crate) fn into_text(self) -> String {
        self.text.whole
    }
}

impl Sink for Answer<'_> {
    fn take(&mut self, piece: &[u8]) -> Result<(), Error> {
        self.bytes += piece.len();
        if self.bytes > self.limit {
            let message = format!(
                "{} was ended: its answer has more than {} bytes",
                harmless(self.program),
                self.limit
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        hear(self.listener, self.text.push(piece));
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        hear(self.listener, self.text.finish());
        Ok(())
    }
}

fn hear(listener: &dyn Listener, piece: &str) {
    if !piece.is_empty() {
        listener.hear(Event::Text(piece));
    }
}

/// A line of what a program writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Without its end.
    Whole(&'a [u8]),
    /// It was too long: what it would have said is not known.
    Lost,
}

/// What a program writes, line by line. A line that is longer than `limit` is left out: whoever reads
/// on must not be made to hold it.
pub(crate) struct Lines<F> {
    /// The beginning of a line whose end has not come.
    open: Vec<u8>,
    limit: usize,
    /// Whether the rest of the open line is left out.
    skipping: bool,
    hear: F,
}

impl<F: FnMut(Line<'_>) -> Result<(), Error> + Send> Lines<F> {
    /// Lines of at most `limit` bytes, each handed to `hear`.
    pub(crate) fn new(limit: usize, hear: F) -> Self {
        Self {
            open: Vec::new(),
            limit,
            skipping: false,
            hear,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.skipping {
            return;
        }
        if self.open.len() + bytes.len() > self.limit {
            self.skipping = true;
            self.open = Vec::new();
        } else {
            self.open.extend_from_slice(bytes);
        }
    }
}

impl<F: FnMut(Line<'_>) -> Result<(), Error> + Send> Sink for Lines<F> {
    fn take(&mut self, piece: &[u8]) -> Result<(), Error> {
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.add(&rest[..end]);
            rest = &rest[end + 1..];
            if std::mem::take(&mut self.skipping) {
                (self.hear)(Line::Lost)?;
            } else {
                let heard = (self.hear)(Line::Whole(&self.open));
                self.open.clear();
                heard?;
            }
        }
        self.add(rest);
        Ok(())
    }

    /// Whether the last line is whole though it has no end is for the reader to see.
    fn end(&mut self) -> Result<(), Error> {
        if self.skipping {
            return (self.hear)(Line::Lost);
        }
        match self.open.as_slice() {
            [] => Ok(()),
            rest => (self.hear)(Line::Whole(rest)),
        }
    }
}

/// Reads to the end and returns the last of it, fit to be shown.
pub(crate) async fn tail(mut from: impl AsyncRead + Unpin) -> String {
    let mut kept = Vec::new();
    let mut piece = vec![0; PIECE];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        kept.extend_from_slice(&piece[..count]);
        kept.drain(..kept.len().saturating_sub(TAIL));
    }
    harmless(String::from_utf8_lossy(&kept).trim())
}

/// The text with everything that a terminal would act on written out.
pub(crate) fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' && c != '\t' {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Reads one short message to its end. A socket ends with an error where the other side has not read
/// all that it was sent; what it said before counts.
pub(crate) async fn message(from: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = from.take(PIECE as u64).read_to_end(&mut bytes).await;
    bytes
}

/// Text that arrives in pieces which know nothing of characters. What is not UTF-8 is replaced.
#[derive(Default)]
struct Text {
    whole: String,
    /// The beginning of a character whose end has not arrived.
    open: Vec<u8>,
}

impl Text {
    /// Adds bytes; returns the text that is now complete.
    fn push(&mut self, bytes: &[u8]) -> &str {
        let start = self.whole.len();
        self.open.extend_from_slice(bytes);
        let mut rest = 0;
        let mut chunks = self.open.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.whole.push_str(chunk.valid());
            let broken = chunk.invalid();
            let unfinished =
                || str::from_utf8(broken).is_err_and(|error| error.error_len().is_none());
            if chunks.peek().is_none() && unfinished() {
                rest = broken.len();
            } else if !broken.is_empty() {
                self.whole.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.open.drain(..self.open.len() - rest);
        &self.whole[start..]
    }

    /// Nothing more comes; returns what that makes of the rest.
    fn finish(&mut self) -> &str {
        let start = self.whole.len();
        if !self.open.is_empty() {
            self.whole.push(char::REPLACEMENT_CHARACTER);
            self.open.clear();
        }
        &self.whole[start..]
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[test]
    fn text_in_any_pieces_is_the_text_in_one() {
        let bytes = b"a\xC3\xA9\xFF\xE2\x82\xAC\xF0\x9F\x8E\xB5\0\xE2\x82x\xF0\x9F";
        let whole = String::from_utf8_lossy(bytes);
        for size in 1..=bytes.len() {
            let mut text = Text::default();
            let mut pieces = String::new();
            for piece in bytes.chunks(size) {
                pieces.push_str(text.push(piece));
            }
            pieces.push_str(text.finish());
            assert_eq!(pieces, whole, "pieces of {size}");
            assert_eq!(text.whole, whole, "pieces of {size}");
        }
    }

    #[tokio::test]
    async fn the_word_of_one_who_did_not_listen_to_the_end_counts() {
        let (mut ours, mut theirs) = tokio::net::UnixStream::pair().unwrap();
        ours.write_all(b"never read").await.unwrap();
        theirs.write_all(b"over\n").await.unwrap();
        drop(theirs);
        assert_eq!(message(ours).await, b"over\n");
    }

    #[test]
    fn lines_in_any_pieces_are_the_lines_in_one() {
        let bytes = b"one\n\ntoo long for it\ntwo\ncut";
        for size in 1..=bytes.len() {
            let mut heard = Vec::new();
            let mut lines = Lines::new(5, |line: Line<'_>| {
                heard.push(match line {
                    Line::Whole(line) => line.to_vec(),
                    Line::Lost => b"(lost)".to_vec(),
                });
                Ok(())
            });
            for piece in bytes.chunks(size) {
                lines.take(piece).unwrap();
            }
            lines.end().unwrap();
            let expected = ["one", "", "(lost)", "two", "cut"];
            let expected = expected.map(|line| line.as_bytes().to_vec());
            assert_eq!(heard, expected, "pieces of {size}");
        }
    }

    #[test]
    fn a_terminal_is_not_told_what_to_do() {
        assert_eq!(
            harmless("\u{1b}[31mred\u{7}\r\n\u{9b}2J\tend"),
            "\\u{1b}[31mred\\u{7}\\r\n\\u{9b}2J\tend"
        );
    }
}
