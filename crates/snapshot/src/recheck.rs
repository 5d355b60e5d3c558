//! Picks unchanged-looking files to re-hash. A program that writes through a memory map changes the
//! timestamps when it begins, and then not again until the pages are written back.

use crate::entry::FileTime;
use crate::machine;
use crate::openat::Facts;

/// For how many seconds after a timestamp a file may change without another one. Linux writes dirty
/// pages back within 35 seconds by default.
const TRACELESS: i64 = 300;

/// A random sample of inodes, drawn anew for each walk.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Recheck {
    offset: u64,
    of_thousand: u64,
    /// Files that changed last before this time are trusted.
    since: FileTime,
}

impl Recheck {
    /// Draws the sample for a walk that began at `began`.
    pub(crate) fn sample(of_thousand: u32, began: FileTime) -> Self {
        let random = machine::random_bytes().unwrap_or_default();
        Self {
            offset: u64::from(random[0]) << 8 | u64::from(random[1]),
            of_thousand: of_thousand.into(),
            since: FileTime {
                seconds: began.seconds - TRACELESS,
                ..began
            },
        }
    }

    /// Whether the inode is in the sample.
    pub(crate) fn contains(&self, inode: u64) -> bool {
        let mixed = inode.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        mixed.wrapping_add(self.offset) % 1000 < self.of_thousand
    }

    /// Whether to re-hash a file that looks unchanged.
    pub(crate) fn selects(&self, facts: &Facts) -> bool {
        facts.changed.max(facts.modified) >= self.since && self.contains(facts.inode)
    }
}
