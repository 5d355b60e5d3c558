//! What announces a checkpoint in a depot: one small object, put there last.
//!
//! A letter has the checkpoint's manifest and names every object that it needs. It is made when all
//! of them are in the depot, so what has a letter is whole (P4). It is never changed. Two lines of
//! text, as a checkpoint has where it was taken: JSON, and its digest.

use serde::{Deserialize, Serialize};

use crate::carry::Part;
use crate::checkpoint::{self, Manifest};
use crate::digest::Digest;
use crate::id::{CheckpointId, Name, SessionId};

/// The version of the format.
pub const VERSION: u32 = 1;

/// The longest letter that is written or read (P10).
pub const LONGEST: u64 = 64 * 1024 * 1024;

/// The folder of letters.
pub const FOLDER: &str = "checkpoints";

/// A checkpoint in a depot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Letter {
    /// The format's version.
    pub segno_letter: u32,
    /// What the session was called where it was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// The checkpoint.
    pub checkpoint: Manifest,
    /// Every object that it needs.
    pub parts: Vec<Part>,
}

/// Why some bytes are no letter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// It is not two lines.
    #[error("its end is missing")]
    Cut,
    /// The first line is not what the second is about.
    #[error("it was changed after it was written")]
    Altered,
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// It is another one than its name says.
    #[error("it is that of checkpoint {0}")]
    Misnamed(CheckpointId),
    /// It was written by a newer program.
    #[error("it has format {0}, and this program knows formats up to {VERSION}")]
    Newer(u32),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seal {
    digest: Digest,
}

/// Enough of a letter to know whether the rest can be read.
#[derive(Deserialize)]
struct Version {
    segno_letter: u32,
}

impl Letter {
    /// What the letter of a checkpoint is called.
    pub fn object(session: SessionId, checkpoint: CheckpointId) -> String {
        format!("{FOLDER}/{session}/{checkpoint}.json")
    }

    /// The two lines.
    pub fn to_bytes(&self) -> Vec<u8> {
        let line = serde_json::to_string(self).expect("a letter is plain data");
        let digest = Digest::of(line.as_bytes());
        let seal = serde_json::to_string(&Seal { digest }).expect("a seal is plain data");
        format!("{line}\n{seal}\n").into_bytes()
    }

    /// Reads the object of this name. Everything is verified before anything is believed (P9).
    pub fn from_bytes(object: &str, bytes: &[u8]) -> Result<Self, Broken> {
        let text = std::str::from_utf8(bytes).map_err(|_| Broken::Altered)?;
        let body = text.strip_suffix('\n').ok_or(Broken::Cut)?;
        let (line, seal) = body.split_once('\n').ok_or(Broken::Cut)?;
        let seal: Seal = serde_json::from_str(seal).map_err(|_| Broken::Cut)?;
        if seal.digest != Digest::of(line.as_bytes()) {
            return Err(Broken::Altered);
        }
        let unreadable = |error: serde_json::Error| Broken::Unreadable(error.to_string());
        let version: Version = serde_json::from_str(line).map_err(unreadable)?;
        if version.segno_letter > VERSION {
            return Err(Broken::Newer(version.segno_letter));
        }
        let letter: Self = serde_json::from_str(line).map_err(unreadable)?;
        let Manifest { session, id, .. } = letter.checkpoint;
        if letter.checkpoint.segno_checkpoint > checkpoint::VERSION {
            return Err(Broken::Newer(letter.checkpoint.segno_checkpoint));
        }
        if Self::object(session, id) != object {
            return Err(Broken::Misnamed(id));
        }
        Ok(letter)
    }

    /// How many bytes its objects have.
    pub fn bytes(&self) -> u64 {
        let bytes = self.parts.iter().map(|part| part.bytes);
        bytes.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carry::Sort;

    fn letter() -> Letter {
        let digest = Digest::of(b"x");
        let checkpoint = checkpoint::tests::manifest();
        let part = Part {
            sort: Sort::Pack,
            name: digest,
            check: digest,
            bytes: 7,
        };
        Letter {
            segno_letter: VERSION,
            name: None,
            checkpoint,
            parts: vec![part],
        }
    }

    fn object() -> String {
        let Manifest { session, id, .. } = letter().checkpoint;
        Letter::object(session, id)
    }

    #[test]
    fn a_letter_reads_back_under_its_own_name_alone() {
        let bytes = letter().to_bytes();
        assert_eq!(Letter::from_bytes(&object(), &bytes), Ok(letter()));
        let other = object().replace("checkpoints/", "checkpoints/x");
        let misnamed = Broken::Misnamed(letter().checkpoint.id);
        assert_eq!(Letter::from_bytes(&other, &bytes), Err(misnamed));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        let bytes = letter().to_bytes();
        for place in 0..bytes.len() {
            let cut = Letter::from_bytes(&object(), &bytes[..place]);
            assert!(cut.is_err(), "cut at {place}");
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[place] ^= 1 << bit;
                let read = Letter::from_bytes(&object(), &flipped);
                assert!(read.is_err(), "{place} {bit}");
            }
        }
    }

    #[test]
    fn a_newer_format_is_called_newer_and_not_damaged() {
        let newer = Letter {
            segno_letter: VERSION + 1,
            ..letter()
        };
        let read = Letter::from_bytes(&object(), &newer.to_bytes());
        assert_eq!(read, Err(Broken::Newer(VERSION + 1)));
    }
}
