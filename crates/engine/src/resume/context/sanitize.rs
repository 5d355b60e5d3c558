//! Makes foreign text safe for one line of a resume context.

/// A text in one line, without invisible characters or characters that change the reading
/// direction, cut to `max` characters. It cannot start a section or close a fence, because it has
/// no line break.
pub(super) fn one_line(text: &str, max: usize) -> String {
    let (mut line, mut kept, mut space) = (String::new(), 0, false);
    for c in text.chars() {
        if c.is_whitespace() {
            space = !line.is_empty();
            continue;
        }
        if is_invisible(c) {
            continue;
        }
        if kept >= max {
            line.push('…');
            break;
        }
        if std::mem::take(&mut space) {
            line.push(' ');
            kept += 1;
        }
        line.push(c);
        kept += 1;
    }
    line
}

/// Whether a character is invisible or changes the reading direction.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{00AD}'
                | '\u{061C}'
                | '\u{180E}'
                | '\u{200B}'..='\u{200F}'
                | '\u{202A}'..='\u{202E}'
                | '\u{2060}'..='\u{206F}'
                | '\u{FE00}'..='\u{FE0F}'
                | '\u{FEFF}'
                | '\u{FFF9}'..='\u{FFFB}'
                | '\u{E0000}'..='\u{E0FFF}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_has_only_visible_characters() {
        for (text, expected) in [
            ("  a\n\n## b\t c ", "a ## b c"),
            ("a\u{202E}b\u{200B}c\u{1b}[31m", "abc[31m"),
            ("\u{E0041}x", "x"),
            ("abcdef", "abcd…"),
            ("ab cdef", "ab c…"),
            ("", ""),
        ] {
            assert_eq!(
                one_line(
                    text,
                    4.max(expected.chars().count() - usize::from(expected.ends_with('…')))
                ),
                expected
            );
        }
    }
}
