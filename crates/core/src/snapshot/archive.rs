//! The contract for exporting a snapshot as an archive, and importing an archive from elsewhere.

use std::path::Path;

use crate::digest::Digest;
use crate::ports::Boxed;
use crate::snapshot::{Captured, Error, Progress};

/// Snapshots as archives: `tar`, compressed with zstd.
pub trait Archives: Send + Sync {
    /// Writes a snapshot to a new file. The content is durable when it returns, the directory entry once
    /// the folder is synced. The same snapshot gives the same bytes.
    fn write_archive<'a>(
        &'a self,
        snapshot: Digest,
        to: &'a Path,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<WrittenArchive, Error>>;

    /// Imports an archive as a snapshot; durable when it returns. Unpacks nothing into a folder, and
    /// refuses paths that could escape one before it stores anything.
    fn import_archive<'a>(
        &'a self,
        archive: Archive<'a>,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<Captured, Error>>;
}

/// An archive to import.
#[derive(Debug, Clone, Copy)]
pub struct Archive<'a> {
    pub from: &'a Path,
    /// The expected digest of its bytes, if known.
    pub digest: Option<Digest>,
    /// The expected snapshot, if known.
    pub snapshot: Option<Digest>,
    pub limits: Limits,
    /// Whether to store the result.
    pub mode: ImportMode,
}

/// Resource limits for an archive that is read (P10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum unpacked size, headers included.
    pub bytes: u64,
    /// The maximum number of archive entries. The total length of their metadata is limited to what this
    /// many ordinary entries need.
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

/// Whether an imported archive is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImportMode {
    /// Store it as a snapshot.
    #[default]
    Store,
    /// Verify everything and write nothing.
    VerifyOnly,
}

/// An archive that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenArchive {
    pub bytes: u64,
    pub digest: Digest,
}
