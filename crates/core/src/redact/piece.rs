//! A part of a text that is still open, and what was found in it.

use std::ops::Range;

use super::placeholder;

/// A place in the whole text that is closed to further search.
#[derive(Clone)]
pub(super) struct Hit {
    pub(super) range: Range<usize>,
    /// What to write there; `None` for a placeholder that stands there already.
    pub(super) replacement: Option<String>,
}

/// The text between two hits. Its ends count as ends of words: they will stand beside a bracket.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) text: &'a str,
    /// Where the piece begins in the whole text.
    pub(super) offset: usize,
    /// A hit stands directly before the piece.
    pub(super) cut_before: bool,
    /// A hit stands directly after the piece.
    pub(super) cut_after: bool,
    /// What the whole text is the value of, if it is known.
    pub(super) name: Option<&'a str>,
}

impl Piece<'_> {
    /// The hit that hides `range` of this piece under the name of a family.
    pub(super) fn hide(&self, range: Range<usize>, family: &str) -> Hit {
        let replacement = placeholder::of(family, &self.text[range.clone()]);
        self.replace(range, replacement)
    }

    /// The hit that puts `replacement` in the place of `range` of this piece.
    pub(super) fn replace(&self, range: Range<usize>, replacement: String) -> Hit {
        Hit {
            range: range.start + self.offset..range.end + self.offset,
            replacement: Some(replacement),
        }
    }

    /// Whether a word may begin at `at`: no letter, digit or underscore stands before it, unless
    /// that belongs to an escape (`\n`, `%3D`), as in JSON inside text and in addresses.
    pub(super) fn begins_word(&self, at: usize) -> bool {
        match &self.text.as_bytes()[..at] {
            [] | [.., b'\\', b'n' | b'r' | b't'] => true,
            [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => true,
            [.., before] => !(before.is_ascii_alphanumeric() || *before == b'_'),
        }
    }

    /// Where the run of bytes that `belongs` accepts, beginning at `at`, ends.
    pub(super) fn run(&self, at: usize, belongs: impl Fn(u8) -> bool) -> usize {
        let rest = &self.text.as_bytes()[at..];
        at + rest
            .iter()
            .position(|byte| !belongs(*byte))
            .unwrap_or(rest.len())
    }
}

/// Where the last run ended. Starts inside it have the same end, so that a text full of starts is
/// still read once. For places that only move forward.
#[derive(Clone, Copy, Default)]
pub(super) struct LastRun(usize);

impl LastRun {
    /// Where the run that `belongs` accepts and that holds `at` ends.
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
