//! A text as a program would read it: with escapes decoded, or without line breaks.
//!
//! A view maps each of its positions back to the text that it was made from. Its map has one step per
//! change, so it takes memory in proportion to the text; callers bound the text.

use std::ops::Range;

/// Line breaks are removed only after this many base64 digits: shorter lines are words.
const SHORTEST_LINE: usize = 16;

/// Indentation after a removed line break.
const LONGEST_INDENTATION: usize = 32;

/// The longest named or numbered entity, without `&` and `;`.
const LONGEST_ENTITY: usize = 8;

/// The positions from which on `bytes` of the view come from `source`.
struct Step {
    view: usize,
    source: usize,
    /// How many bytes of the source the next bytes of the view stand for, if that is an escape.
    escape: Option<usize>,
}

/// Which escapes a view decodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Escapes {
    All,
    /// Those of JSON, shells and code.
    Backslash,
}

/// A changed copy of a text.
pub(super) struct View {
    pub(super) bytes: Vec<u8>,
    steps: Vec<Step>,
    /// Whether both kinds of escapes were decoded. Then a percent sign may have belonged to the text,
    /// and have taken letters of a value with it.
    pub(super) mixed: bool,
}

impl View {
    fn new(capacity: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(capacity),
            steps: vec![Step {
                view: 0,
                source: 0,
                escape: None,
            }],
            mixed: false,
        }
    }

    /// `text` with JSON, shell and code escapes, percent escapes and entities decoded once; `None` if
    /// it has none.
    pub(super) fn unescaped(text: &[u8], escapes: Escapes) -> Option<Self> {
        let marks: &[u8] = match escapes {
            Escapes::All => b"\\%&",
            Escapes::Backslash => b"\\",
        };
        let (mut backslash, mut other) = (false, false);
        let mut view: Option<Self> = None;
        let (mut at, mut plain) = (0, 0);
        while let Some(next) = text[at..].iter().position(|byte| marks.contains(byte)) {
            at += next;
            let Some((width, decoded)) = escape(&text[at..]) else {
                at += 1;
                continue;
            };
            backslash |= text[at] == b'\\';
            other |= text[at] != b'\\';
            let view = view.get_or_insert_with(|| Self::new(text.len()));
            view.bytes.extend_from_slice(&text[plain..at]);
            view.step(at, Some(width));
            let mut utf8 = [0; 4];
            view.bytes.extend_from_slice(match decoded {
                Decoded::Byte(byte) => {
                    utf8[0] = byte;
                    &utf8[..1]
                }
                Decoded::Char(character) => character.encode_utf8(&mut utf8).as_bytes(),
            });
            at += width;
            plain = at;
            view.step(at, None);
        }
        view.map(|mut view| {
            view.bytes.extend_from_slice(&text[plain..]);
            view.mixed = backslash && other;
            view
        })
    }

    /// `text` without line breaks between base64 digits and without separators between hexadecimal
    /// bytes; `None` if it has none.
    pub(super) fn joined(text: &[u8]) -> Option<Self> {
        let mut view: Option<Self> = None;
        let (mut at, mut plain) = (0, 0);
        while let Some(next) = text[at..].iter().position(|byte| b"\n\r :-".contains(byte)) {
            at += next;
            let Some(width) = gap(text, at) else {
                at += 1;
                continue;
            };
            let view = view.get_or_insert_with(|| Self::new(text.len()));
            view.bytes.extend_from_slice(&text[plain..at]);
            at += width;
            plain = at;
            view.step(at, None);
        }
        view.map(|mut view| {
            view.bytes.extend_from_slice(&text[plain..]);
            view
        })
    }

    fn step(&mut self, source: usize, escape: Option<usize>) {
        self.steps.push(Step {
            view: self.bytes.len(),
            source,
            escape,
        });
    }

    /// The part of the source that `range` of the view stands for.
    pub(super) fn source(&self, range: &Range<usize>) -> Range<usize> {
        let step = |at: usize| {
            let after = self.steps.partition_point(|step| step.view <= at);
            &self.steps[after - 1]
        };
        let first = step(range.start);
        let start = match first.escape {
            Some(_) => first.source,
            None => first.source + range.start - first.view,
        };
        // The last byte decides where the range ends: a gap after it does not belong to it.
        let last = step(range.end - 1);
        let end = match last.escape {
            Some(width) => last.source + width,
            None => last.source + range.end - last.view,
        };
        start..end
    }
}

enum Decoded {
    Byte(u8),
    Char(char),
}

/// The escape at the start of `text`: its length and what it stands for.
fn escape(text: &[u8]) -> Option<(usize, Decoded)> {
    match text {
        [b'%', rest @ ..] => Some((3, Decoded::Byte(u8::try_from(number(rest, 2, 16)?).ok()?))),
        [b'&', rest @ ..] => entity(rest),
        [b'\\', b'x', rest @ ..] if number(rest, 2, 16).is_some() => {
            let byte = number(rest, 2, 16)?;
            Some((4, Decoded::Byte(u8::try_from(byte).ok()?)))
        }
        [b'\\', b'u' | b'U', rest @ ..] if let Some((width, c)) = code_point(rest) => {
            Some((width + 2, Decoded::Char(c)))
        }
        [b'\\', b'0'..=b'3', b'0'..=b'7', b'0'..=b'7', ..] => {
            let byte = number(&text[1..], 3, 8)?;
            Some((4, Decoded::Byte(u8::try_from(byte).ok()?)))
        }
        // In HTML a backslash is no escape.
        [b'\\', b'&', rest @ ..] if entity(rest).is_some() => None,
        [b'\\', letter, ..] if letter.is_ascii() => Some((
            2,
            Decoded::Byte(match letter {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'b' => 8,
                b'f' => 12,
                other => *other,
            }),
        )),
        _ => None,
    }
}

