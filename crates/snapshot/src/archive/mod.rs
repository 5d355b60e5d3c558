//! Snapshots as archives: `tar` in the PAX format, compressed with zstd, which other programs can
//! read.
//!
//! The same snapshot gives the same bytes, and importing them gives the same snapshot. An archive
//! may come from anyone, so nothing is ever unpacked into a folder: the stream becomes a snapshot
//! in the store. Everything that could lead out of a folder, is ambiguous or exceeds a limit is
//! refused by name, before anything is listed (P5, P9, P10).
//!
//! `docs/formats/checkpoint-folder.md` describes what is written and what is read.

mod excluded;
mod export;
mod header;
mod import;
mod members;
mod names;
mod pax;
mod pax_fields;
#[cfg(feature = "probe")]
pub mod probe;
mod tree;

pub use segno_core::snapshot::archive::{Archive, ImportMode, Limits, WrittenArchive};

pub use crate::error::Measure;

use crate::error::Error;

/// The memory that a usual entry takes until it is stored: its path, its metadata, its chunks.
const DESCRIPTION: u64 = 400;

/// The remaining memory budget for the entries of an archive (P10).
struct MemoryBudget {
    left: u64,
    limit: u64,
}

impl MemoryBudget {
    fn new(limits: Limits) -> Self {
        Self {
            left: limits.entries.saturating_mul(DESCRIPTION),
            limit: limits.entries,
        }
    }

    /// The budget for excluded paths, which are usually few.
    fn for_comments(limits: Limits) -> Self {
        let all = Self::new(limits);
        Self {
            left: all.left / 4,
            ..all
        }
    }

    /// Takes `bytes` from the budget.
    fn spend(&mut self, bytes: usize) -> Result<(), Error> {
        self.left = self
            .left
            .checked_sub(bytes as u64)
            .ok_or_else(|| self.exceeded())?;
        Ok(())
    }

    /// Checks a number of entries against the limit.
    fn check_entries(&self, entries: u64) -> Result<(), Error> {
        if entries > self.limit {
            return Err(self.exceeded());
        }
        Ok(())
    }

    fn exceeded(&self) -> Error {
        Error::TooMuch {
            what: Measure::Entries,
            limit: self.limit,
        }
    }
}
