//! What is looked at closely though it looks unchanged: a program that writes through memory leaves
//! a trace when it begins, and none while what it wrote has not reached the disk.

use crate::beneath::Facts;
use crate::entry::Moment;
use crate::machine;

/// How many seconds after a trace there may be changes without another. Linux brings what was
/// written to the disk within 35, unless it was told otherwise.
const TRACELESS: i64 = 300;

/// Some of a thousand, drawn anew each time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lot {
    turn: u64,
    of_thousand: u64,
    /// What was last changed before this is as it was.
    since: Moment,
}

impl Lot {
    /// Draws for a look that begins at a moment.
    pub(crate) fn draw(of_thousand: u32, began: Moment) -> Self {
        let chance = machine::chance().unwrap_or_default();
        Self {
            turn: u64::from(chance[0]) << 8 | u64::from(chance[1]),
            of_thousand: of_thousand.into(),
            since: Moment {
                seconds: began.seconds - TRACELESS,
                ..began
            },
        }
    }

    /// Whether the inode is among them.
    pub(crate) fn has(&self, inode: u64) -> bool {
        let mixed = inode.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        mixed.wrapping_add(self.turn) % 1000 < self.of_thousand
    }

    /// Whether a file that looks unchanged is compared.
    pub(crate) fn doubts(&self, facts: &Facts) -> bool {
        facts.changed.max(facts.modified) >= self.since && self.has(facts.inode)
    }
}
