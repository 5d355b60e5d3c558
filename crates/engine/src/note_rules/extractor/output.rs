//! Normalizes command output: plain lines, of bounded length.

use std::borrow::Cow;

/// How many bytes are read from the beginning and from the end.
const BEGINNING: usize = 128 * 1024;
const END: usize = 384 * 1024;

/// The placeholder for the omitted middle.
const GAP: &str = "[output cut: the middle is omitted]";

/// The maximum length of a quoted line, in characters.
const LINE: usize = 200;

/// How many of the last lines are quoted.
const LAST: usize = 5;

/// Strips colors and other terminal control sequences; a carriage return becomes a newline. The middle
/// of very long text is omitted.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let text = if text.len() > BEGINNING + END {
        let begin = &text[..text.floor_char_boundary(BEGINNING)];
        let end = &text[text.ceil_char_boundary(text.len() - END)..];
        Cow::Owned(format!("{begin}\n{GAP}\n{end}"))
    } else {
        Cow::Borrowed(text)
    };
    if !text.contains(['\x1b', '\r', '\u{9b}']) {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\x1b' => match rest.next() {
                Some('[') => skip_sequence(&mut rest),
                Some(']') => skip_string(&mut rest),
                _ => {}
            },
            '\u{9b}' => skip_sequence(&mut rest),
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' => plain.push('\n'),
            c => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

type Rest<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Skips a control sequence, which ends with a letter. A truncated sequence consumes no text.
fn skip_sequence(rest: &mut Rest<'_>) {
    while rest.next_if(|c| (' '..='?').contains(c)).is_some() {}
    rest.next_if(|c| ('@'..='~').contains(c));
}

fn skip_string(rest: &mut Rest<'_>) {
    while let Some(c) = rest.next_if(|c| *c != '\n') {
        if c == '\x07' || (c == '\x1b' && rest.next_if_eq(&'\\').is_some()) {
            return;
        }
    }
}

/// Shortens a line to `most` characters.
pub(super) fn cut(line: &str, most: usize) -> String {
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// The lines that describe the failure: the first line that mentions an error, and the last lines.
pub(super) fn error_excerpt(text: &str) -> String {
    let lines = text.lines().map(str::trim_end);
    let lines: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
    let last = lines.len().saturating_sub(LAST);
    let first = lines[..last].iter().find(|line| mentions_error(line));
    let quoted = first.into_iter().chain(&lines[last..]);
    let quoted: Vec<String> = quoted.map(|line| cut(line, LINE)).collect();
    quoted.join("\n")
}

fn mentions_error(line: &str) -> bool {
    let begin = &line[..line.floor_char_boundary(1000)];
    let lower = begin.to_ascii_lowercase();
    let words = [
        "error",
        "fail",
        "panick",
        "fatal",
        "exception",
        "traceback",
        "cannot",
        "not found",
        "no such file",
        "denied",
        "undefined",
    ];
    words.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_are_stripped() {
        let text = "\x1b[1m\x1b[31merror\x1b[0m: x\r\n 1%\r 2%\x1b]0;title\x07 done\x1b[";
        assert_eq!(plain(text), "error: x\n 1%\n 2% done");
        assert!(matches!(plain("as it is\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn long_output_keeps_its_beginning_and_end() {
        let text = format!("begin{}end", "é".repeat(END));
        let short = plain(&text);
        assert!(short.starts_with("begin") && short.ends_with("end"));
        assert!(short.len() <= BEGINNING + END + 50, "{}", short.len());
    }

    #[test]
    fn excerpt_has_the_first_error_line_and_the_last_lines() {
        let text = "a\nb error here\nc\n\nd\ne\nf\ng\nh\n";
        assert_eq!(error_excerpt(text), "b error here\nd\ne\nf\ng\nh");
        assert_eq!(error_excerpt("only\n"), "only");
        assert_eq!(error_excerpt(&"x".repeat(999)).chars().count(), LINE + 1);
        assert_eq!(error_excerpt(""), "");
    }
}
