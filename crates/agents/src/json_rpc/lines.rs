//! Reads lines of bounded length.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// How many bytes are read at once.
const PIECE: usize = 64 << 10;

/// A line has more bytes than the limit. Nothing more can be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Splits a stream into lines. Holds at most one line and one piece.
pub(super) struct Lines<R> {
    from: BufReader<R>,
    limit: usize,
    /// The beginning of a line whose newline has not arrived.
    open: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of at most `limit` bytes, the newline not counted.
    pub(super) fn new(from: R, limit: usize) -> Self {
        Self {
            from: BufReader::with_capacity(PIECE, from),
            limit,
            open: Vec::new(),
        }
    }

    /// The next line without its newline; `None` at the end. Cancelling this future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        loop {
            // A pipe that cannot be read has ended.
            let piece = self.from.fill_buf().await.unwrap_or_default();
            if piece.is_empty() {
                return Ok(None);
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            let part = &piece[..end.unwrap_or(piece.len())];
            if self.open.len() + part.len() > self.limit {
                self.open = Vec::new();
                return Err(TooLong);
            }
            self.open.extend_from_slice(part);
            let read = part.len() + usize::from(end.is_some());
            self.from.consume(read);
            if end.is_some() {
                return Ok(Some(std::mem::take(&mut self.open)));
            }
        }
    }

    /// The last line, if the stream ended without a newline.
    pub(super) fn take_rest(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut self.open)).filter(|rest| !rest.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use futures_util::FutureExt;
    use tokio::io::ReadBuf;

    use super::*;

    /// Gives its bytes in pieces of this size, and is not ready in between.
    struct Pieces<'a>(std::slice::Chunks<'a, u8>, bool);

    impl AsyncRead for Pieces<'_> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.1 = !self.1;
            if self.1 {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            into.put_slice(self.0.next().unwrap_or_default());
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn lines_do_not_depend_on_pieces_or_cancelling() {
        let bytes = b"one\n\nfive5\r\n\xFF\ncut";
        for size in 1..=bytes.len() {
            let mut lines = Lines::new(Pieces(bytes.chunks(size), false), 6);
            let mut read: Vec<Vec<u8>> = Vec::new();
            loop {
                // Every future that is not ready is dropped.
                match lines.next().now_or_never() {
                    None => {}
                    Some(Ok(Some(line))) => read.push(line),
                    Some(other) => break assert_eq!(other, Ok(None), "pieces of {size}"),
                }
            }
            read.extend(lines.take_rest());
            let expected: [&[u8]; 5] = [b"one", b"", b"five5\r", b"\xFF", b"cut"];
            assert_eq!(read, expected, "pieces of {size}");
            assert_eq!(lines.take_rest(), None);
        }
    }

    #[tokio::test]
    async fn line_over_the_limit_ends_the_stream() {
        let mut lines = Lines::new(&b"123456\n1234567\nnext\n"[..], 6);
        assert_eq!(lines.next().await, Ok(Some(b"123456".to_vec())));
        assert_eq!(lines.next().await, Err(TooLong));
        assert_eq!(lines.take_rest(), None);
    }

    #[tokio::test]
    async fn endless_line_is_refused() {
        let mut lines = Lines::new(tokio::io::repeat(b'x'), 1 << 20);
        assert_eq!(lines.next().await, Err(TooLong));
    }
}
