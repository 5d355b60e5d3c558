//! Where the marks stand from which a closer look begins.
//!
//! Compiling a pattern of all marks takes as long as looking through many kilobytes letter by letter,
//! and most commands only ever see short texts: so the pattern is made for the first long one.

use std::sync::OnceLock;

use regex::Regex;

/// Longer texts are searched with the pattern, many bytes at a time.
const SHORT: usize = 4096;

/// Words that are searched for. All of them are ASCII.
pub(super) struct Marks {
    /// By their first byte. A mark that begins another stands after it.
    by_first: Vec<Vec<&'static str>>,
    pattern: OnceLock<Regex>,
}

impl Marks {
    pub(super) fn new(words: impl IntoIterator<Item = &'static str>) -> Self {
        let mut by_first = vec![Vec::new(); 256];
        for word in words {
            by_first[usize::from(word.as_bytes()[0])].push(word);
        }
        for words in &mut by_first {
            words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        }
        Self {
            by_first,
            pattern: OnceLock::new(),
        }
    }

    /// The longest mark that begins at `at`.
    pub(super) fn at(&self, text: &str, at: usize) -> Option<&'static str> {
        let rest = text.as_bytes().get(at..)?;
        let words = &self.by_first[usize::from(*rest.first()?)];
        let mut fitting = words.iter().copied();
        fitting.find(|word| rest.starts_with(word.as_bytes()))
    }

    /// The first mark that does not begin before `from`, and where it begins.
    pub(super) fn next(&self, text: &str, from: usize) -> Option<(usize, &'static str)> {
        let found = |at: usize| self.at(text, at).map(|word| (at, word));
        if text.len() <= SHORT {
            return (from..text.len()).find_map(found);
        }
        found(self.pattern().find_at(text, from)?.start())
    }

    fn pattern(&self) -> &Regex {
        self.pattern.get_or_init(|| {
            let words = self.by_first.iter().flatten();
            let words: Vec<String> = words.map(|word| regex::escape(word)).collect();
            Regex::new(&words.join("|")).expect("escaped words are a pattern")
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn short_and_long_texts_are_searched_alike(text in "([abc]|é){0,60}") {
            let marks = Marks::new(["ab", "abc", "b", "cab"]);
            let long = format!("{text}{}", "-".repeat(SHORT));
            let all = |text: &str| {
                let mut found = Vec::new();
                while let Some((at, word)) = marks.next(text, found.last().map_or(0, |(_, end)| *end)) {
                    found.push((at, at + word.len()));
                }
                found
            };
            prop_assert_eq!(all(&text), all(&long));
        }
    }
}
