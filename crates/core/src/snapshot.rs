//! The snapshot store's contract: capture, restore, verify and sweep the files of a workspace.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::archive::Archives;
use crate::checkpoint::Repository;
use crate::digest::Digest;
use crate::error::{Diagnose, Kind};
use crate::ports::Boxed;
use crate::time::Timestamp;
use crate::transfer::Transfer;

/// Stores the files of folders. A snapshot's id is the digest of its content.
pub trait Snapshots: Archives + Transfer {
    /// Takes a snapshot of `folder`; durable when it returns. If `folder` is a git repository, the
    /// result includes what differs from the commit `since`.
    fn capture<'a>(
        &'a self,
        folder: &'a Path,
        rules: &'a Rules,
        since: Option<&'a str>,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<Captured, Error>>;

    /// Restores the files into `folder`.
    fn restore<'a>(
        &'a self,
        snapshot: Digest,
        folder: &'a Path,
        options: Restore,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<Restored, Error>>;

    /// Reads all data that a snapshot needs and lists what is damaged.
    fn verify<'a>(
        &'a self,
        snapshot: Digest,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<Vec<String>, Error>>;

    /// The differences between two snapshots.
    fn diff(&self, from: Digest, to: Digest) -> Boxed<'_, Result<Vec<Change>, Error>>;

    fn read(&self, snapshot: Digest, path: PathBuf) -> Boxed<'_, Result<Vec<u8>, Error>>;

    /// The commit of a folder, if it is a git repository and has a commit.
    fn head_commit(&self, folder: PathBuf) -> Boxed<'_, Option<String>>;

    /// Reads the current git status of a folder, and what differs from the commit `since`. Stores and
    /// writes nothing.
    fn workspace_status(
        &self,
        folder: PathBuf,
        since: Option<String>,
    ) -> Boxed<'_, WorkspaceStatus>;

    /// Stores files that are in no folder, by their names; durable when it returns.
    fn put_files(&self, attachments: Vec<(String, Vec<u8>)>) -> Boxed<'_, Result<Digest, Error>>;

    /// Stores the first `length` bytes of a file of any size under a name; durable when it returns.
    /// [`Carry::attachments`] reads them back.
    fn put_file(
        &self,
        name: String,
        file: PathBuf,
        length: u64,
    ) -> Boxed<'_, Result<Digest, Error>>;

    /// The disk usage of a snapshot.
    fn size(&self, snapshot: Digest) -> Boxed<'_, Result<Size, Error>>;

    /// The disk usage of all snapshots.
    fn total_size(&self) -> Boxed<'_, Result<u64, Error>>;

    /// Deletes every snapshot except `kept` and those taken since `before`, and the data that no
    /// snapshot has referenced for `grace`.
    fn sweep(
        &self,
        kept: Vec<Digest>,
        before: Timestamp,
        grace: Duration,
    ) -> Boxed<'_, Result<Swept, Error>>;
}

/// The git status of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceStatus {
    /// The folder's repository; `None` if it is not a repository.
    pub repository: Option<Repository>,
    /// What differs from the last commit.
    pub changed: Vec<String>,
}

/// The user's rules about which files belong to a snapshot, as `.gitignore` patterns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Included although they are regenerable.
    pub include: Vec<String>,
    /// Excluded unless git tracks them; with `!` before the pattern, also then.
    pub exclude: Vec<String>,
}

impl Rules {
    /// The union of both rule sets.
    pub fn merged(&self, others: &Self) -> Self {
        Self {
            include: [&self.include[..], &others.include].concat(),
            exclude: [&self.exclude[..], &others.exclude].concat(),
        }
    }

    /// Whether a pattern is not empty.
    pub fn is_meaningful(pattern: &str) -> bool {
        !pattern.trim_start_matches('!').trim_matches('/').is_empty()
    }
}

/// Receives progress: done, total.
pub type Progress = dyn Fn(u64, u64) + Send + Sync;

/// A snapshot that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// The snapshot's id.
    pub snapshot: Digest,
    pub files: u64,
    /// The total size of the files.
    pub bytes: u64,
    /// How many bytes were newly written.
    pub written: u64,
    /// Files that changed while they were read.
    pub unstable: Vec<String>,
    /// Files that could not be read.
    pub skipped: Vec<OmittedPath>,
    /// Paths that were excluded because they are regenerable.
    pub excluded: Vec<OmittedPath>,
    /// The state of the git repositories in the folder.
    pub repositories: Vec<Repository>,
}

