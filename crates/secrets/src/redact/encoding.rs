//! Encodings of a secret: base64 and hexadecimal.

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The bytes of `text` in hexadecimal, in lower case.
pub(super) fn hex(text: &str) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    text.bytes()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// Encodes `bytes` in base64, without padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    let mut encoded = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = (0..3).fold(0, |word, index| {
            word << 8 | u32::from(group.get(index).copied().unwrap_or(0))
        });
        for place in 0..=group.len() {
            let digit = word >> (18 - 6 * place) & 63;
            encoded.push(char::from(STANDARD[digit as usize]));
        }
    }
    encoded
}

/// The substrings that must appear in the base64 of any text that contains `secret`, for each of the
/// three possible offsets within a group.
pub(super) fn base64_cores(secret: &str) -> [String; 3] {
    [0, 1, 2].map(|shift| {
        let mut bytes = vec![0; shift];
        bytes.extend_from_slice(secret.as_bytes());
        let encoded = base64(&bytes);
        // Digits that also contain bits of a neighbor: `shift + 1` digits at the front if bytes precede,
        // one digit at the end unless the last group is full.
        let front = if shift == 0 { 0 } else { shift + 1 };
        let whole = bytes.len() * 8 / 6;
        encoded[front..whole].to_owned()
    })
}

/// The same base64 in the URL-safe alphabet.
pub(super) fn url_safe(base64: &str) -> String {
    base64.replace('+', "-").replace('/', "_")
}

/// Decodes base64 in either alphabet, with or without padding; `None` if the text is not base64.
pub(super) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    if digits.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let mut word: u32 = 0;
        for place in 0..4 {
            let digit = match group.get(place) {
                Some(announcement @ b'A'..=b'Z') => announcement - b'A',
                Some(announcement @ b'a'..=b'z') => announcement - b'a' + 26,
                Some(announcement @ b'0'..=b'9') => announcement - b'0' + 52,
                Some(b'+' | b'-') => 62,
                Some(b'/' | b'_') => 63,
                Some(_) => return None,
                None => 0,
            };
            word = word << 6 | u32::from(digit);
        }
        bytes.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_known_examples() {
        for (plain, encoded) in [
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), encoded);
            assert_eq!(decode_base64(encoded).as_deref(), Some(plain.as_bytes()));
        }
        assert_eq!(decode_base64("Zm9v!"), None);
        assert_eq!(decode_base64("Zm9vY"), None);
    }

    #[test]
    fn base64_core_is_found_at_every_offset() {
        let secret = "correct horse";
        let cores = base64_cores(secret);
        for before in ["", "a", "bc", "def", "user:"] {
            for after in ["", "x", "yz", "\n"] {
                let whole = base64(format!("{before}{secret}{after}").as_bytes());
                assert!(whole.contains(&cores[before.len() % 3]), "{before}|{after}");
            }
        }
    }

    #[test]
    fn hex_and_url_safe_digits_are_correct() {
        assert_eq!(hex("a/é"), "612fc3a9");
        assert_eq!(url_safe("a+b/c"), "a-b_c");
    }
}
