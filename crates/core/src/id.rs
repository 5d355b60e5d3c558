//! Identifiers, which never change; session names, which users type; and the numbers of events and runs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::time::Timestamp;

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an id: expected 26 letters and digits")]
pub struct ParseError;

macro_rules! ulids {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// A new id. Only `entropy` distinguishes two ids of the same millisecond.
            pub fn new(at: Timestamp, entropy: [u8; 10]) -> Self {
                Self(ulid(at, entropy))
            }

            /// The id as 16 bytes, which sort like the ids.
            pub const fn to_bytes(self) -> [u8; 16] {
                self.0.to_be_bytes()
            }

            /// The id of these bytes.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(u128::from_be_bytes(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut text = [0; 26];
                for (place, announcement) in text.iter_mut().rev().enumerate() {
                    *announcement = ALPHABET[(self.0 >> (5 * place) & 31) as usize];
                }
                f.pad(std::str::from_utf8(&text).expect("the alphabet is ASCII"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = ParseError;

            fn from_str(text: &str) -> Result<Self, ParseError> {
                parse_ulid(text).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?
                    .parse()
                    .map_err(de::Error::custom)
            }
        }
    )*};
}

ulids! {
    /// A session's identifier: a ULID, so that ids sort by creation time.
    SessionId,
    /// A checkpoint's identifier, also a ULID.
    CheckpointId,
    /// The identifier of a request that another process sent to a run.
    RequestId,
}

fn ulid(at: Timestamp, entropy: [u8; 10]) -> u128 {
    let millis = u128::try_from(at.0.max(0)).unwrap_or(0) & 0xFFFF_FFFF_FFFF;
    let random = entropy
        .iter()
        .fold(0, |sum: u128, byte| sum << 8 | u128::from(*byte));
    millis << 80 | random
}

fn parse_ulid(text: &str) -> Result<u128, ParseError> {
    if text.len() != 26 {
        return Err(ParseError);
    }
    let mut value: u128 = 0;
    for (index, announcement) in text.bytes().enumerate() {
        let digit = ALPHABET
            .iter()
            .position(|known| *known == announcement.to_ascii_uppercase())
            .ok_or(ParseError)?;
        // 26 characters of 5 bits are 130 bits: the first may only use three of its five.
        if index == 0 && digit > 7 {
            return Err(ParseError);
        }
        value = value << 5 | digit as u128;
    }
    Ok(value)
}

/// An event's position in its journal, from 1, without gaps.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

/// The number of a run, from 1. It is also the fencing epoch: the store refuses a write that carries a
/// run older than the newest granted one (P3).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Run(pub u64);

