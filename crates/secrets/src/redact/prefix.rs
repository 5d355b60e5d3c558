//! Searches for the fixed words from which a detailed match starts.

/// The words to search for. All of them are ASCII and have at least three letters.
pub(super) struct Prefixes {
    /// The words by their first byte. A longer word comes before its own prefix.
    by_first: Vec<Vec<&'static str>>,
    /// The pairs of first and second bytes, and of second and third bytes. The lookup of a pair is very
    /// cheap, and at hardly any position of a text both pairs are known.
    first: Pairs,
    second: Pairs,
}

impl Prefixes {
    pub(super) fn new(words: impl IntoIterator<Item = &'static str>) -> Self {
        let mut prefixes = Self {
            by_first: vec![Vec::new(); 256],
            first: Pairs::default(),
            second: Pairs::default(),
        };
        for word in words {
            let bytes = word.as_bytes();
            prefixes.by_first[usize::from(bytes[0])].push(word);
            prefixes.first.add(bytes[0], bytes[1]);
            prefixes.second.add(bytes[1], bytes[2]);
        }
        for words in &mut prefixes.by_first {
            words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        }
        prefixes
    }

    /// The longest word that starts at `at`.
    pub(super) fn at(&self, text: &str, at: usize) -> Option<&'static str> {
        let rest = text.as_bytes().get(at..)?;
        let words = &self.by_first[usize::from(*rest.first()?)];
        let mut candidates = words.iter().copied();
        candidates.find(|word| rest.starts_with(word.as_bytes()))
    }

    /// The first word that starts at or after `from`, and its position.
    pub(super) fn next(&self, text: &str, from: usize) -> Option<(usize, &'static str)> {
        let mut threes = text.as_bytes().get(from..)?.windows(3).enumerate();
        threes.find_map(|(after, three)| {
            // Evaluates both lookups without a branch: which one fails is unpredictable.
            let begins = self.first.has(three[0], three[1]) & self.second.has(three[1], three[2]);
            let at = from + after;
            let word = begins.then(|| self.at(text, at))??;
            Some((at, word))
        })
    }
}

/// A set of byte pairs.
struct Pairs(Box<[u64; 1024]>);

impl Default for Pairs {
    fn default() -> Self {
        Self(Box::new([0; 1024]))
    }
}

impl Pairs {
    fn add(&mut self, one: u8, two: u8) {
        let (word, bit) = Self::index(one, two);
        self.0[word] |= 1 << bit;
    }

    fn has(&self, one: u8, two: u8) -> bool {
        let (word, bit) = Self::index(one, two);
        self.0[word] >> bit & 1 == 1
    }

    fn index(one: u8, two: u8) -> (usize, u32) {
        let pair = u32::from(one) << 8 | u32::from(two);
        ((pair / 64) as usize, pair % 64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn longest_of_the_first_marks_is_found(text in "([abc]|é){0,60}") {
            let words = ["abc", "abca", "bcb", "cab"];
            let prefixes = Prefixes::new(words);
            for from in 0..=text.len() {
                let longest = |at: usize| {
                    let rest = &text.as_bytes()[at..];
                    let matching = words.into_iter().filter(|word| rest.starts_with(word.as_bytes()));
                    matching.max_by_key(|word| word.len()).map(|word| (at, word))
                };
                let first = (from..text.len()).find_map(longest);
                prop_assert_eq!(prefixes.next(&text, from), first);
            }
        }
    }
}
