//! Tests of the whole redactor. No key appears here as a literal: they are assembled at run time, so
//! that this file does not trigger secret scanners.

mod edges;
mod families;
mod known;
mod mentioned;
mod ordinary;
mod personal;
mod properties;

use super::Redactor;

/// A redactor with an empty environment.
fn plain() -> Redactor {
    Redactor::new([])
}

/// `length` characters of `alphabet` that look random and are always the same.
fn random_text(alphabet: &str, length: usize) -> String {
    let announcements = alphabet.as_bytes();
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    (0..length)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let index = usize::try_from(state >> 33).unwrap_or(0) % announcements.len();
            char::from(announcements[index])
        })
        .collect()
}

const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const HEX: &str = "0123456789abcdef";

/// Asserts that `secret` is gone from `text` and that nothing else changed except for one placeholder
/// with `label`.
#[track_caller]
fn assert_hidden(text: &str, secret: &str, label: &str) {
    let redacted = plain().redact(text).into_owned();
    let (before, after) = text.split_once(secret).expect("the text holds the secret");
    let inner = redacted
        .strip_prefix(before)
        .and_then(|rest| rest.strip_suffix(after))
        .unwrap_or_else(|| panic!("more than the secret changed: {text} -> {redacted}"));
    assert!(
        inner.starts_with(&format!("[secret:{label}:")) && inner.len() == label.len() + 16,
        "{text} -> {redacted}"
    );
    assert_eq!(plain().redact(&redacted), redacted);
}

#[track_caller]
fn assert_untouched(text: &str) {
    let redacted = plain().redact(text);
    assert!(
        matches!(redacted, std::borrow::Cow::Borrowed(_)),
        "{text}\n-> {redacted}"
    );
}
