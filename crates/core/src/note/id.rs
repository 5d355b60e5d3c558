//! Note ids, short enough to be typed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::words::words;

words! {
    /// The kinds of notes that have ids.
    NoteKind {
        Decision = "decision",
        Error = "error",
        Feedback = "feedback",
        /// A single todo.
        Todo = "todo",
    }
}

impl NoteKind {
    const fn announcement(self) -> char {
        match self {
            Self::Decision => 'd',
            Self::Error => 'e',
            Self::Feedback => 'f',
            Self::Todo => 't',
        }
    }
}

/// The id of a note within its session: `d1` is the first decision. It is derived from the journal and
/// therefore the same everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NoteId {
    pub kind: NoteKind,
    /// The number among notes of this kind, from 1.
    pub number: u64,
}

/// The text is not a note id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a note id is a letter for decision, error, feedback or todo, and a number: d1, e2, f3 or t4"
)]
pub struct InvalidNoteId;

impl fmt::Display for NoteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}{}", self.kind.announcement(), self.number))
    }
}

impl FromStr for NoteId {
    type Err = InvalidNoteId;

    fn from_str(text: &str) -> Result<Self, InvalidNoteId> {
        let mut rest = text.chars();
        let announcement = rest.next().ok_or(InvalidNoteId)?;
        let sort = NoteKind::ALL
            .iter()
            .find(|sort| sort.announcement() == announcement);
        let digits = rest.as_str();
        let plain = !digits.starts_with(['0', '+']);
        match (sort, digits.parse()) {
            (Some(sort), Ok(number)) if plain => Ok(Self {
                kind: *sort,
                number,
            }),
            _ => Err(InvalidNoteId),
        }
    }
}

impl Serialize for NoteId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NoteId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_ids_parse_only_in_canonical_form() {
        for text in ["d1", "e20", "f3", "t18446744073709551615"] {
            assert_eq!(text.parse::<NoteId>().unwrap().to_string(), text);
        }
        for text in ["", "d", "d0", "d01", "d+1", "x1", "1", "d-1", "D1", "d1 "] {
            assert_eq!(text.parse::<NoteId>(), Err(InvalidNoteId), "{text}");
        }
    }
}
