//! Stamps: the stat data that must be the same for a file to count as unchanged.

use rustix::fs::FileType;

use crate::entry::FileTime;
use crate::openat::Facts;

/// The length of a stamp.
pub(crate) const STAMP: usize = 16;
/// The stamp of items that changed too recently: it equals no other stamp.
pub(crate) const NONE: [u8; STAMP] = [0; STAMP];
/// A timestamp this close to the beginning of the walk, in nanoseconds, is not trusted.
pub(crate) const RECENT_NANOS: u32 = 20_000_000;

/// Whether timestamps are old enough that a later write must change them, whatever clock set them.
pub(crate) fn has_trusted_stamp(facts: &Facts, began: FileTime) -> bool {
    is_older(facts, began, RECENT_NANOS)
}

/// Whether timestamps are older than `nanos` nanoseconds, less than a second, before `began`.
pub(crate) fn is_older(facts: &Facts, began: FileTime, nanos: u32) -> bool {
    let stamp = facts.modified.max(facts.changed);
    let limit = if began.nanos >= nanos {
        FileTime {
            seconds: began.seconds,
            nanos: began.nanos - nanos,
        }
    } else {
        FileTime {
            seconds: began.seconds - 1,
            nanos: began.nanos + 1_000_000_000 - nanos,
        }
    };
    stamp < limit
}

/// The ctime in nanoseconds, and a hash of kind, inode, mode, size and mtime. Every change updates
/// the ctime; the hash is for file systems whose clock cannot be trusted.
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
    // A change of a single one always changes the result.
    let mixed = rest.iter().fold(0x9e37_79b9_7f4a_7c15_u64, |sum, number| {
        let product = (sum ^ number).wrapping_mul(0xd6e8_feb8_6659_fd93);
        product ^ product >> 32
    });
    let mut stamp = NONE;
    stamp[..8].copy_from_slice(&nanos(facts.changed).to_le_bytes());
    stamp[8..].copy_from_slice(&mixed.to_le_bytes());
    stamp
}

fn nanos(time: FileTime) -> u64 {
    let seconds = time.seconds.cast_unsigned().wrapping_mul(1_000_000_000);
    seconds.wrapping_add(time.nanos.into())
}
