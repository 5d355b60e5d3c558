//! Exact values, found in every encoding in which they are likely to appear.
//!
//! A value is searched for as it is, in base64 (at each of the three offsets, in both alphabets) and in
//! hexadecimal; not only in the text, but also in the text with its escapes decoded, up to
//! [`NESTING`] times, and with the line breaks of base64 removed. That covers JSON, JSON inside JSON,
//! shells, code, URLs and HTML, whichever characters they chose to escape.
//!
//! The time is linear in the text. The decoded copies are made of one window after the other, so their
//! memory does not depend on the text (P10).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::ops::Range;

use regex::bytes::{Regex, RegexBuilder};

use super::piece::{Hit, Piece};
use super::view::{Escapes, View};
use super::{encoding, families, placeholder};

/// Shorter values occur by accident, and replacing them would destroy ordinary words.
pub(super) const SHORTEST: usize = 8;

/// How many layers of escapes are decoded: a transcript quotes JSON that quotes a command.
const NESTING: usize = 3;

/// The smallest window that is decoded at once.
const WINDOW: usize = 256 * 1024;

/// No encoding needs more bytes than this for one byte of a value.
const EXPANSION: usize = 12;

/// One encoding of a value.
#[derive(Clone)]
struct Form {
    text: Vec<u8>,
    placeholder: String,
}

/// The values to replace, found by their first letters and then compared in full. That keeps the search
/// cheap however long the values are.
#[derive(Clone, Default)]
pub(super) struct Known {
    heads: Option<Regex>,
    forms: HashMap<Vec<u8>, Vec<Form>>,
    values: usize,
    longest: usize,
}

/// A form and its place in the piece.
struct Match<'a> {
    range: Range<usize>,
    placeholder: &'a str,
}

impl Known {
    /// `labels` maps values to their labels.
    pub(super) fn of(labels: &BTreeMap<String, String>) -> Self {
        let mut known = Self {
            values: labels.len(),
            ..Self::default()
        };
        for (value, label) in labels {
            for text in forms(value) {
                // A value that equals the name of a variable or family would match inside of
                // placeholders, and is not a secret.
                let named = |label: &str| format!("[secret:{label}:").contains(&text);
                if !labels.values().any(|label| named(label)) && !families::labels().any(named) {
                    known.add(Form {
                        placeholder: placeholder::of(label, value),
                        text: text.into_bytes(),
                    });
                }
            }
        }
        known.finish();
        known
    }

    fn add(&mut self, form: Form) {
        self.longest = self.longest.max(form.text.len());
        let head = form.text[..SHORTEST].to_vec();
        self.forms.entry(head).or_default().push(form);
    }

    fn finish(&mut self) {
        for forms in self.forms.values_mut() {
            // The longest match wins; of equal encodings the first by name, which makes the choice
            // deterministic.
            forms.sort_by(|a, b| {
                (b.text.len(), &a.placeholder).cmp(&(a.text.len(), &b.placeholder))
            });
        }
        let pattern = |head: &Vec<u8>| {
            head.iter().fold(String::new(), |mut pattern, byte| {
                // Writing to a string cannot fail.
                let _ = write!(pattern, r"\x{byte:02x}");
                pattern
            })
        };
        let mut heads: Vec<String> = self.forms.keys().map(pattern).collect();
        heads.sort_unstable();
        self.heads = (!heads.is_empty()).then(|| {
            RegexBuilder::new(&heads.join("|"))
                .unicode(false)
                .size_limit(usize::MAX)
                .build()
                .expect("escaped literals are a pattern, and its size is not limited")
        });
    }

    pub(super) fn count(&self) -> usize {
        self.values
    }

    /// Finds the known values in `piece`. Where two overlap, the first is replaced as a whole, and of
    /// the second the rest, so that nothing of either remains.
    pub(super) fn find(&self, piece: &Piece<'_>, hits: &mut Vec<Hit>) {
        let Some(heads) = &self.heads else { return };
        let text = piece.text.as_bytes();
        let mut matches = Vec::new();
        let overlap = self.longest * EXPANSION;
        let window = WINDOW.max(4 * overlap);
        let mut start = 0;
        loop {
            let end = text.len().min(start + window);
            let in_piece = |range: Range<usize>| range.start + start..range.end + start;
            self.search(heads, &text[start..end], NESTING, &in_piece, &mut matches);
            if end == text.len() {
                break;
            }
            start = end - overlap;
        }
        matches.sort_by(|a, b| {
            let order = (a.range.start, b.range.end).cmp(&(b.range.start, a.range.end));
            order.then_with(|| a.placeholder.cmp(b.placeholder))
        });
        let mut hidden = 0;
        for Match { range, placeholder } in matches {
            if range.end > hidden {
                let range = range.start.max(hidden)..range.end;
                hidden = range.end;
                hits.push(piece.replace(range, placeholder.to_owned()));
            }
        }
    }

    /// Searches `text` and its views. `source` maps a range of `text` to one of the piece.
    fn search<'a>(
        &'a self,
        heads: &Regex,
        text: &[u8],
        nesting: usize,
        source: &dyn Fn(Range<usize>) -> Range<usize>,
        matches: &mut Vec<Match<'a>>,
    ) {
        self.compare(heads, text, source, matches);
        if let Some(view) = View::joined(text) {
            let source = |range: Range<usize>| source(view.source(&range));
            self.compare(heads, &view.bytes, &source, matches);
        }
        let mut escapes = (nesting > 0).then_some(Escapes::All);
        while let Some(kind) = escapes.take()
            && let Some(view) = View::unescaped(text, kind)
        {
            let source = |range: Range<usize>| source(view.source(&range));
            self.search(heads, &view.bytes, nesting - 1, &source, matches);
            escapes = view.mixed.then_some(Escapes::Backslash);
        }
    }

    fn compare<'a>(
        &'a self,
        heads: &Regex,
        text: &[u8],
        source: &dyn Fn(Range<usize>) -> Range<usize>,
        matches: &mut Vec<Match<'a>>,
    ) {
        let mut at = 0;
        while let Some(head) = heads.find_at(text, at) {
            let forms = self
                .forms
                .get(head.as_bytes())
                .map_or(&[][..], Vec::as_slice);
            let rest = &text[head.start()..];
            if let Some(form) = forms.iter().find(|form| rest.starts_with(&form.text)) {
                matches.push(Match {
                    range: source(head.start()..head.start() + form.text.len()),
                    placeholder: &form.placeholder,
                });
            }
            at = head.start() + 1;
        }
    }
}

/// `value` as it appears in text without escapes.
fn forms(value: &str) -> BTreeSet<String> {
    let base64 = encoding::base64(value.as_bytes());
    let padded = format!("{base64}{}", "=".repeat((4 - base64.len() % 4) % 4));
    let hex = encoding::hex(value);
    let mut forms = BTreeSet::from([
        value.to_owned(),
        // In a form or query, and between single quotes in a shell.
        value.replace(' ', "+"),
        value.replace('\'', r"'\''"),
        hex.to_uppercase(),
        hex,
    ]);
    for text in encoding::base64_cores(value)
        .into_iter()
        .chain([base64, padded])
    {
        forms.insert(encoding::url_safe(&text));
        forms.insert(text);
    }
    forms.retain(|text| text.len() >= SHORTEST);
    forms
}
