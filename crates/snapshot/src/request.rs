//! What is asked of a vault, and what it answers.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use segno_core::digest::Digest;
use segno_core::ports::Clock;

use crate::entry::Skipped;
use crate::scope::Scope;

/// Leaves nothing out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Everything;

impl Scope for Everything {
    fn leaves_out(&self, _: &Path, _: &OsStr, _: bool) -> Option<String> {
        None
    }
}

/// How much a capture may take. What does not fit is left out, and the result says so.
#[derive(Debug, Clone, Copy, Default)]
pub struct Budget {
    /// How many files.
    pub files: Option<u64>,
    /// How many bytes they may have together.
    pub bytes: Option<u64>,
    /// How long it may take. What was not read by then is left out.
    pub time: Option<Duration>,
}

impl Budget {
    /// Whether anything may be left out for the lack of something.
    pub(crate) fn is_limited(&self) -> bool {
        self.files.is_some() || self.bytes.is_some() || self.time.is_some()
    }
}

/// Which file systems a capture enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// The one that the folder is on.
    #[default]
    OneFileSystem,
    /// Those that are mounted below it, too.
    All,
}

/// What to capture.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The folder.
    pub root: &'a Path,
    /// The person's home folder, which is never captured, nor any folder that it lies in.
    pub home: Option<&'a Path>,
    /// What belongs to the snapshot.
    pub scope: &'a dyn Scope,
    /// Tells when the time is used up.
    pub clock: &'a dyn Clock,
    /// How much it may take.
    pub budget: Budget,
    /// Which file systems it enters.
    pub reach: Reach,
    /// How many of a thousand files are read again though they look unchanged, if they were changed
    /// a short time ago: programs that write through memory can change a file without a trace.
    pub doubt: u32,
}

impl<'a> Request<'a> {
    /// The whole of `root`, without limits.
    pub fn new(root: &'a Path, clock: &'a dyn Clock) -> Self {
        Self {
            root,
            home: None,
            scope: &Everything,
            clock,
            budget: Budget::default(),
            reach: Reach::default(),
            doubt: 10,
        }
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Files dealt with.
    pub files: u64,
    /// How many there are to deal with.
    pub of: u64,
    /// Bytes read or written.
    pub bytes: u64,
}

/// A snapshot that was taken, durable and listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// Its name: the digest of its manifest.
    pub snapshot: Digest,
    /// Files in it.
    pub files: u64,
    /// Folders in it.
    pub folders: u64,
    /// Symbolic links in it.
    pub links: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Files that had to be read; the others are known not to have changed.
    pub read_files: u64,
    /// Bytes that the vault grew by.
    pub stored_bytes: u64,
    /// Files that changed while they were read, every time. Their content is as it was read.
    pub unstable: Vec<PathBuf>,
    /// What was left out, and why.
    pub skipped: Vec<Skipped>,
    /// Where git repositories are; the path of the folder itself is empty.
    pub repositories: Vec<PathBuf>,
}

/// How far a snapshot is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// Everything comes back as it was.
    #[default]
    Full,
    /// It comes from elsewhere: what could start a program comes back under another name.
    Content,
}

/// How a snapshot is restored.
#[derive(Clone, Copy)]
pub struct Restore<'a> {
    /// The person's home folder, which is never restored into, nor any folder that it lies in.
    pub home: Option<&'a Path>,
    /// Removes what is in the target and not in the snapshot. What the snapshot left out, and what
    /// `scope` leaves out, stays.
    pub exact: bool,
    /// What belongs to snapshots of the target.
    pub scope: &'a dyn Scope,
    /// How far the snapshot is trusted.
    pub trust: Trust,
    /// Restores setuid and setgid.
    pub privileges: bool,
    /// Makes everything durable before it returns.
    pub durable: bool,
    /// Refuses a snapshot with more bytes than this.
    pub limit: Option<u64>,
    /// The snapshot that was taken of the target a moment ago: what is the same in both needs no
    /// second look.
    pub seen: Option<Digest>,
}

impl Default for Restore<'_> {
    fn default() -> Self {
        Self {
            home: None,
            exact: false,
            scope: &Everything,
            trust: Trust::default(),
            privileges: false,
            durable: true,
            limit: None,
            seen: None,
        }
    }
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// Files that were written.
    pub written: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Files that were as they should be.
    pub unchanged: u64,
    /// What was removed, sorted.
    pub removed: Vec<PathBuf>,
    /// Files whose content may never have existed as such; see [`Captured::unstable`].
    pub unstable: Vec<PathBuf>,
    /// What the snapshot does not have, and why.
    pub skipped: Vec<Skipped>,
    /// What could start a program, and has `.segno-inert` behind its name or that of its folder.
    pub set_aside: Vec<PathBuf>,
}