/// The number that the first `digits` bytes of `text` write.
fn number(text: &[u8], digits: usize, radix: u32) -> Option<u32> {
    text.get(..digits)?.iter().try_fold(0, |number, byte| {
        Some(number * radix + char::from(*byte).to_digit(radix)?)
    })
}

/// The character after `\u`: four digits, a pair of surrogates, eight digits, or digits in braces.
fn code_point(text: &[u8]) -> Option<(usize, char)> {
    if let [b'{', rest @ ..] = text {
        let digits = rest.iter().take(7).position(|byte| *byte == b'}')?;
        let character = char::from_u32(number(rest, digits, 16)?)?;
        return Some((digits + 2, character));
    }
    let first = number(text, 4, 16)?;
    if let Some(character) = char::from_u32(first).filter(|_| first > 0) {
        return Some((4, character));
    }
    if first == 0 {
        return Some((8, char::from_u32(number(text, 8, 16)?)?));
    }
    let [b'\\', b'u', low @ ..] = text.get(4..)? else {
        return None;
    };
    let pair = [first, number(low, 4, 16)?].map(|half| u16::try_from(half).unwrap_or(0));
    let character = char::decode_utf16(pair).next()?.ok()?;
    Some((10, character))
}

/// The entity after `&`.
fn entity(text: &[u8]) -> Option<(usize, Decoded)> {
    let length = text
        .iter()
        .take(LONGEST_ENTITY + 1)
        .position(|byte| *byte == b';')?;
    let character = match &text[..length] {
        b"amp" => '&',
        b"lt" => '<',
        b"gt" => '>',
        b"quot" => '"',
        b"apos" => '\'',
        [b'#', b'x' | b'X', digits @ ..] => char::from_u32(number(digits, digits.len(), 16)?)?,
        [b'#', digits @ ..] => char::from_u32(number(digits, digits.len(), 10)?)?,
        _ => return None,
    };
    Some((length + 2, Decoded::Char(character)))
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte)
}

/// The length of the gap at `at`: a line break inside of base64, or a separator of hexadecimal bytes.
fn gap(text: &[u8], at: usize) -> Option<usize> {
    let (before, after) = (&text[..at], &text[at..]);
    if b"\r\n".contains(&after[0]) {
        let line = before.get(at.checked_sub(SHORTEST_LINE)?..)?;
        let indentation = after
            .iter()
            .take(LONGEST_INDENTATION)
            .position(|byte| !b"\r\n \t".contains(byte))?;
        let next = after[indentation];
        return (is_digit(next) && line.iter().all(|byte| is_digit(*byte))).then_some(indentation);
    }
    let hex = |bytes: &mut dyn Iterator<Item = &u8>| {
        bytes
            .take(9)
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count()
    };
    let follows =
        matches!(after, [_, high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit());
    (follows && matches!(hex(&mut before.iter().rev()), 2 | 4 | 8)).then_some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(view: Option<View>) -> Option<String> {
        view.map(|view| String::from_utf8_lossy(&view.bytes).into_owned())
    }

    #[test]
    fn escapes_are_decoded_once() {
        for (escaped, plain) in [
            (r#"a\"b\\c\/d"#, r#"a"b\c/d"#),
            (r"\u0041\u00e9\ud83d\ude00\u{42}\U00000043", "Aé😀BC"),
            (r"\x41\101\n", "AA\n"),
            ("%41%2f%2F%zz", "A//%zz"),
            ("&amp;&#65;&#x42;&no;\\&#39;", "&AB&no;\\'"),
            (r"\\u0041 %2541", r"\u0041 %41"),
            (r"\ud800x", "ud800x"),
        ] {
            let view = text(View::unescaped(escaped.as_bytes(), Escapes::All));
            assert_eq!(view.as_deref(), Some(plain), "{escaped}");
        }
        assert!(View::unescaped(b"100% & more\\", Escapes::All).is_none());
    }

    #[test]
    fn line_breaks_and_separators_are_removed() {
        let line = "QUJDREVGR0hJSktMTU5P";
        let wrapped = format!("{line}\r\n  {line}\n\nend.");
        assert_eq!(
            text(View::joined(wrapped.as_bytes())),
            Some(format!("{line}{line}end."))
        );
        assert_eq!(
            text(View::joined(b"61:62-63 64")).as_deref(),
            Some("61626364")
        );
        assert!(View::joined(b"a short\nline 12: and more").is_none());
    }

    #[test]
    fn ranges_map_back_to_the_source() {
        let source = br"x\u0041bc%20y";
        let view = View::unescaped(source, Escapes::All).unwrap();
        assert_eq!(view.bytes, b"xAbc y");
        assert_eq!(view.source(&(1..4)), 1..9);
        assert_eq!(view.source(&(0..2)), 0..7);
        assert_eq!(view.source(&(4..5)), 9..12);
        let joined = View::joined(b"61:62:63:64").unwrap();
        assert_eq!(joined.source(&(2..4)), 3..5, "the separators stay");
    }
}
