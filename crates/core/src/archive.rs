//! What it is to write the files of a snapshot as an archive, and to read one that came from
//! elsewhere.

use std::path::Path;

use crate::digest::Digest;
use crate::ports::Boxed;
use crate::snapshot::{Captured, Error, Nowhere, Progress};

/// Snapshots as archives: `tar`, compressed with zstd.
pub trait Archives: Send + Sync {
    /// Writes a snapshot to a new file. Its content is durable when it returns, its name once the
    /// folder is synced. The same snapshot gives the same bytes.
    fn write<'a>(
        &'a self,
        snapshot: Digest,
        to: &'a Path,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<Written, Error>>;

    /// Makes a snapshot of what is in an archive; durable when it returns. Nothing is unpacked into a
    /// folder, and what could lead out of one is refused before anything is kept.
    fn take<'a>(
        &'a self,
        archive: Archive<'a>,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<Captured, Error>>;
}

/// An archive to be read.
#[derive(Debug, Clone, Copy)]
pub struct Archive<'a> {
    /// The file.
    pub from: &'a Path,
    /// The digest of its bytes, if it is known.
    pub digest: Option<Digest>,
    /// The snapshot that must come out of it, if it is known.
    pub snapshot: Option<Digest>,
    /// What it may ask for.
    pub limits: Limits,
    /// Whether it is kept.
    pub keeping: Keeping,
}

/// What an archive that is read may ask for (P10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many bytes it may have unpacked, descriptions included.
    pub bytes: u64,
    /// How many things may be in it. What is said about them may be as long as about so many usual
    /// ones.
    pub entries: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 10 * 1024 * 1024 * 1024,
            entries: 150_000,
        }
    }
}

/// Whether what is read is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keeping {
    /// It becomes a snapshot.
    #[default]
    Keep,
    /// Everything is verified, and nothing is written.
    Look,
}

/// An archive that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// How long it is.
    pub bytes: u64,
    /// The digest of its bytes.
    pub digest: Digest,
}

impl Archives for Nowhere {
    fn write<'a>(
        &'a self,
        _: Digest,
        _: &'a Path,
        _: &'a Progress,
    ) -> Boxed<'a, Result<Written, Error>> {
        Self::refuse()
    }

    fn take<'a>(&'a self, _: Archive<'a>, _: &'a Progress) -> Boxed<'a, Result<Captured, Error>> {
        Self::refuse()
    }
}
