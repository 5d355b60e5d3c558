//! Makes foreign text safe for a terminal, and for readers of a terminal's output.
//!
//! Agents, files and users write texts with escape codes and with characters that change the
//! reading direction. A text is sanitized when it is shown; what is stored stays as it is.

use std::borrow::Cow;
use std::fmt::Write;

/// Makes a text safe for a terminal, on one line: control characters, and with them escape codes,
/// become visible symbols, and characters that change the reading direction are replaced.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| match c {
        '\n' | '\t' => ' ',
        c if changes_direction(c) => '\u{FFFD}',
        c if u32::from(c) < 0x20 => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{FFFD}'),
        '\u{7F}' => '\u{2421}',
        c if c.is_control() => '\u{FFFD}',
        c => c,
    };
    Cow::Owned(text.chars().map(shown).collect())
}

/// The same for multi-line text: newlines and tabs stay.
pub fn sanitize_lines(text: &str) -> String {
    text.split('\n')
        .map(|line| {
            line.split('\t')
                .map(sanitize)
                .collect::<Vec<_>>()
                .join("\t")
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// Escapes every character of a JSON text that a terminal would interpret. The JSON value stays the
/// same.
pub fn escape_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unsafe(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

fn is_unsafe(c: char) -> bool {
    c.is_control() || changes_direction(c)
}

fn changes_direction(c: char) -> bool {
    matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{061C}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_made_visible() {
        assert_eq!(
            sanitize("a\u{1b}[31mred\u{7}\u{202e}x\nb"),
            "a␛[31mred␇\u{FFFD}x b"
        );
        assert_eq!(
            sanitize_lines("one\ttwo\n\u{1b}]0;title\u{7}"),
            "one\ttwo\n␛]0;title␇"
        );
        assert!(matches!(
            sanitize("ordinary text, ünïcödé"),
            Cow::Borrowed(_)
        ));
    }

    #[test]
    fn escaped_json_keeps_its_value() {
        let json = "{\"text\":\"a\u{7f}b\u{202e}c ü\"}";
        assert_eq!(escape_json(json), r#"{"text":"a\u007fb\u202ec ü"}"#);
    }
}
