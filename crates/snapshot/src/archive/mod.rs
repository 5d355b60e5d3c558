//! Snapshots as archives: `tar` in the PAX form, compressed with zstd, as other programs read it.
//!
//! The same snapshot gives the same bytes, and reading them gives the same snapshot back. What is
//! read may come from anyone: nothing is ever unpacked into a folder. The stream becomes a snapshot
//! in the vault, and whatever could lead out of a folder, means two things, or is more than was
//! asked for is refused by name, before anything is listed (P5, P9, P10).
//!
//! `docs/formats/checkpoint-folder.md` describes what is written and what is read.

mod header;
mod left;
mod members;
mod names;
mod pax;
#[cfg(feature = "probe")]
pub mod probe;
mod said;
mod take;
mod tree;
mod write;

pub use segno_core::archive::{Archive, Keeping, Limits, Written};

use crate::error::Error;

/// What a usual thing takes in memory until it is stored: its path, its facts, its pieces.
const DESCRIPTION: u64 = 400;

/// How much may still be said about the things in an archive (P10).
struct Room {
    left: u64,
    limit: u64,
}

impl Room {
    fn new(limits: Limits) -> Self {
        Self {
            left: limits.entries.saturating_mul(DESCRIPTION),
            limit: limits.entries,
        }
    }

    /// For what was left out, of which there is usually little.
    fn for_remarks(limits: Limits) -> Self {
        let all = Self::new(limits);
        Self {
            left: all.left / 4,
            ..all
        }
    }

    /// Notes that so much more is about to be kept in memory.
    fn take(&mut self, bytes: usize) -> Result<(), Error> {
        self.left = self
            .left
            .checked_sub(bytes as u64)
            .ok_or_else(|| self.used_up())?;
        Ok(())
    }

    /// Whether there is room for so many things.
    fn has(&self, entries: u64) -> Result<(), Error> {
        if entries > self.limit {
            return Err(self.used_up());
        }
        Ok(())
    }

    fn used_up(&self) -> Error {
        Error::TooMuch {
            what: Measure::Entries,
            limit: self.limit,
        }
    }
}

/// What an archive can have too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Bytes, unpacked.
    Bytes,
    /// Things in it, or words about them.
    Entries,
}

impl Measure {
    /// What the option that allows more is called.
    pub const fn word(self) -> &'static str {
        match self {
            Measure::Bytes => "bytes",
            Measure::Entries => "entries",
        }
    }
}
