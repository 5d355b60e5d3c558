//! The announcement of a checkpoint in a remote: one small object, uploaded last.
//!
//! An announcement contains the checkpoint's manifest and lists every object that it needs. It is
//! created after all of these are in the remote, so a checkpoint with an announcement is complete (P4).
//! It is never changed. Its format is two lines of text, like that of a local checkpoint: JSON, and the
//! digest of that line.

use serde::{Deserialize, Serialize};

use crate::checkpoint::{self, Manifest};
use crate::digest::Digest;
use crate::id::{CheckpointId, Name, SessionId};
use crate::snapshot::transfer::Part;

/// The version of the announcement format.
pub const VERSION: u32 = 1;

/// The maximum size of an announcement that is written or read (P10).
pub const LONGEST: u64 = 64 * 1024 * 1024;

/// The remote folder of announcements.
pub const FOLDER: &str = "checkpoints";

/// A checkpoint in a remote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Announcement {
    /// The format's version.
    #[serde(rename = "segno_letter")]
    pub segno_announcement: u32,
    /// The session's name where the checkpoint was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    pub checkpoint: Manifest,
    /// Every object that the checkpoint needs.
    pub parts: Vec<Part>,
}

/// Why some bytes are not a valid announcement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The text is not two lines.
    #[error("it is truncated")]
    Truncated,
    /// The digest does not match the first line.
    #[error("it was changed after it was written")]
    Altered,
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// The announcement belongs to another checkpoint than its object name says.
    #[error("it belongs to checkpoint {0}")]
    Misnamed(CheckpointId),
    /// A newer program wrote it.
    #[error("it has format {0}; this version of Segno reads formats up to {VERSION}")]
    Newer(u32),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seal {
    digest: Digest,
}

/// The part of an announcement that tells whether this program can parse the rest.
#[derive(Deserialize)]
struct Version {
    #[serde(rename = "segno_letter")]
    segno_letter: u32,
}

impl Announcement {
    /// The object name of a checkpoint's announcement.
    pub fn object_name(session: SessionId, checkpoint: CheckpointId) -> String {
        format!("{FOLDER}/{session}/{checkpoint}.json")
    }

    /// Encodes the two lines.
    pub fn to_bytes(&self) -> Vec<u8> {
        let line = serde_json::to_string(self).expect("an announcement serializes to JSON");
        let digest = Digest::of(line.as_bytes());
        let seal = serde_json::to_string(&Seal { digest }).expect("a seal serializes to JSON");
        format!("{line}\n{seal}\n").into_bytes()
    }

    /// Parses the object of this name. Verifies everything before it uses anything (P9).
    pub fn from_bytes(object: &str, bytes: &[u8]) -> Result<Self, Broken> {
        let text = std::str::from_utf8(bytes).map_err(|_| Broken::Altered)?;
        let body = text.strip_suffix('\n').ok_or(Broken::Truncated)?;
        let (line, seal) = body.split_once('\n').ok_or(Broken::Truncated)?;
        let seal: Seal = serde_json::from_str(seal).map_err(|_| Broken::Truncated)?;
        if seal.digest != Digest::of(line.as_bytes()) {
            return Err(Broken::Altered);
        }
        let unreadable = |error: serde_json::Error| Broken::Unreadable(error.to_string());
        let version: Version = serde_json::from_str(line).map_err(unreadable)?;
        if version.segno_letter > VERSION {
            return Err(Broken::Newer(version.segno_letter));
        }
        let announcement: Self = serde_json::from_str(line).map_err(unreadable)?;
        let Manifest { session, id, .. } = announcement.checkpoint;
        if announcement.checkpoint.segno_checkpoint > checkpoint::VERSION {
            return Err(Broken::Newer(announcement.checkpoint.segno_checkpoint));
        }
        if Self::object_name(session, id) != object {
            return Err(Broken::Misnamed(id));
        }
        Ok(announcement)
    }

    /// The total size of the listed objects.
    pub fn bytes(&self) -> u64 {
        let bytes = self.parts.iter().map(|part| part.bytes);
        bytes.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::transfer::PartKind;

    fn announcement() -> Announcement {
        let digest = Digest::of(b"x");
        let checkpoint = checkpoint::tests::manifest();
        let part = Part {
            kind: PartKind::Pack,
            name: digest,
            checksum: digest,
            bytes: 7,
        };
        Announcement {
            segno_announcement: VERSION,
            name: None,
            checkpoint,
            parts: vec![part],
        }
    }

    fn object() -> String {
        let Manifest { session, id, .. } = announcement().checkpoint;
        Announcement::object_name(session, id)
    }

    #[test]
    fn announcement_reads_back_only_under_its_own_name() {
        let bytes = announcement().to_bytes();
        assert_eq!(
            Announcement::from_bytes(&object(), &bytes),
            Ok(announcement())
        );
        let other = object().replace("checkpoints/", "checkpoints/x");
        let misnamed = Broken::Misnamed(announcement().checkpoint.id);
        assert_eq!(Announcement::from_bytes(&other, &bytes), Err(misnamed));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        let bytes = announcement().to_bytes();
        for place in 0..bytes.len() {
            let cut = Announcement::from_bytes(&object(), &bytes[..place]);
            assert!(cut.is_err(), "cut at {place}");
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[place] ^= 1 << bit;
                let read = Announcement::from_bytes(&object(), &flipped);
                assert!(read.is_err(), "{place} {bit}");
            }
        }
    }

    #[test]
    fn newer_format_is_not_reported_as_damage() {
        let newer = Announcement {
            segno_announcement: VERSION + 1,
            ..announcement()
        };
        let read = Announcement::from_bytes(&object(), &newer.to_bytes());
        assert_eq!(read, Err(Broken::Newer(VERSION + 1)));
    }
}
