//! What the timestamps of a file say about writes. Most file systems use a clock that ticks a few
//! hundred times a second: two writes in one tick look the same. Some give every write that follows
//! a stat a different timestamp; this is tested once.

use std::path::Path;
use std::sync::OnceLock;

use crate::chunk::WHOLE;
use crate::entry::FileTime;
use crate::files;
use crate::index::{RECENT_NANOS, is_older};
use crate::machine::stamp_tick;
use crate::openat::Facts;

/// How long a write to a file below [`WHOLE`] bytes may take, in nanoseconds: its timestamp is that
/// of its beginning.
const WRITE_DURATION: u32 = 2_000_000;

/// How far timestamps can be trusted.
pub(crate) struct Stamps<'a> {
    /// A folder where a test file can be created.
    drafts: &'a Path,
    /// Two ticks of the clock that stamps files. A write after a stat gets a later timestamp than
    /// one that is this many nanoseconds older than the stat.
    ticks: u32,
    /// The device on which each write after a stat gets a new timestamp, if there is one.
    exact: OnceLock<Option<u64>>,
}

impl<'a> Stamps<'a> {
    pub(crate) fn new(drafts: &'a Path) -> Self {
        Self {
            drafts,
            ticks: stamp_tick().saturating_mul(2).min(RECENT_NANOS),
            exact: OnceLock::new(),
        }
    }

    /// Whether a write to a file after `since`, when its stat data were read, shows in its
    /// timestamps. The mtime is ignored, because programs can set it, even into the future; the
    /// ctime counts.
    pub(crate) fn show_writes(&self, facts: &Facts, since: FileTime) -> bool {
        let changed = Facts {
            modified: facts.changed,
            ..*facts
        };
        is_older(&changed, since, self.ticks)
            || facts.size < WHOLE
                && is_older(&changed, since, WRITE_DURATION)
                && self.are_exact_on(facts.device)
    }

    fn are_exact_on(&self, device: u64) -> bool {
        let try_it = || files::device_with_exact_stamps(self.drafts).unwrap_or(None);
        *self.exact.get_or_init(try_it) == Some(device)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn exact_stamps_show_every_write_after_a_stat() {
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

    /// The stat data of a file that was written this many milliseconds before the returned time.
    fn written(millis: u32) -> (Facts, FileTime) {
        let facts = Facts::at(rustix::fs::CWD, "/".as_ref()).unwrap();
        let changed = FileTime {
            nanos: 0,
            ..facts.changed
        };
        let since = FileTime {
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
    fn recent_write_may_still_be_in_progress() {
        let folder = Path::new("unused");
        for (millis, coarse, exact) in [(1, false, false), (3, false, true), (9, true, true)] {
            let (facts, since) = written(millis);
            let device = Some(facts.device);
            assert_eq!(stamps(folder, None).show_writes(&facts, since), coarse);
            assert_eq!(stamps(folder, device).show_writes(&facts, since), exact);
        }
    }

    #[test]
    fn long_and_foreign_files_wait_for_two_ticks() {
        let (facts, since) = written(3);
        let size = WHOLE;
        let stamps = stamps(Path::new("unused"), Some(facts.device));
        assert!(stamps.show_writes(&facts, since));
        assert!(!stamps.show_writes(&Facts { size, ..facts }, since));
        let device = facts.device + 1;
        assert!(!stamps.show_writes(&Facts { device, ..facts }, since));
    }
}
