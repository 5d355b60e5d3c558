//! Parses the bytes that a terminal sends into keys.

const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";
/// A longer escape sequence is not one.
const MAX_SEQUENCE_BYTES: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Text(char),
    Enter,
    NewLine,
    Backspace,
    Delete,
    DeleteWord,
    DeleteWordForward,
    DeleteToLineEnd,
    DeleteAll,
    Yank,
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    Up,
    Down,
    ClearScreen,
    Interrupt,
    EndOfInput,
}

/// A key, and how it arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Press {
    pub(super) key: Key,
    /// Whether it is part of pasted text.
    pub(super) pasted: bool,
}

enum Parsed {
    Key(Key),
    PasteStart,
    PasteEnd,
    Ignored,
}

#[derive(Debug, Default)]
pub(super) struct Parser {
    /// Bytes that were not parsed yet.
    pending: Vec<u8>,
    pasting: bool,
}

impl Parser {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Parses the next key. Returns `None` if there is no complete one.
    pub(super) fn next(&mut self) -> Option<Press> {
        let mut at = 0;
        let found = loop {
            let Some((parsed, length)) = parse(&self.pending[at..], self.pasting) else {
                break None;
            };
            at += length;
            match parsed {
                Parsed::PasteStart => self.pasting = true,
                Parsed::PasteEnd => self.pasting = false,
                Parsed::Ignored => {}
                Parsed::Key(key) => {
                    // A terminal without bracketed paste sends the whole paste at once.
                    let more = key == Key::Enter && at < self.pending.len();
                    let pasted = self.pasting || more;
                    break Some(Press { key, pasted });
                }
            }
        };
        self.pending.drain(..at);
        found
    }
}

/// Parses the first key and its length. Returns `None` if the key is incomplete.
fn parse(bytes: &[u8], pasting: bool) -> Option<(Parsed, usize)> {
    let first = *bytes.first()?;
    if first == 0x1b {
        return escape(bytes, pasting);
    }
    let key = match first {
        b'\r' | b'\n' => Key::Enter,
        b'\t' => Key::Text('\t'),
        0x80.. => return character(bytes),
        0x20..=0x7e => Key::Text(char::from(first)),
        _ if pasting => return Some((Parsed::Ignored, 1)),
        0x01 => Key::LineStart,
        0x02 => Key::Left,
        0x03 => Key::Interrupt,
        0x04 => Key::EndOfInput,
        0x05 => Key::LineEnd,
        0x06 => Key::Right,
        0x7f | 0x08 => Key::Backspace,
        0x0b => Key::DeleteToLineEnd,
        0x0c => Key::ClearScreen,
        0x0e => Key::Down,
        0x10 => Key::Up,
        0x15 => Key::DeleteAll,
        0x17 => Key::DeleteWord,
        0x19 => Key::Yank,
        _ => return Some((Parsed::Ignored, 1)),
    };
    Some((Parsed::Key(key), 1))
}

/// Parses a multi-byte character. Invalid bytes are skipped.
fn character(bytes: &[u8]) -> Option<(Parsed, usize)> {
    let text = |text: &str| {
        let c = text.chars().next()?;
        Some((Parsed::Key(Key::Text(c)), c.len_utf8()))
    };
    let window = &bytes[..bytes.len().min(4)];
    match std::str::from_utf8(window) {
        Ok(whole) => text(whole),
        Err(error) if error.valid_up_to() > 0 => {
            text(std::str::from_utf8(&window[..error.valid_up_to()]).ok()?)
        }
        Err(error) => error.error_len().map(|length| (Parsed::Ignored, length)),
    }
}

fn escape(bytes: &[u8], pasting: bool) -> Option<(Parsed, usize)> {
    let marks = [
        (PASTE_START, Parsed::PasteStart),
        (PASTE_END, Parsed::PasteEnd),
    ];
    for (mark, parsed) in marks {
        if bytes.starts_with(mark) {
            return Some((parsed, mark.len()));
        }
        // A lone escape does nothing, so it can wait for the rest of its sequence.
        if mark.starts_with(bytes) {
            return None;
        }
    }
    let (key, length) = match bytes.get(1) {
        Some(b'[' | b'O') => {
            let body = &bytes[2..];
            let end = body.iter().position(|byte| (0x40..=0x7e).contains(byte));
            match end {
                Some(end) => (sequence(&body[..=end]), end + 3),
                None if bytes.len() > MAX_SEQUENCE_BYTES => (None, 1),
                None => return None,
            }
        }
        Some(b'\r' | b'\n') => (Some(Key::NewLine), 2),
        Some(b'b') => (Some(Key::WordLeft), 2),
        Some(b'f') => (Some(Key::WordRight), 2),
        Some(b'd') => (Some(Key::DeleteWordForward), 2),
        Some(0x7f | 0x08) => (Some(Key::DeleteWord), 2),
        _ => (None, 1),
    };
    match key {
        Some(key) if !pasting => Some((Parsed::Key(key), length)),
        // In pasted text an escape is dropped, and the character after it is text.
        Some(_) if length == 2 => Some((Parsed::Ignored, 1)),
        _ => Some((Parsed::Ignored, length)),
    }
}

/// Parses the part of a sequence after `ESC [` or `ESC O`.
fn sequence(body: &[u8]) -> Option<Key> {
    let (last, parameters) = body.split_last()?;
    // `;3` is Alt, `;5` is Ctrl.
    let by_word = parameters.ends_with(b";3") || parameters.ends_with(b";5");
    Some(match (last, parameters) {
        (b'A', _) => Key::Up,
        (b'B', _) => Key::Down,
        (b'C', _) if by_word => Key::WordRight,
        (b'D', _) if by_word => Key::WordLeft,
        (b'C', _) => Key::Right,
        (b'D', _) => Key::Left,
        (b'H', _) | (b'~', b"1" | b"7") => Key::LineStart,
        (b'F', _) | (b'~', b"4" | b"8") => Key::LineEnd,
        (b'~', b"3;5") => Key::DeleteWordForward,
        (b'~', b"3") => Key::Delete,
        _ => return None,
    })
}
