//! What the stamps of a file say about its writers. Most file systems stamp with a clock that ticks a
//! few hundred times a second: two writes in one tick look the same. Some stamp every write that
//! follows a look differently; whether one does is tried.

use std::path::Path;
use std::sync::OnceLock;

use crate::beneath::Facts;
use crate::chunk::WHOLE;
use crate::entry::Moment;
use crate::files;
use crate::index::{YOUNG, is_older};
use crate::machine::stamp_tick;

/// How long a write to a file that is kept whole may be under way, in nanoseconds: its stamp is that of
/// its beginning.
const UNDER_WAY: u32 = 2_000_000;

/// How the stamps of files are to be taken.
pub(crate) struct Stamps<'a> {
    /// Where files can be made, to see how they are stamped.
    drafts: &'a Path,
    /// Two ticks of the clock that stamps files. A write since a look has a later stamp than one of
    /// so many nanoseconds before.
    ticks: u32,
    /// The device on which each write after a look has a stamp of its own, if that is known of one.
    exact: OnceLock<Option<u64>>,
}

impl<'a> Stamps<'a> {
    pub(crate) fn new(drafts: &'a Path) -> Self {
        Self {
            drafts,
            ticks: stamp_tick().saturating_mul(2).min(YOUNG),
            exact: OnceLock::new(),
        }
    }

    /// Whether a write to a file since a moment, when it was looked at, shows in its stamps. A time in
    /// the future was set by someone: what counts is when.
    pub(crate) fn show_writes(&self, facts: &Facts, since: Moment) -> bool {
        let changed = Facts {
            modified: facts.changed,
            ..*facts
        };
        is_older(&changed, since, self.ticks)
            || facts.size < WHOLE
                && is_older(&changed, since, UNDER_WAY)
                && self.are_exact_on(facts.device)
    }

    fn are_exact_on(&self, device: u64) -> bool {
        let try_it = || files::exactly_stamped(self.drafts).unwrap_or(None);
        *self.exact.get_or_init(try_it) == Some(device)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn where_stamps_are_exact_no_write_after_a_look_goes_unnoticed() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = files::create(&folder.path().join("file")).unwrap();
        let stamps = Stamps::new(folder.path());
        let device = Facts::of(&file).unwrap().device;
        if !stamps.are_exact_on(device) {
            return;
        }
        for _ in 0..1000 {
            let before = Facts::of(&file).unwrap();
            file.write_all(b"more").unwrap();
            assert!(Facts::of(&file).unwrap().changed > before.changed);
        }
        assert!(!stamps.are_exact_on(device + 1));
    }

    /// How a file looks that was written so many milliseconds before the moment that is told, too.
    fn written(millis: u32) -> (Facts, Moment) {
        let facts = Facts::at(rustix::fs::CWD, "/".as_ref()).unwrap();
        let changed = Moment {
            nanos: 0,
            ..facts.changed
        };
        let since = Moment {
            nanos: millis * 1_000_000,
            ..changed
        };
        let size = 1;
        let facts = Facts {
            size,
            changed,
            ..facts
        };
        (facts, since)
    }

    fn stamps(folder: &Path, exact: Option<u64>) -> Stamps<'_> {
        Stamps {
            drafts: folder,
            ticks: 8_000_000,
            exact: OnceLock::from(exact),
        }
    }

    #[test]
    fn a_write_of_a_moment_ago_may_still_be_under_way() {
        let folder = Path::new("unused");
        for (millis, coarse, exact) in [(1, false, false), (3, false, true), (9, true, true)] {
            let (facts, since) = written(millis);
            let device = Some(facts.device);
            assert_eq!(stamps(folder, None).show_writes(&facts, since), coarse);
            assert_eq!(stamps(folder, device).show_writes(&facts, since), exact);
        }
    }

    #[test]
    fn long_files_and_those_of_other_devices_rest_for_two_ticks() {
        let (facts, since) = written(3);
        let size = WHOLE;
        let stamps = stamps(Path::new("unused"), Some(facts.device));
        assert!(stamps.show_writes(&facts, since));
        assert!(!stamps.show_writes(&Facts { size, ..facts }, since));
        let device = facts.device + 1;
        assert!(!stamps.show_writes(&Facts { device, ..facts }, since));
    }
}
