//! Applies keys to the text that is being typed.
//!
//! Pasted text stays one text, however many lines it has. Alt-Enter, or a backslash before Enter,
//! starts a new line. Ctrl-C and Ctrl-D leave an empty prompt.

use super::buffer::Buffer;
use super::history::History;
use super::keys::{Key, Parser, Press};

/// Result of processing some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// The text is not complete.
    More,
    /// The screen should be cleared.
    ClearScreen,
    Message(String),
    /// The user asked to leave.
    Leave,
}

/// The text that is being typed, and what was typed before.
#[derive(Debug, Default)]
pub(crate) struct Editor {
    parser: Parser,
    buffer: Buffer,
    history: History,
}

impl Editor {
    /// Processes bytes from the keyboard. Bytes after the end of a message stay for the next call.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Typed {
        self.parser.push(bytes);
        while let Some(press) = self.parser.next() {
            match self.apply(&press) {
                Typed::More => {}
                typed => return typed,
            }
        }
        Typed::More
    }

    pub(super) fn text(&self) -> &str {
        self.buffer.text()
    }

    pub(super) fn cursor(&self) -> usize {
        self.buffer.cursor()
    }

    fn apply(&mut self, press: &Press) -> Typed {
        let buffer = &mut self.buffer;
        match press.key {
            Key::Text(c) => buffer.insert(c),
            Key::Enter if press.pasted => buffer.insert('\n'),
            Key::Enter if buffer.text()[..buffer.cursor()].ends_with('\\') => {
                buffer.backspace();
                buffer.insert('\n');
            }
            Key::Enter => {
                let text = buffer.take();
                self.history.push(&text);
                return Typed::Message(text);
            }
            Key::NewLine => buffer.insert('\n'),
            Key::Backspace => buffer.backspace(),
            Key::DeleteWord => buffer.delete_word(),
            Key::DeleteWordForward => buffer.delete_word_forward(),
            Key::DeleteToLineEnd => buffer.delete_to_line_end(),
            Key::DeleteAll => buffer.delete_all(),
            Key::Yank => buffer.yank(),
            Key::Left => buffer.left(),
            Key::Right => buffer.right(),
            Key::WordLeft => buffer.word_left(),
            Key::WordRight => buffer.word_right(),
            Key::LineStart => buffer.line_start(),
            Key::LineEnd => buffer.line_end(),
            Key::Up => {
                if !buffer.up()
                    && let Some(text) = self.history.older(buffer.text())
                {
                    buffer.set(text);
                }
            }
            Key::Down => {
                if !buffer.down()
                    && let Some(text) = self.history.newer()
                {
                    buffer.set(text);
                }
            }
            Key::ClearScreen => return Typed::ClearScreen,
            Key::Interrupt | Key::EndOfInput if buffer.text().is_empty() => return Typed::Leave,
            Key::Interrupt => {
                buffer.delete_all();
                self.history.close();
            }
            Key::Delete | Key::EndOfInput => buffer.delete(),
        }
        Typed::More
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: &[u8] = b"\x1b[D";
    const UP: &[u8] = b"\x1b[A";
    const DOWN: &[u8] = b"\x1b[B";

    fn typed(chunks: &[&[u8]]) -> Vec<Typed> {
        let mut editor = Editor::default();
        let all = chunks.iter().map(|chunk| editor.feed(chunk));
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
    }

    #[test]
    fn cursor_moves_by_character_word_and_line() {
        for (keys, expected) in [
            (&b"ac\x1b[Db"[..], "abc"),
            (b"ac\x02b", "abc"),
            (b"bc\x01a\x05d", "abcd"),
            (b"bc\x1b[Ha\x1b[Fd", "abcd"),
            (b"bc\x1bOHa\x1bOFd", "abcd"),
            (b"bc\x1b[1~a\x1b[4~d", "abcd"),
            (b"one two\x1b[1;5Dx", "one xtwo"),
            (b"one two\x1bb\x1bbx\x1bfy", "xoney two"),
            (b"abc\x01\x1b[3~", "bc"),
            (b"abc\x01\x04", "bc"),
            (b"one two\x01\x1bd", " two"),
            (b"one two\x1bb\x0b", "one "),
            (b"one two\x17\x01\x19", "twoone "),
            (b"ab\x1b[99;1Xc", "abc"),
        ] {
            assert_eq!(typed(&[keys, b"\r"]), message(expected), "{keys:?}");
        }
        // Enter sends the whole text wherever the cursor is.
        assert_eq!(typed(&[b"abc", LEFT, LEFT, b"\r"]), message("abc"));
    }

    #[test]
    fn cursor_moves_over_whole_characters() {
        // A family of four code points, a flag of two, a letter with a combining accent.
        for cluster in ["👩\u{200d}👧", "🇫🇷", "e\u{301}", "漢"] {
            let text = format!("a{cluster}b");
            let left = [text.as_bytes(), LEFT, LEFT, b"|\r"];
            assert_eq!(typed(&left), message(&format!("a|{cluster}b")));
            let deleted = [text.as_bytes(), LEFT, b"\x7f\r"];
            assert_eq!(typed(&deleted), message("ab"));
        }
    }

    #[test]
    fn arrows_reach_earlier_texts_and_return_to_the_draft() {
        let mut editor = Editor::default();
        for text in [&b"one\r"[..], b"two\r", b"two\r", b"  \r"] {
            editor.feed(text);
        }
        editor.feed(b"draft");
        let mut press = |key: &[u8]| {
            editor.feed(key);
            editor.text().to_owned()
        };
        assert_eq!(press(UP), "two");
        assert_eq!(press(UP), "one");
        assert_eq!(press(UP), "one", "there is no older one");
        assert_eq!(press(DOWN), "two");
        assert_eq!(press(DOWN), "draft");
        assert_eq!(press(DOWN), "draft");
        assert_eq!(press(b"\x10\x10!"), "one!");
    }

    #[test]
    fn arrows_move_inside_a_text_of_several_lines() {
        let mut editor = Editor::default();
        editor.feed(b"old\r");
        editor.feed("\x1b[200~first\n漢\nthird\x1b[201~".as_bytes());
        editor.feed(&[UP, UP, b"|"].concat());
        assert_eq!(editor.text(), "fi|rst\n漢\nthird");
        editor.feed(&[DOWN, DOWN, b"|"].concat());
        assert_eq!(editor.text(), "fi|rst\n漢\nth|ird");
        editor.feed(&[UP, UP, UP].concat());
        assert_eq!(editor.text(), "old");
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
        let hostile = b"\x1b[200~a\x03\x04\x15\x1b[D\x1bbb\x1b[201~";
        assert_eq!(typed(&[hostile, b"\r"]), message("abb"));
        // Into the middle of a text.
        let inside = [b"ad", LEFT, b"\x1b[200~b\nc\x1b[201~", b"\r"];
        assert_eq!(typed(&inside), message("ab\ncd"));
    }

    #[test]
    fn new_line_does_not_send() {
        let lines = [&b"one\\"[..], b"\r", b"two", b"\r"];
        assert_eq!(typed(&lines), message("one\ntwo"));
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
}
