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

const FOLDER: u8 = 1;
const FILE: u8 = 2;
const LINK: u8 = 3;
const OTHER: u8 = 4;

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

/// The digest of kind, inode, mode, size and times to the nanosecond, as much of it as is needed to
/// tell any two looks apart.
pub(crate) fn stamp(facts: &Facts) -> [u8; STAMP] {
    let mut look = [0; 1 + 8 + 4 + 8 + 12 + 12];
    look[0] = match facts.kind {
        FileType::Directory => FOLDER,
        FileType::RegularFile => FILE,
        FileType::Symlink => LINK,
        _ => OTHER,
    };
    look[1..9].copy_from_slice(&facts.inode.to_le_bytes());
    look[9..13].copy_from_slice(&facts.mode.to_le_bytes());
    look[13..21].copy_from_slice(&facts.size.to_le_bytes());
    for (at, moment) in [(21, facts.modified), (33, facts.changed)] {
        look[at..at + 8].copy_from_slice(&moment.seconds.to_le_bytes());
        look[at + 8..at + 12].copy_from_slice(&moment.nanos.to_le_bytes());
    }
    let digest = blake3::hash(&look);
    *digest.as_bytes().first_chunk().expect("a digest is longer")
}