/// A path that is not in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OmittedPath {
    /// The path relative to the folder.
    pub path: String,
    pub reason: String,
}

/// Options of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restore {
    /// Whether to delete files that are not in the snapshot, but would be if they had existed.
    pub exact: bool,
    /// Whether to change nothing and only report.
    pub dry_run: bool,
    /// Whether files that could start a program are restored as they were; otherwise under another name.
    pub trusted: bool,
    /// The snapshot of the folder that was taken just before, if any.
    pub current: Option<Digest>,
    /// The folder that the files were captured from.
    pub from: PathBuf,
    /// The git repositories among the files.
    pub repositories: Vec<Repository>,
    /// Which files belong to a snapshot of the folder.
    pub rules: Rules,
}

/// The result of a restore.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// How many files were written.
    pub written: u64,
    /// The total size of the written files.
    pub bytes: u64,
    /// How many files already had the right content.
    pub unchanged: u64,
    pub removed: Vec<String>,
    /// Files that could start a program and were restored under another name.
    pub disarmed: Vec<String>,
}

/// A path that differs between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub path: String,
    pub kind: ChangeKind,
}

/// How a path differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    Added,
    Removed,
    /// The content differs.
    Changed,
    /// Only the mode differs.
    Mode,
}

/// The disk usage of a snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// How much space deleting the snapshot would free.
    pub own: u64,
    /// How much it shares with other snapshots.
    pub shared: u64,
}

/// The result of a sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// The snapshot store was in use: nothing was done.
    pub busy: bool,
    /// How many snapshots were deleted.
    pub snapshots: u64,
    /// How many bytes were freed.
    pub freed: u64,
    /// How many files will be deleted when the grace period is over.
    pub waiting: u64,
}

/// Why an operation of the snapshot store failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub kind: Kind,
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
}

impl Diagnose for Error {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn code(&self) -> &'static str {
        self.code
    }

    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

/// A snapshot store that stores nothing: for runs that leave nothing behind.
pub struct NoSnapshots;

impl NoSnapshots {
    pub(crate) fn refuse<'a, T: Send + 'a>() -> Boxed<'a, Result<T, Error>> {
        Box::pin(std::future::ready(Err(Error {
            kind: Kind::Unavailable,
            code: "K0204",
            message: "there is no snapshot store here".to_owned(),
            hint: None,
        })))
    }
}

impl Snapshots for NoSnapshots {
    fn capture<'a>(
        &'a self,
        _: &'a Path,
        _: &'a Rules,
        _: Option<&'a str>,
        _: &'a Progress,
    ) -> Boxed<'a, Result<Captured, Error>> {
        Self::refuse()
    }

    fn restore<'a>(
        &'a self,
        _: Digest,
        _: &'a Path,
        _: Restore,
        _: &'a Progress,
    ) -> Boxed<'a, Result<Restored, Error>> {
        Self::refuse()
    }

    fn verify<'a>(&'a self, _: Digest, _: &'a Progress) -> Boxed<'a, Result<Vec<String>, Error>> {
        Self::refuse()
    }

    fn diff(&self, _: Digest, _: Digest) -> Boxed<'_, Result<Vec<Change>, Error>> {
        Self::refuse()
    }

    fn read(&self, _: Digest, _: PathBuf) -> Boxed<'_, Result<Vec<u8>, Error>> {
        Self::refuse()
    }

    fn head_commit(&self, _: PathBuf) -> Boxed<'_, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    fn workspace_status(&self, _: PathBuf, _: Option<String>) -> Boxed<'_, WorkspaceStatus> {
        Box::pin(std::future::ready(WorkspaceStatus::default()))
    }

    fn put_files(&self, _: Vec<(String, Vec<u8>)>) -> Boxed<'_, Result<Digest, Error>> {
        Self::refuse()
    }

    fn put_file(&self, _: String, _: PathBuf, _: u64) -> Boxed<'_, Result<Digest, Error>> {
        Self::refuse()
    }

    fn size(&self, _: Digest) -> Boxed<'_, Result<Size, Error>> {
        Self::refuse()
    }

    fn total_size(&self) -> Boxed<'_, Result<u64, Error>> {
        Self::refuse()
    }

    fn sweep(&self, _: Vec<Digest>, _: Timestamp, _: Duration) -> Boxed<'_, Result<Swept, Error>> {
        Self::refuse()
    }
}
