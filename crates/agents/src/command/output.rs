//! What an agent writes: the answer, bounded and made into text piece by piece, and the end of its
//! stderr, made harmless.

use segno_core::agent::{Event, Listener};
use tokio::io::{AsyncRead, AsyncReadExt};

/// How much is read at once.
const PIECE: usize = 64 << 10;
/// How much of stderr is kept.
const TAIL: usize = 2 << 10;

/// The agent wrote more than it may.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Reads an answer to its end, reporting each piece.
pub(super) async fn answer(
    mut from: impl AsyncRead + Unpin,
    limit: usize,
    listener: &dyn Listener,
) -> Result<String, TooLong> {
    let mut text = Text::default();
    let mut piece = vec![0; PIECE];
    let mut total = 0;
    // A pipe that cannot be read has ended: what counts is how the warden says it went.
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        total += count;
        if total > limit {
            return Err(TooLong);
        }
        hear(listener, text.push(&piece[..count]));
    }
    hear(listener, text.finish());
    Ok(text.whole)
}

fn hear(listener: &dyn Listener, piece: &str) {
    if !piece.is_empty() {
        listener.hear(Event::Text(piece));
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
    fn a_terminal_is_not_told_what_to_do() {
        assert_eq!(
            harmless("\u{1b}[31mred\u{7}\r\n\u{9b}2J\tend"),
            "\\u{1b}[31mred\\u{7}\\r\n\\u{9b}2J\tend"
        );
    }
}
