//! What is being typed: keys in, a message out.
//!
//! Plain editing at the end of the text: backspace, Ctrl-W for a word, Ctrl-U for all. What is pasted
//! stays in one piece, however many lines it has; Alt-Enter, or a backslash before Enter, begins a line.

use crate::output::plain;

const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// What came of some keys.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// Nothing yet.
    More,
    /// A message.
    Message(String),
    /// The person wants out.
    Leave,
}

/// The text that is being typed.
#[derive(Default)]
pub(super) struct Line {
    text: String,
    /// Bytes that are no whole key yet.
    pending: Vec<u8>,
    pasting: bool,
}

impl Line {
    /// One that has this text.
    pub(super) fn of(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }

    /// Takes what the keyboard sent. What comes after the end of a message stays for the next.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Typed {
        self.pending.extend_from_slice(bytes);
        while let Some((key, length)) = key(&self.pending, self.pasting) {
            self.pending.drain(..length);
            match key {
                Key::Text(c) => self.text.push(c),
                Key::Enter if self.pasting => self.text.push('\n'),
                // A terminal that does not say what is pasted sends all of it at once.
                Key::Enter if !self.pending.is_empty() => self.text.push('\n'),
                Key::Enter if self.text.ends_with('\\') => {
                    self.text.pop();
                    self.text.push('\n');
                }
                Key::Enter => return Typed::Message(std::mem::take(&mut self.text)),
                Key::NewLine => self.text.push('\n'),
                Key::Back => {
                    self.text.pop();
                }
                Key::Word => {
                    let kept = self.text.trim_end();
                    let end = kept.rfind(char::is_whitespace).map_or(0, |at| at + 1);
                    self.text.truncate(end);
                }
                Key::PasteBegins => self.pasting = true,
                Key::PasteEnds => self.pasting = false,
                Key::Interrupt | Key::End if self.text.is_empty() => return Typed::Leave,
                Key::All | Key::Interrupt => self.text.clear(),
                Key::End | Key::Nothing => {}
            }
        }
        Typed::More
    }

    /// The text as it is shown on a screen of this size, and how many rows it takes. What does not fit
    /// is left out at the top.
    pub(super) fn shown(&self, prompt: &str, width: usize, height: usize) -> (String, usize) {
        let room = height.saturating_sub(1).max(1);
        let rows_of = |line: &str| (plain::columns(line) / width.max(1)) + 1;
        let lines: Vec<String> = self
            .text
            .split('\n')
            .enumerate()
            .map(|(at, line)| {
                let line = line.replace('\t', "    ");
                let before = if at == 0 { prompt } else { "  " };
                format!("{before}{}", plain::plain(&line))
            })
            .collect();
        let (mut rows, mut from) = (0, lines.len());
        while from > 0 && rows + rows_of(&lines[from - 1]) <= room {
            from -= 1;
            rows += rows_of(&lines[from]);
        }
        if from == lines.len() {
            // Even the last line is longer than the screen.
            let hidden = format!("{prompt}[{} bytes]", plain::number(self.text.len() as u64));
            return (hidden, 1);
        }
        (lines[from..].join("\r\n"), rows)
    }
}

enum Key {
    Text(char),
    Enter,
    NewLine,
    Back,
    Word,
    All,
    PasteBegins,
    PasteEnds,
    Interrupt,
    End,
    Nothing,
}

/// The first key among some bytes, and how long it is; `None` if it is not whole.
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
        _ if pasting => Key::Nothing,
        0x03 => Key::Interrupt,
        0x04 => Key::End,
        0x7f | 0x08 => Key::Back,
        0x15 => Key::All,
        0x17 => Key::Word,
        _ => Key::Nothing,
    };
    Some((key, 1))
}

