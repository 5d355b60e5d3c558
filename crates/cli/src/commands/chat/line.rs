//! The line editor of the chat prompt: turns key bytes into messages.
//!
//! Editing is at the end of the text only: backspace, Ctrl-W deletes a word, Ctrl-U deletes
//! everything. Pasted text stays one message, however many lines it has. Alt-Enter, or a backslash
//! before Enter, starts a new line.

use crate::output::text;

const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// Result of processing some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// The message is not complete.
    More,
    Message(String),
    /// The user asked to leave.
    Leave,
}

/// The text that is being typed.
#[derive(Default)]
pub(super) struct Line {
    text: String,
    /// Bytes of an incomplete key sequence.
    pending: Vec<u8>,
    pasting: bool,
}

impl Line {
    /// Creates a line with this text.
    pub(super) fn with_text(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }

    /// Processes bytes from the keyboard. Bytes after the end of a message stay for the next call.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Typed {
        self.pending.extend_from_slice(bytes);
        while let Some((key, length)) = key(&self.pending, self.pasting) {
            self.pending.drain(..length);
            match key {
                Key::Text(c) => self.text.push(c),
                Key::Enter if self.pasting => self.text.push('\n'),
                // A terminal without bracketed paste sends the whole paste at once.
                Key::Enter if !self.pending.is_empty() => self.text.push('\n'),
                Key::Enter if self.text.ends_with('\\') => {
                    self.text.pop();
                    self.text.push('\n');
                }
                Key::Enter => return Typed::Message(std::mem::take(&mut self.text)),
                Key::NewLine => self.text.push('\n'),
                Key::Backspace => {
                    self.text.pop();
                }
                Key::DeleteWord => {
                    let trimmed = self.text.trim_end();
                    let end = trimmed.rfind(char::is_whitespace).map_or(0, |at| at + 1);
                    self.text.truncate(end);
                }
                Key::PasteStart => self.pasting = true,
                Key::PasteEnd => self.pasting = false,
                Key::Interrupt | Key::EndOfInput if self.text.is_empty() => return Typed::Leave,
                Key::DeleteAll | Key::Interrupt => self.text.clear(),
                Key::EndOfInput | Key::Ignored => {}
            }
        }
        Typed::More
    }

    /// Renders the text for a screen of this size. Also returns the number of rows. Lines that do
    /// not fit are dropped at the top.
    pub(super) fn render(&self, prompt: &str, width: usize, height: usize) -> (String, usize) {
        let room = height.saturating_sub(1).max(1);
        let rows_of = |line: &str| (text::columns(line) / width.max(1)) + 1;
        let lines: Vec<String> = self
            .text
            .split('\n')
            .enumerate()
            .map(|(at, line)| {
                let line = line.replace('\t', "    ");
                let before = if at == 0 { prompt } else { "  " };
                format!("{before}{}", text::sanitize(&line))
            })
            .collect();
        let (mut rows, mut from) = (0, lines.len());
        while from > 0 && rows + rows_of(&lines[from - 1]) <= room {
            from -= 1;
            rows += rows_of(&lines[from]);
        }
        if from == lines.len() {
            // Even the last line alone does not fit.
            let hidden = format!("{prompt}[{} bytes]", text::number(self.text.len() as u64));
            return (hidden, 1);
        }
        (lines[from..].join("\r\n"), rows)
    }
}

enum Key {
    Text(char),
    Enter,
    NewLine,
    Backspace,
    DeleteWord,
    DeleteAll,
    PasteStart,
    PasteEnd,
    Interrupt,
    EndOfInput,
    Ignored,
}

/// Parses the first key and its length. Returns `None` if the key is incomplete.
fn key(bytes: &[u8], pasting: bool) -> Option<(Key, usize)> {
    let first = *bytes.first()?;
    if first == 0x1b {
        return escape(bytes, pasting);
    }
    let key = match first {
        b'\r' | b'\n' => Key::Enter,
        b'\t' => Key::Text('\t'),
        _ if first >= 0x80 => return character(bytes),
        0x20..=0x7e => Key::Text(char::from(first)),
        _ if pasting => Key::Ignored,
        0x03 => Key::Interrupt,
        0x04 => Key::EndOfInput,
        0x7f | 0x08 => Key::Backspace,
        0x15 => Key::DeleteAll,
        0x17 => Key::DeleteWord,
        _ => Key::Ignored,
    };
    Some((key, 1))
}

