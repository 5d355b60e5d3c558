//! How something looks from outside: what must be the same for it to be taken as unchanged.

use rustix::fs::FileType;

use crate::beneath::Facts;
use crate::entry::Moment;

/// How long a stamp is.
pub(crate) const STAMP: usize = 16;
/// The stamp of what is young: nothing looks like that.
pub(crate) const NONE: [u8; STAMP] = [0; STAMP];
/// A stamp this close to the beginning of the look is not trusted.
pub(crate) const YOUNG: u32 = 20_000_000;

/// Whether stamps are old enough that a later write must change them, whatever clock stamped them.
pub(crate) fn is_settled(facts: &Facts, began: Moment) -> bool {
    is_older(facts, began, YOUNG)
}

/// Whether stamps are older than so many nanoseconds, fewer than a second, before a moment.
pub(crate) fn is_older(facts: &Facts, began: Moment, nanos: u32) -> bool {
    let stamp = facts.modified.max(facts.changed);
    let limit = if began.nanos >= nanos {
        Moment {
            seconds: began.seconds,
            nanos: began.nanos - nanos,
        }
    } else {
        Moment {
            seconds: began.seconds - 1,
            nanos: began.nanos + 1_000_000_000 - nanos,
        }
    };
    stamp < limit
}

/// When something was last changed in any way, to the nanosecond; and kind, inode, mode, size and
/// time, mixed into one number. No change leaves the first alone; the second is for file systems
/// whose clock cannot be trusted.
pub(crate) fn stamp(facts: &Facts) -> [u8; STAMP] {
    let kind: u64 = match facts.kind {
        FileType::Directory => 1,
        FileType::RegularFile => 2,
        FileType::Symlink => 3,
        _ => 4,
    };
    let rest = [
        kind << 32 | u64::from(facts.mode),
        facts.inode,
        facts.size,
        nanos(facts.modified),
    ];
    // A change of one of them alone always shows.
    let mixed = rest.iter().fold(0x9e37_79b9_7f4a_7c15_u64, |sum, number| {
        let product = (sum ^ number).wrapping_mul(0xd6e8_feb8_6659_fd93);
        product ^ product >> 32
    });
    let mut stamp = NONE;
    stamp[..8].copy_from_slice(&nanos(facts.changed).to_le_bytes());
    stamp[8..].copy_from_slice(&mixed.to_le_bytes());
    stamp
}

/// A moment as nanoseconds.
fn nanos(moment: Moment) -> u64 {
    let seconds = moment.seconds.cast_unsigned().wrapping_mul(1_000_000_000);
    seconds.wrapping_add(moment.nanos.into())
}
