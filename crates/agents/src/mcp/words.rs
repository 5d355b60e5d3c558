//! Words of strangers, made fit to be passed on.

/// The text without what a terminal would act on or a reader cannot see, and cut if it is longer
/// than `longest` bytes.
pub(crate) fn clean(text: &str, longest: usize) -> String {
    let shown = text.chars().filter(|c| !is_hidden(*c));
    let mut kept = String::new();
    for c in shown {
        if kept.len() + c.len_utf8() > longest {
            kept.push('…');
            break;
        }
        kept.push(c);
    }
    kept
}

/// Characters that act instead of being read: controls, changes of direction, invisible tags.
fn is_hidden(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
        || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn what_acts_is_removed_and_what_is_long_is_cut() {
        for (text, longest, expected) in [
            ("plain\n\ttext ü", 99, "plain\n\ttext ü"),
            ("\u{1b}[31mred\u{7}\r\0", 99, "[31mred"),
            ("a\u{202E}b\u{E0041}c", 99, "abc"),
            ("long", 4, "long"),
            ("longer", 4, "long…"),
            ("aü", 2, "a…"),
            ("", 0, ""),
        ] {
            assert_eq!(clean(text, longest), expected, "{text:?}");
        }
    }
}
