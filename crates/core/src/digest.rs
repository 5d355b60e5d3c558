//! Content addresses: BLAKE3, written as 64 hexadecimal digits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The BLAKE3 hash of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The digest of several fields. Each field is preceded by its length, so that moving a byte from
    /// one field to the next changes the digest.
    pub fn of_fields(fields: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for field in fields {
            hasher.update(&(field.len() as u64).to_le_bytes());
            hasher.update(field);
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// A digest that was stored as raw bytes; `None` unless there are exactly 32.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 12 digits, enough for a user to tell two digests apart.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

/// An incremental digest.
#[derive(Debug, Clone, Default)]
pub struct IncrementalDigest(blake3::Hasher);

impl IncrementalDigest {
    /// Adds the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes added so far.
    pub fn digest(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        f.pad(std::str::from_utf8(&text).expect("digits are ASCII"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// The text is not 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a digest: expected 64 lower-case hexadecimal digits")]
pub struct ParseError;

impl FromStr for Digest {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let digit = |c: u8| match c {
            b'0'..=b'9' => Ok(c - b'0'),
            b'a'..=b'f' => Ok(c - b'a' + 10),
            _ => Err(ParseError),
        };
        if text.len() != 64 {
            return Err(ParseError);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_text_round_trips() {
        let digest = Digest::of(b"segno");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!("ABC".parse::<Digest>(), Err(ParseError));
        assert_eq!(
            digest.to_string().to_uppercase().parse::<Digest>(),
            Err(ParseError)
        );
    }

    /// A program in another language computed the values: stored digests must never change.
    #[test]
    fn digests_are_stable() {
        let digest = Digest::of(b"segno");
        let text = "66db8b0c47b73db628fb25cb4d80100f253435dc3a48b467a7102a5b3742ce66";
        assert_eq!(digest.to_string(), text);
        assert_eq!(digest.short(), "66db8b0c47b7");
        assert_eq!(format!("{digest:?}"), format!("Digest({text})"));
        let mut incremental = IncrementalDigest::default();
        incremental.add(b"seg");
        incremental.add(b"no");
        assert_eq!(incremental.digest(), digest);
        assert_eq!(
            Digest::of_fields(&[b"ab", b"c"]).to_string(),
            "a0968c014f3fc7bd1a7d9a8d1ad1177eb379bd2f05e56309eb4e20347c5e7eba"
        );
    }

    #[test]
    fn moving_a_byte_between_fields_changes_the_digest() {
        assert_ne!(
            Digest::of_fields(&[b"ab", b"c"]),
            Digest::of_fields(&[b"a", b"bc"])
        );
    }
}
