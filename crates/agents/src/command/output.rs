//! What an agent writes: its stdout as a bounded answer, decoded piece by piece, and the end of its
//! stderr with control characters escaped.

use segno_core::agent::{Error, ErrorKind, Event, Listener};
use segno_core::ports::Boxed;
use tokio::io::{AsyncRead, AsyncReadExt};

/// How many bytes are read at once.
const PIECE: usize = 64 << 10;
/// How many bytes of stderr are kept.
const TAIL: usize = 2 << 10;

/// Receives what a program writes to its stdout, piece by piece.
pub(crate) trait Sink: Send {
    /// Returns when there is room for another piece. Until then the program waits, because its pipe
    /// is not read.
    fn ready(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// An error ends the program.
    fn push(&mut self, piece: &[u8]) -> Result<(), Error>;

    /// The program closed its stdout.
    fn end(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// Reads to the end and passes every piece to `sink`.
pub(super) async fn read_into(
    mut from: impl AsyncRead + Unpin,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let mut piece = vec![0; PIECE];
    // A pipe that cannot be read has ended; the guard's status decides the outcome.
    loop {
        sink.ready().await;
        match from.read(&mut piece).await {
            Ok(count @ 1..) => sink.push(&piece[..count])?,
            _ => return sink.end(),
        }
    }
}

/// An answer that consists of all that a program writes, reported to the listener as it arrives.
pub(crate) struct Answer<'a> {
    text: Text,
    /// Bytes received so far.
    bytes: usize,
    limit: usize,
    program: &'a str,
    listener: &'a dyn Listener,
}

impl<'a> Answer<'a> {
    pub(crate) fn new(program: &'a str, limit: usize, listener: &'a dyn Listener) -> Self {
        Self {
            text: Text::default(),
            bytes: 0,
            limit,
            program,
            listener,
        }
    }

    pub(crate) fn into_text(self) -> String {
        self.text.whole
    }
}

impl Sink for Answer<'_> {
    fn push(&mut self, piece: &[u8]) -> Result<(), Error> {
        self.bytes += piece.len();
        if self.bytes > self.limit {
            let message = format!(
                "`{}` was killed: its answer has more than {} bytes",
                escape_controls(self.program),
                self.limit
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        report_text(self.listener, self.text.push(piece));
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        report_text(self.listener, self.text.finish());
        Ok(())
    }
}

fn report_text(listener: &dyn Listener, piece: &str) {
    if !piece.is_empty() {
        listener.on_event(Event::Text(piece));
    }
}

/// A line of a program's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Without its newline.
    Whole(&'a [u8]),
    /// It was longer than the limit; its content is not known.
    Lost,
}

/// Splits a program's output into lines. A line longer than `limit` is skipped, so that memory
/// stays bounded.
pub(crate) struct Lines<'a, F> {
    /// Gets the events that lines become.
    listener: &'a dyn Listener,
    /// The beginning of a line whose newline has not arrived.
    open: Vec<u8>,
    limit: usize,
    /// Whether the rest of the open line is skipped.
    skipping: bool,
    on_line: F,
}

impl<'a, F: FnMut(Line<'_>) -> Result<(), Error> + Send> Lines<'a, F> {
    /// Passes each line of at most `limit` bytes to `on_line`.
    pub(crate) fn new(limit: usize, listener: &'a dyn Listener, on_line: F) -> Self {
        Self {
            listener,
            open: Vec::new(),
            limit,
            skipping: false,
            on_line,
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

impl<F: FnMut(Line<'_>) -> Result<(), Error> + Send> Sink for Lines<'_, F> {
    fn ready(&self) -> Boxed<'_, ()> {
        self.listener.ready()
    }

    fn push(&mut self, piece: &[u8]) -> Result<(), Error> {
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.add(&rest[..end]);
            rest = &rest[end + 1..];
            if std::mem::take(&mut self.skipping) {
                (self.on_line)(Line::Lost)?;
            } else {
                let received = (self.on_line)(Line::Whole(&self.open));
                self.open.clear();
                received?;
            }
        }
        self.add(rest);
        Ok(())
    }

    /// The receiver decides whether a last line without a newline is complete.
    fn end(&mut self) -> Result<(), Error> {
        if self.skipping {
            return (self.on_line)(Line::Lost);
        }
        match self.open.as_slice() {
            [] => Ok(()),
            rest => (self.on_line)(Line::Whole(rest)),
        }
    }
}

/// Reads to the end and returns the last `TAIL` bytes, safe to show.
pub(crate) async fn read_tail(mut from: impl AsyncRead + Unpin) -> String {
    let mut kept = Vec::new();
    let mut piece = vec![0; PIECE];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        kept.extend_from_slice(&piece[..count]);
        kept.drain(..kept.len().saturating_sub(TAIL));
    }
    escape_controls(String::from_utf8_lossy(&kept).trim())
}

/// Escapes control characters, so that a terminal does not act on them. Newlines and tabs stay.
pub(crate) fn escape_controls(text: &str) -> String {
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

/// Reads one short message to its end. A socket ends with an error if the other side closes before
/// it has read all that it was sent; the bytes that it sent before are still returned.
pub(crate) async fn read_message(from: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = from.take(PIECE as u64).read_to_end(&mut bytes).await;
    bytes
}

/// Decodes UTF-8 that arrives in pieces split anywhere. Invalid bytes are replaced.
#[derive(Default)]
struct Text {
    whole: String,
    /// The first bytes of a character that has not arrived completely.
    open: Vec<u8>,
}

impl Text {
    /// Adds bytes; returns the newly decoded text.
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

    /// Ends the input; returns a replacement character if it ended within a character.
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

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn text_decodes_the_same_in_any_pieces() {
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
    async fn message_counts_if_the_sender_read_nothing() {
        let (mut ours, mut theirs) = tokio::net::UnixStream::pair().unwrap();
        ours.write_all(b"never read").await.unwrap();
        theirs.write_all(b"over\n").await.unwrap();
        drop(theirs);
        assert_eq!(read_message(ours).await, b"over\n");
    }

    /// A listener that never has room.
    struct FullListener;

    impl Listener for FullListener {
        fn on_event(&self, _: Event<'_>) {}

        fn ready(&self) -> Boxed<'_, ()> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn output_is_not_read_while_the_listener_is_full() {
        let mut received = 0;
        let mut lines = Lines::new(5, &FullListener, |_: Line<'_>| {
            received += 1;
            Ok(())
        });
        let endless = tokio::io::repeat(b'\n');
        assert!(read_into(endless, &mut lines).now_or_never().is_none());
        assert_eq!(received, 0);
    }

    #[test]
    fn lines_split_the_same_in_any_pieces() {
        let bytes = b"one\n\ntoo long for it\ntwo\ncut";
        for size in 1..=bytes.len() {
            let mut received = Vec::new();
            let mut lines = Lines::new(5, &FullListener, |line: Line<'_>| {
                received.push(match line {
                    Line::Whole(line) => line.to_vec(),
                    Line::Lost => b"(lost)".to_vec(),
                });
                Ok(())
            });
            for piece in bytes.chunks(size) {
                lines.push(piece).unwrap();
            }
            lines.end().unwrap();
            let expected = ["one", "", "(lost)", "two", "cut"];
            let expected = expected.map(|line| line.as_bytes().to_vec());
            assert_eq!(received, expected, "pieces of {size}");
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(
            escape_controls("\u{1b}[31mred\u{7}\r\n\u{9b}2J\tend"),
            "\\u{1b}[31mred\\u{7}\\r\n\\u{9b}2J\tend"
        );
    }
}
