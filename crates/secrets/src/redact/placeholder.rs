//! Placeholders that replace secrets.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// Separates these digits from every other use of BLAKE3 in Segno. Changing it changes all placeholders,
/// and old journals no longer match new ones.
const DOMAIN: &str = "segno 2026 redacted secret";

/// Longer names are cut, so that a placeholder stays readable.
const LONGEST_NAME: usize = 64;

/// The beginning of every placeholder.
const BEGINNING: &str = "[secret:";

static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\[secret:([A-Za-z0-9_.-]{1,64}):[0-9a-f]{6}\]").expect("the pattern is constant")
});

/// The placeholder of `secret`. Its digits are too few to guess a good secret from them, and enough to
/// distinguish the secrets of one session.
pub(super) fn of(name: &str, secret: &str) -> String {
    let key = blake3::derive_key(DOMAIN, b"");
    let hash = blake3::keyed_hash(&key, secret.as_bytes());
    let [a, b, c, ..] = hash.as_bytes();
    format!("[secret:{name}:{a:02x}{b:02x}{c:02x}]")
}

/// Maps `name` to the characters that a placeholder may contain.
pub(super) fn label(name: &str) -> String {
    let mut label: String = name
        .chars()
        .take(LONGEST_NAME)
        .map(|announcement| match announcement {
            'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '.' | '-' => announcement,
            _ => '_',
        })
        .collect();
    if label.is_empty() {
        label.push_str("environment");
    }
    label
}

/// The placeholders that `text` already contains, each with its label.
pub(super) fn all(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    // Compiling the pattern takes longer than a short command may, and hardly any text needs it.
    let pattern = text.contains(BEGINNING).then(|| &*PLACEHOLDER);
    let found = pattern.into_iter().flat_map(|one| one.captures_iter(text));
    found.map(|found| {
        let (_, [name]) = found.extract();
        (found.get_match().range(), name)
    })
}

/// Replaces every placeholder by `word`.
pub(super) fn replace_all(text: &str, word: &str) -> String {
    let (mut replaced, mut end) = (String::new(), 0);
    for (range, _) in all(text) {
        replaced.push_str(&text[end..range.start]);
        replaced.push_str(word);
        end = range.end;
    }
    replaced + &text[end..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_secrets_have_equal_digits_under_any_name() {
        let digits = |text: &str| text[text.len() - 7..].to_owned();
        assert_eq!(digits(&of("A", "one")), digits(&of("B", "one")));
        assert_ne!(digits(&of("A", "one")), digits(&of("A", "two")));
    }

    #[test]
    fn written_placeholders_are_recognized() {
        let text = format!("x{}y", of(&label("MY TOKEN é"), "one"));
        assert_eq!(replace_all(&text, "secret"), "xsecrety");
        let found: Vec<_> = all(&text).collect();
        assert_eq!(found, [(1..text.len() - 1, "MY_TOKEN__")]);
        assert_eq!(label(""), "environment");
        assert_eq!(label(&"A".repeat(100)).len(), LONGEST_NAME);
    }

    #[test]
    fn malformed_placeholders_are_not_recognized() {
        for text in ["[secret:A:12345]", "[secret::123456]", "[secret:A:12345G]"] {
            assert_eq!(all(text).count(), 0, "{text}");
        }
    }
}