impl Seq {
    /// The next position.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Run {
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A session's name: at most 64 letters, digits and `. _ : -`. Unique in a store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Name(String);

/// The text is not a valid session name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a session name has 1 to 64 letters, digits or . _ : -")]
pub struct NameError;

impl Name {
    /// Validates a name.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
        // A leading dash would be parsed as an option wherever the name is typed.
        if (1..=64).contains(&text.len()) && !text.starts_with('-') && text.chars().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError)
        }
    }

    /// The closest valid name for any text: each run of invalid characters becomes one dash.
    #[must_use]
    pub fn sanitized(text: &str) -> Self {
        let mut name = String::new();
        for c in text.chars().take(48) {
            if c.is_ascii_alphanumeric() || "._:".contains(c) {
                name.push(c);
            } else if !name.is_empty() && !name.ends_with('-') {
                name.push('-');
            }
        }
        let trimmed = name.trim_end_matches('-');
        Self(
            if trimmed.is_empty() {
                "session"
            } else {
                trimmed
            }
            .to_owned(),
        )
    }

    /// The n-th name of a series: `report`, `report-2`, `report-3`.
    #[must_use]
    pub fn numbered(&self, n: u32) -> Self {
        match n {
            0 | 1 => self.clone(),
            _ => Self(format!("{}-{n}", self.0)),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// Why a reference does not resolve to one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unresolved {
    /// Nothing matches.
    Unknown,
    /// Several sessions match.
    Ambiguous(Vec<(SessionId, Name)>),
}

/// Finds the session for `reference`: an id, a name, or a prefix of one. Exact matches come first, so
/// that `report` is found although `report-2` starts with it.
pub fn resolve(
    reference: &str,
    sessions: &[(SessionId, Name)],
) -> Result<(SessionId, Name), Unresolved> {
    let id = reference.parse::<SessionId>().ok();
    if let Some(exact) = sessions
        .iter()
        .find(|(session, name)| Some(*session) == id || name.as_str() == reference)
    {
        return Ok(exact.clone());
    }
    if reference.is_empty() {
        return Err(Unresolved::Unknown);
    }
    let upper = reference.to_ascii_uppercase();
    let mut matching: Vec<_> = sessions
        .iter()
        .filter(|(session, name)| {
            session.to_string().starts_with(&upper) || name.as_str().starts_with(reference)
        })
        .cloned()
        .collect();
    match matching.len() {
        0 => Err(Unresolved::Unknown),
        1 => Ok(matching.remove(0)),
        _ => Err(Unresolved::Ambiguous(matching)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn session(n: u8, name: &str) -> (SessionId, Name) {
        let id = SessionId::new(Timestamp(1_794_738_089_000), [n; 10]);
        (id, Name::new(name).unwrap())
    }

    proptest! {
        #[test]
        fn every_id_reads_back(millis in 0..(1_i64 << 48), entropy: [u8; 10]) {
            let id = SessionId::new(Timestamp(millis), entropy);
            prop_assert_eq!(id.to_string().parse(), Ok(id));
            prop_assert_eq!(id.to_string().to_lowercase().parse(), Ok(id));
        }

        #[test]
        fn ids_sort_by_time(a in 0..(1_i64 << 48), b in 0..(1_i64 << 48), e: [u8; 10], f: [u8; 10]) {
            let (x, y) = (SessionId::new(Timestamp(a), e), SessionId::new(Timestamp(b), f));
            prop_assert!(a == b || (a < b) == (x.to_string() < y.to_string()));
        }

        #[test]
        fn any_text_becomes_a_valid_name(text: String) {
            let name = Name::sanitized(&text);
            prop_assert_eq!(Name::new(name.as_str()), Ok(name));
        }
    }

    #[test]
    fn invalid_ids_are_refused() {
        for text in [
            "",
            "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "01ARZ3NDEKTSV4RRFFQ69G5FAI",
            "../../etc",
        ] {
            assert_eq!(text.parse::<SessionId>(), Err(ParseError), "{text}");
        }
    }

    #[test]
    fn names_refuse_shell_and_terminal_characters() {
        for text in [
            "",
            "a b",
            "a\nb",
            "\u{1b}[31m",
            "-rf",
            "a/b",
            &"x".repeat(65),
        ] {
            assert_eq!(Name::new(text), Err(NameError), "{text:?}");
        }
    }

    #[test]
    fn reference_is_an_id_a_name_or_a_prefix() {
        let sessions = [
            session(1, "report"),
            session(2, "report-2"),
            session(250, "other"),
        ];
        let whole = sessions[0].0.to_string();
        let unique = &sessions[2].0.to_string()[..11];
        assert_eq!(resolve(&whole, &sessions), Ok(sessions[0].clone()));
        assert_eq!(
            resolve(&whole.to_lowercase(), &sessions),
            Ok(sessions[0].clone())
        );
        assert_eq!(resolve("report", &sessions), Ok(sessions[0].clone()));
        assert_eq!(resolve("oth", &sessions), Ok(sessions[2].clone()));
        assert_eq!(resolve(unique, &sessions), Ok(sessions[2].clone()));
        assert_eq!(resolve("", &sessions), Err(Unresolved::Unknown));
        assert_eq!(resolve("nope", &sessions), Err(Unresolved::Unknown));
        assert_eq!(
            resolve("rep", &sessions),
            Err(Unresolved::Ambiguous(sessions[..2].to_vec()))
        );
    }
}
