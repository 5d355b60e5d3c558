//! Requests to the snapshot store and their results.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use segno_core::digest::Digest;
use segno_core::ports::Clock;
use segno_core::snapshot::FolderUse;

use crate::entry::Skipped;
use crate::scope::Scope;

/// Excludes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Everything;

impl Scope for Everything {
    fn excludes(&self, _: &Path, _: &OsStr, _: bool) -> Option<String> {
        None
    }
}

/// Limits of a capture. What does not fit is excluded, and the result says so.
#[derive(Debug, Clone, Copy, Default)]
pub struct Budget {
    pub files: Option<u64>,
    pub bytes: Option<u64>,
    /// Files that were not read by then are excluded.
    pub time: Option<Duration>,
}

impl Budget {
    pub(crate) fn is_limited(&self) -> bool {
        self.files.is_some() || self.bytes.is_some() || self.time.is_some()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// The one that contains the folder.
    #[default]
    OneFileSystem,
    /// Also those that are mounted below it.
    All,
}

#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub root: &'a Path,
    /// The user's home folder. It is never captured, nor any folder above it.
    pub home: Option<&'a Path>,
    /// Decides what belongs to the snapshot.
    pub scope: &'a dyn Scope,
    /// Measures the time budget.
    pub clock: &'a dyn Clock,
    pub budget: Budget,
    pub reach: Reach,
    /// Of a thousand files that look unchanged but changed a short time ago, how many are read
    /// again: programs that write through memory maps can change a file without a trace.
    pub recheck_per_mille: u32,
}

impl<'a> Request<'a> {
    /// All of `root`, without limits.
    pub fn new(root: &'a Path, clock: &'a dyn Clock) -> Self {
        Self {
            root,
            home: None,
            scope: &Everything,
            clock,
            budget: Budget::default(),
            reach: Reach::default(),
            recheck_per_mille: 10,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Files processed so far.
    pub files: u64,
    /// The total number of files.
    pub of: u64,
    /// Bytes read or written.
    pub bytes: u64,
}

/// What a capture found and stored. The snapshot is durable and listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureReport {
    /// Its name: the digest of its manifest.
    pub snapshot: Digest,
    pub files: u64,
    pub folders: u64,
    /// Symbolic links.
    pub links: u64,
    /// The total size of its files.
    pub bytes: u64,
    /// Files that had to be read; the others are known to be unchanged.
    pub read_files: u64,
    /// How many bytes the store grew by.
    pub stored_bytes: u64,
    /// Files that changed during every attempt to read them. The snapshot has what was read.
    pub unstable: Vec<PathBuf>,
    pub skipped: Vec<Skipped>,
    /// The folders of git repositories; the path of the captured folder itself is empty.
    pub repositories: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// Everything is restored as it was.
    #[default]
    Full,
    /// The snapshot comes from elsewhere: files that could start a program get another name.
    Content,
}

#[derive(Clone, Copy)]
pub struct Restore<'a> {
    /// The user's home folder. It is never restored into, nor any folder above it.
    pub home: Option<&'a Path>,
    /// Whether the target may contain Segno's home, which then stays as it is.
    pub folder_use: FolderUse,
    /// Removes what is in the target and not in the snapshot. What the snapshot or `scope` excludes
    /// stays.
    pub exact: bool,
    /// Decides what belongs to snapshots of the target.
    pub scope: &'a dyn Scope,
    pub trust: Trust,
    /// Restores setuid and setgid bits.
    pub privileges: bool,
    /// Makes everything durable before it returns.
    pub durable: bool,
    /// Refuses a snapshot with more bytes than this.
    pub limit: Option<u64>,
    /// The snapshot that was just taken of the target: entries that are the same in both need no
    /// second check.
    pub target_snapshot: Option<Digest>,
}

impl Default for Restore<'_> {
    fn default() -> Self {
        Self {
            home: None,
            folder_use: FolderUse::default(),
            exact: false,
            scope: &Everything,
            trust: Trust::default(),
            privileges: false,
            durable: true,
            limit: None,
            target_snapshot: None,
        }
    }
}

/// What a restore changed, and what the snapshot does not contain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoreReport {
    pub written: u64,
    /// The total size of the written files.
    pub bytes: u64,
    pub unchanged: u64,
    /// The removed paths, sorted.
    pub removed: Vec<PathBuf>,
    /// Files whose content may never have existed as such; see [`CaptureReport::unstable`].
    pub unstable: Vec<PathBuf>,
    /// What the snapshot excludes, and why.
    pub skipped: Vec<Skipped>,
    /// Paths that could start a program. They, or the folders that contain them, have the suffix
    /// `.segno-inert`.
    pub disarmed: Vec<PathBuf>,
}
