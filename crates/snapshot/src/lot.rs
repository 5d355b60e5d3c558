//! What is looked at closely though it looks unchanged: programs that write through memory can
//! change a file without a trace.

use crate::machine;

/// Some of a thousand, drawn anew each time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lot {
    turn: u64,
    of_thousand: u64,
}

impl Lot {
    pub(crate) fn draw(of_thousand: u32) -> Self {
        let chance = machine::chance().unwrap_or_default();
        Self {
            turn: u64::from(chance[0]) << 8 | u64::from(chance[1]),
            of_thousand: of_thousand.into(),
        }
    }

    /// Whether the inode is among them.
    pub(crate) fn has(&self, inode: u64) -> bool {
        let mixed = inode.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        mixed.wrapping_add(self.turn) % 1000 < self.of_thousand
    }
}
