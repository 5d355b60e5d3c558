//! Fits text to a width, and renders numbers. What a terminal would interpret is removed by
//! [`sanitize`].

use std::borrow::Cow;

pub(crate) use segno_core::sanitize::{sanitize, sanitize_lines};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

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