/// A character of several bytes; what is no character is passed over.
fn character(bytes: &[u8]) -> Option<(Key, usize)> {
    let length = bytes.len().min(4);
    match std::str::from_utf8(&bytes[..length]) {
        Ok(text) => text.chars().next().map(|c| (Key::Text(c), c.len_utf8())),
        Err(error) if error.valid_up_to() > 0 => {
            let whole = std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?;
            whole.chars().next().map(|c| (Key::Text(c), c.len_utf8()))
        }
        Err(error) => error.error_len().map(|length| (Key::Nothing, length)),
    }
}

fn escape(bytes: &[u8], pasting: bool) -> Option<(Key, usize)> {
    for (mark, key) in [
        (PASTE_BEGINS, Key::PasteBegins),
        (PASTE_ENDS, Key::PasteEnds),
    ] {
        if bytes.starts_with(mark) {
            return Some((key, mark.len()));
        }
        // A lone escape does nothing, so that nobody misses it while it waits for its rest.
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
                Some(end) => Some((Key::Nothing, end + 3)),
                None if bytes.len() > 32 => Some((Key::Nothing, 1)),
                None => None,
            }
        }
        _ => Some((Key::Nothing, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(chunks: &[&[u8]]) -> Vec<Typed> {
        let mut line = Line::default();
        let all = chunks.iter().map(|chunk| line.take(chunk));
        all.filter(|typed| *typed != Typed::More).collect()
    }

    fn message(text: &str) -> Vec<Typed> {
        vec![Typed::Message(text.to_owned())]
    }

    #[test]
    fn what_is_typed_can_be_edited_at_its_end() {
        assert_eq!(typed(&[b"helo", b"\x7f", b"lo", b"\r"]), message("hello"));
        assert_eq!(typed(&[b"one two ", b"\x17", b"\r"]), message("one "));
        assert_eq!(typed(&[b"gone", b"\x15", b"here", b"\r"]), message("here"));
        assert_eq!(typed(&[b"gone", b"\x03", b"here", b"\r"]), message("here"));
        assert_eq!(typed(&["é".as_bytes(), b"\x7f", b"e\r"]), message("e"));
        assert_eq!(typed(&[b"a\x1b[D\x1b[1;5Cb\r"]), message("ab"));
    }

    #[test]
    fn what_is_pasted_stays_in_one_piece() {
        let pasted = b"\x1b[200~one\rtwo\nthree\x1b[201~";
        assert_eq!(typed(&[pasted, b"\r"]), message("one\ntwo\nthree"));
        // Cut anywhere, and without marks.
        for at in 1..pasted.len() {
            let (head, tail) = pasted.split_at(at);
            let said = typed(&[head, tail, b"\r"]);
            assert_eq!(said, message("one\ntwo\nthree"), "{at}");
        }
        assert_eq!(
            typed(&[b"one\rtwo\rthree", b"\r"]),
            message("one\ntwo\nthree")
        );
        let hostile = b"\x1b[200~a\x03\x04\x15b\x1b[201~";
        assert_eq!(typed(&[hostile, b"\r"]), message("ab"));
    }

    #[test]
    fn a_line_can_be_begun_without_sending() {
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
    fn a_character_in_pieces_is_whole_and_no_character_is_passed_over() {
        let euro = "€".as_bytes();
        assert_eq!(typed(&[&euro[..1], &euro[1..], b"\r"]), message("€"));
        assert_eq!(typed(&[b"a\xffb\r"]), message("ab"));
    }

    #[test]
    fn what_does_not_fit_on_the_screen_is_left_out_at_the_top() {
        let mut line = Line::default();
        line.take(b"\x1b[200~one\rtwo\rthree\x1b[201~");
        assert_eq!(
            line.shown("> ", 80, 24),
            ("> one\r\n  two\r\n  three".into(), 3)
        );
        assert_eq!(line.shown("> ", 80, 3).0, "  two\r\n  three");
        line.take("x".repeat(500).as_bytes());
        assert_eq!(line.shown("> ", 80, 3), ("> [513 bytes]".into(), 1));
    }
}
