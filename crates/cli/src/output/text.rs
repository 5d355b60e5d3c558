//! Sanitizes foreign text for terminals, and truncates it to a width.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Makes a text safe for a terminal, on one line: control characters, and with them escape codes,
/// become visible symbols, and characters that change the reading direction are replaced.
pub(crate) fn sanitize(text: &str) -> Cow<'_, str> {
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
pub(crate) fn sanitize_lines(text: &str) -> String {
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

pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control() || changes_direction(c)
}

fn changes_direction(c: char) -> bool {
    matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{061C}')
}

/// Width of a text in columns.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// Truncates a text to `room` columns, with an ellipsis.
pub(crate) fn fit(text: &str, room: usize) -> Cow<'_, str> {
    if columns(text) <= room {
        return Cow::Borrowed(text);
    }
    let (mut cut, mut used) = (String::new(), 0);
    for cluster in text.graphemes(true) {
        used += columns(cluster);
        if used > room.saturating_sub(1) {
            break;
        }
        cut.push_str(cluster);
    }
    if room > 0 {
        cut.push('…');
    }
    Cow::Owned(cut)
}

/// Formats a number with thousands separators: `1,234,567`.
pub(crate) fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number with a noun: `1 step`, `2 steps`.
pub(crate) fn count(n: u64, thing: &str) -> String {
    format!("{} {thing}{}", number(n), if n == 1 { "" } else { "s" })
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
    fn text_is_truncated_to_the_width() {
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdefg", 6), "abcde…");
        assert_eq!(fit("漢字漢字", 5), "漢字…");
        assert_eq!(fit("abc", 0), "");
    }

    #[test]
    fn numbers_have_thousands_separators() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(number),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            (count(1, "step"), count(2, "step")),
            ("1 step".into(), "2 steps".into())
        );
    }
}
