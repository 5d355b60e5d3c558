//! Sanitizes text from servers and agents.

/// Removes characters that a terminal would act on or a reader cannot see, and truncates to
/// `max_bytes` bytes.
pub(crate) fn sanitize(text: &str, max_bytes: usize) -> String {
    let shown = text.chars().filter(|c| !is_hidden(*c));
    let mut kept = String::new();
    for c in shown {
        if kept.len() + c.len_utf8() > max_bytes {
            kept.push('…');
            break;
        }
        kept.push(c);
    }
    kept
}

/// Characters that have an effect instead of being displayed: controls, bidi overrides, invisible
/// tags.
fn is_hidden(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
        || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use super::sanitize;

    #[test]
    fn sanitize_removes_controls_and_truncates() {
        for (text, max_bytes, expected) in [
            ("plain\n\ttext ü", 99, "plain\n\ttext ü"),
            ("\u{1b}[31mred\u{7}\r\0", 99, "[31mred"),
            ("a\u{202E}b\u{E0041}c", 99, "abc"),
            ("long", 4, "long"),
            ("longer", 4, "long…"),
            ("aü", 2, "a…"),
            ("", 0, ""),
        ] {
            assert_eq!(sanitize(text, max_bytes), expected, "{text:?}");
        }
    }
}