/// Parses a multi-byte character. Invalid bytes are skipped.
fn character(bytes: &[u8]) -> Option<(Key, usize)> {
    let length = bytes.len().min(4);
    match std::str::from_utf8(&bytes[..length]) {
        Ok(text) => text.chars().next().map(|c| (Key::Text(c), c.len_utf8())),
        Err(error) if error.valid_up_to() > 0 => {
            let whole = std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?;
            whole.chars().next().map(|c| (Key::Text(c), c.len_utf8()))
        }
        Err(error) => error.error_len().map(|length| (Key::Ignored, length)),
    }
}

fn escape(bytes: &[u8], pasting: bool) -> Option<(Key, usize)> {
    for (mark, key) in [(PASTE_START, Key::PasteStart), (PASTE_END, Key::PasteEnd)] {
        if bytes.starts_with(mark) {
            return Some((key, mark.len()));
        }
        // A lone escape does nothing, so it can wait for the rest of its sequence.
        if mark.starts_with(bytes) {
            return None;
        }
    }
    match bytes.get(1) {
        Some(b'\r' | b'\n') if !pasting => Some((Key::NewLine, 2)),
        Some(b'[' | b'O') => {
            let end = bytes[2..]
                .iter()
                .position(|byte| (0x40..=0x7e).contains(byte));
            match end {
                Some(end) => Some((Key::Ignored, end + 3)),
                None if bytes.len() > 32 => Some((Key::Ignored, 1)),
                None => None,
            }
        }
        _ => Some((Key::Ignored, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(chunks: &[&[u8]]) -> Vec<Typed> {
        let mut line = Line::default();
        let all = chunks.iter().map(|chunk| line.feed(chunk));
        all.filter(|typed| *typed != Typed::More).collect()
    }

    fn message(text: &str) -> Vec<Typed> {
        vec![Typed::Message(text.to_owned())]
    }

    #[test]
    fn typed_text_can_be_edited_at_its_end() {
        assert_eq!(typed(&[b"helo", b"\x7f", b"lo", b"\r"]), message("hello"));
        assert_eq!(typed(&[b"one two ", b"\x17", b"\r"]), message("one "));
        assert_eq!(typed(&[b"gone", b"\x15", b"here", b"\r"]), message("here"));
        assert_eq!(typed(&[b"gone", b"\x03", b"here", b"\r"]), message("here"));
        assert_eq!(typed(&["é".as_bytes(), b"\x7f", b"e\r"]), message("e"));
        assert_eq!(typed(&[b"a\x1b[D\x1b[1;5Cb\r"]), message("ab"));
    }

    #[test]
    fn pasted_text_stays_one_message() {
        let pasted = b"\x1b[200~one\rtwo\nthree\x1b[201~";
        assert_eq!(typed(&[pasted, b"\r"]), message("one\ntwo\nthree"));
        // Split at every position, and without paste markers.
        for at in 1..pasted.len() {
            let (head, tail) = pasted.split_at(at);
            let messages = typed(&[head, tail, b"\r"]);
            assert_eq!(messages, message("one\ntwo\nthree"), "{at}");
        }
        assert_eq!(
            typed(&[b"one\rtwo\rthree", b"\r"]),
            message("one\ntwo\nthree")
        );
        let hostile = b"\x1b[200~a\x03\x04\x15b\x1b[201~";
        assert_eq!(typed(&[hostile, b"\r"]), message("ab"));
    }

    #[test]
    fn new_line_does_not_send() {
        assert_eq!(
            typed(&[b"one\\", b"\r", b"two", b"\r"]),
            message("one\ntwo")
        );
        assert_eq!(typed(&[b"one\x1b\r", b"two", b"\r"]), message("one\ntwo"));
    }

    #[test]
    fn leaving_needs_an_empty_line() {
        assert_eq!(typed(&[b"\x04"]), [Typed::Leave]);
        assert_eq!(typed(&[b"\x03"]), [Typed::Leave]);
        assert_eq!(typed(&[b"a", b"\x04", b"\r"]), message("a"));
    }

    #[test]
    fn split_characters_are_joined_and_invalid_ones_skipped() {
        let euro = "€".as_bytes();
        assert_eq!(typed(&[&euro[..1], &euro[1..], b"\r"]), message("€"));
        assert_eq!(typed(&[b"a\xffb\r"]), message("ab"));
    }

    #[test]
    fn lines_beyond_the_screen_are_dropped_at_the_top() {
        let mut line = Line::default();
        line.feed(b"\x1b[200~one\rtwo\rthree\x1b[201~");
        assert_eq!(
            line.render("> ", 80, 24),
            ("> one\r\n  two\r\n  three".into(), 3)
        );
        assert_eq!(line.render("> ", 80, 3).0, "  two\r\n  three");
        line.feed("x".repeat(500).as_bytes());
        assert_eq!(line.render("> ", 80, 3), ("> [513 bytes]".into(), 1));
    }
}
