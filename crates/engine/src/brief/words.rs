//! Words of others, made fit for one line of a brief.

/// A text in one line: without anything that is not seen or changes how the rest is read, and cut to
/// `most` characters. What would begin a section or close a fence cannot: a line has no end inside.
pub(super) fn line(text: &str, most: usize) -> String {
    let (mut line, mut kept, mut space) = (String::new(), 0, false);
    for c in text.chars() {
        if c.is_whitespace() {
            space = !line.is_empty();
            continue;
        }
        if is_unseen(c) {
            continue;
        }
        if kept >= most {
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

/// Whether a character is not seen, or turns the direction of reading.
fn is_unseen(c: char) -> bool {
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
    fn a_line_is_one_line_of_what_can_be_seen() {
        for (text, expected) in [
            ("  a\n\n## b\t c ", "a ## b c"),
            ("a\u{202E}b\u{200B}c\u{1b}[31m", "abc[31m"),
            ("\u{E0041}x", "x"),
            ("abcdef", "abcd…"),
            ("ab cdef", "ab c…"),
            ("", ""),
        ] {
            assert_eq!(
                line(
                    text,
                    4.max(expected.chars().count() - usize::from(expected.ends_with('…')))
                ),
                expected
            );
        }
    }
}
