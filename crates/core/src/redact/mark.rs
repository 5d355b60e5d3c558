//! Where the marks stand from which a closer look begins.

/// Words that are searched for. All of them are ASCII, of three letters or more.
pub(super) struct Marks {
    /// By their first byte. A mark that begins another stands after it.
    by_first: Vec<Vec<&'static str>>,
    /// Their first and second bytes, and their second and third. To look whether a pair is known costs
    /// next to nothing, and in hardly any place of a text both are.
    first: Pairs,
    second: Pairs,
}

impl Marks {
    pub(super) fn new(words: impl IntoIterator<Item = &'static str>) -> Self {
        let mut marks = Self {
            by_first: vec![Vec::new(); 256],
            first: Pairs::default(),
            second: Pairs::default(),
        };
        for word in words {
            let bytes = word.as_bytes();
            marks.by_first[usize::from(bytes[0])].push(word);
            marks.first.add(bytes[0], bytes[1]);
            marks.second.add(bytes[1], bytes[2]);
        }
        for words in &mut marks.by_first {
            words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        }
        marks
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
        let mut threes = text.as_bytes().get(from..)?.windows(3).enumerate();
        threes.find_map(|(after, three)| {
            // Both are looked up at once: which of them fails cannot be foretold.
            let begins = self.first.has(three[0], three[1]) & self.second.has(three[1], three[2]);
            let at = from + after;
            let word = begins.then(|| self.at(text, at))??;
            Some((at, word))
        })
    }
}

/// A set of pairs of bytes.
struct Pairs(Box<[u64; 1024]>);

impl Default for Pairs {
    fn default() -> Self {
        Self(Box::new([0; 1024]))
    }
}

impl Pairs {
    fn add(&mut self, one: u8, two: u8) {
        let (word, bit) = Self::place(one, two);
        self.0[word] |= 1 << bit;
    }

    fn has(&self, one: u8, two: u8) -> bool {
        let (word, bit) = Self::place(one, two);
        self.0[word] >> bit & 1 == 1
    }

    fn place(one: u8, two: u8) -> (usize, u32) {
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
        fn the_longest_of_the_first_marks_is_found_and_no_other(text in "([abc]|é){0,60}") {
            let words = ["abc", "abca", "bcb", "cab"];
            let marks = Marks::new(words);
            for from in 0..=text.len() {
                let longest = |at: usize| {
                    let rest = &text.as_bytes()[at..];
                    let begun = words.into_iter().filter(|word| rest.starts_with(word.as_bytes()));
                    begun.max_by_key(|word| word.len()).map(|word| (at, word))
                };
                let first = (from..text.len()).find_map(longest);
                prop_assert_eq!(marks.next(&text, from), first);
            }
        }
    }
}
