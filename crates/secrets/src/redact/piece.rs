//! A part of a text that is still searched, and what was found in it.

use std::ops::Range;

use super::placeholder;

/// A range of the whole text that later finders skip.
#[derive(Clone)]
pub(super) struct Hit {
    pub(super) range: Range<usize>,
    /// The text to write there; `None` for an existing placeholder.
    pub(super) replacement: Option<String>,
}

/// The text between two hits. Its ends count as word boundaries: a bracket will be next to them.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) text: &'a str,
    /// The piece's offset in the whole text.
    pub(super) offset: usize,
    /// Whether a hit directly precedes the piece.
    pub(super) cut_before: bool,
    /// Whether a hit directly follows the piece.
    pub(super) cut_after: bool,
    /// The name that the whole text is the value of, if known.
    pub(super) name: Option<&'a str>,
}

impl Piece<'_> {
    /// The hit that replaces `range` of this piece by a placeholder with the label `family`.
    pub(super) fn hide(&self, range: Range<usize>, family: &str) -> Hit {
        let replacement = placeholder::of(family, &self.text[range.clone()]);
        self.replace(range, replacement)
    }

    /// The hit that replaces `range` of this piece by `replacement`.
    pub(super) fn replace(&self, range: Range<usize>, replacement: String) -> Hit {
        Hit {
            range: range.start + self.offset..range.end + self.offset,
            replacement: Some(replacement),
        }
    }

    /// Whether a word may start at `at`: no letter, digit or underscore precedes it, unless that belongs
    /// to an escape (`\n`, `%3D`), as in JSON inside text and in URLs.
    pub(super) fn begins_word(&self, at: usize) -> bool {
        match &self.text.as_bytes()[..at] {
            [] | [.., b'\\', b'n' | b'r' | b't'] => true,
            [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => true,
            [.., before] => !(before.is_ascii_alphanumeric() || *before == b'_'),
        }
    }

    /// The end of the run of bytes that `belongs` accepts, starting at `at`.
    pub(super) fn run(&self, at: usize, belongs: impl Fn(u8) -> bool) -> usize {
        let rest = &self.text.as_bytes()[at..];
        at + rest
            .iter()
            .position(|byte| !belongs(*byte))
            .unwrap_or(rest.len())
    }

    /// The end of the run of at most `longest` bytes that `belongs` accepts, starting at `at`. A
    /// search that starts often must not read far each time.
    pub(super) fn bounded_run(
        &self,
        at: usize,
        longest: usize,
        belongs: impl Fn(u8) -> bool,
    ) -> usize {
        let rest = self.text.as_bytes()[at..].iter().take(longest);
        at + rest.take_while(|byte| belongs(**byte)).count()
    }
}

/// The end of the last run. Starts within it have the same end, so that a text full of starts is still
/// read once. Only for positions that move forward.
#[derive(Clone, Copy, Default)]
pub(super) struct LastRun(usize);

impl LastRun {
    /// The end of the run that `belongs` accepts and that contains `at`.
    pub(super) fn end(
        &mut self,
        piece: &Piece<'_>,
        at: usize,
        belongs: impl Fn(u8) -> bool,
    ) -> usize {
        if at >= self.0 {
            self.0 = piece.run(at, belongs);
        }
        self.0
    }
}
