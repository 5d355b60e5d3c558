//! The snapshot store's contract: capture, restore, verify and sweep the files of a workspace.

pub mod archive;
pub mod transfer;

use std::path::{Path, PathBuf};
use std::time::Duration;

use self::archive::Archives;
use self::transfer::{PartKind, Transfer};
use crate::checkpoint::Repository;
use crate::digest::Digest;
use crate::error::{Diagnose, Diagnosis, Kind};
use crate::ports::Boxed;
use crate::time::Timestamp;

/// Stores the files of folders. A snapshot's id is the digest of its content.
pub trait Snapshots: Archives + Transfer {
    /// Refuses a folder that belongs to Segno itself: its home, and every folder inside. As a
    /// [`FolderUse::Target`], also a folder that contains the home. Reads only.
    fn check_folder(&self, folder: &Path, usage: FolderUse) -> Result<(), Error>;

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

    /// Examines everything that these snapshots need, and all stored packs. Damage to one snapshot
    /// does not hide that to others.
    fn examine<'a>(
        &'a self,
        snapshots: Vec<Digest>,
        depth: Depth,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<Examined, Error>>;

    /// Removes what is rebuilt when it is needed again: the indexes of captured folders. Returns
    /// how many there were.
    fn remove_caches(&self) -> Boxed<'_, Result<u64, Error>>;

    /// Moves damaged parts to a folder of their own, so that they can be imported again. Deletes
    /// nothing.
    fn quarantine(&self, parts: Vec<(PartKind, Digest)>) -> Boxed<'_, Result<(), Error>>;

    /// The differences between two snapshots.
    fn diff(&self, from: Digest, to: Digest) -> Boxed<'_, Result<Vec<Change>, Error>>;

    fn read(&self, snapshot: Digest, path: PathBuf) -> Boxed<'_, Result<Vec<u8>, Error>>;

    /// The files, folders and links of a snapshot in their fixed order: at most `limit`, without
    /// the first `skipped`.
    fn files(
        &self,
        snapshot: Digest,
        skipped: usize,
        limit: usize,
    ) -> Boxed<'_, Result<Vec<StoredFile>, Error>>;

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
    /// [`Transfer::attachments`] reads them back.
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
    /// snapshot has referenced for `grace`. `None` means that it is unknown which snapshots are
    /// needed: then all stay.
    fn sweep(
        &self,
        kept: Option<Vec<Digest>>,
        before: Timestamp,
        grace: Duration,
    ) -> Boxed<'_, Result<Swept, Error>>;
}

/// How thoroughly snapshots are examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Every list of files and every table of contents is read; the content is not.
    Structure,
    /// Everything is read and compared with its digest.
    Content,
}

/// The result of an examination.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examined {
    pub snapshots: u64,
    pub packs: u64,
    /// The total size of the packs.
    pub bytes: u64,
    pub damage: Vec<Damage>,
}

/// Something that a snapshot needs and that is missing or wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    pub object: String,
    pub reason: String,
    /// The file that is damaged, if it is known and exists.
    pub part: Option<(PartKind, Digest)>,
    /// Whether only the entry in the list of snapshots is missing.
    pub is_unlisted: bool,
    /// The snapshots that cannot be restored completely because of it.
    pub snapshots: Vec<Digest>,
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

/// What a folder is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FolderUse {
    /// A session works in it. It may contain Segno's home, which no snapshot of it contains and no
    /// restore into it touches.
    #[default]
    Workspace,
    /// The files of another folder are restored into it.
    Target,
}

/// Options of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restore {
    pub folder_use: FolderUse,
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

/// A file, folder or link of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// The path relative to the folder.
    pub path: String,
    pub kind: FileKind,
    /// The permission bits.
    pub mode: u32,
    /// The length of a file in bytes; otherwise 0.
    pub size: u64,
    /// Where a link points to; the first name of a file with several.
    pub target: Option<String>,
}

/// The type of a [`StoredFile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    File,
    Folder,
    /// A symbolic link.
    Link,
    /// Another name of a file.
    HardLink,
}

impl FileKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Folder => "folder",
            Self::Link => "link",
            Self::HardLink => "hard_link",
        }
    }
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

impl ChangeKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
            Self::Mode => "mode",
        }
    }
}

/// The disk usage of a snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    pub files: u64,
    /// The total size of its files.
    pub logical: u64,
    /// Stored bytes that only this snapshot references: roughly what deleting it frees.
    pub own: u64,
    /// Stored bytes that other snapshots reference, too.
    pub shared: u64,
}

/// The result of a sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// The snapshot store was in use: nothing was done.
    pub busy: bool,
    /// How many snapshots were deleted.
    pub snapshots: u64,
    /// How many packs and manifests were deleted.
    pub deleted: u64,
    /// How many bytes were freed.
    pub freed: u64,
    /// How many packs and manifests were newly marked: a later sweep deletes them when the grace
    /// period is over.
    pub waiting: u64,
    /// How many packs were rewritten because little of their content was referenced.
    pub compacted: u64,
}

/// Why an operation of the snapshot store failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub message: String,
    pub diagnosis: Diagnosis,
}

impl Error {
    /// Describes the error of an implementation.
    pub fn of(error: &impl Diagnose) -> Self {
        Self {
            message: error.to_string(),
            diagnosis: error.diagnosis(),
        }
    }

    /// There is no snapshot store: this process stores nothing.
    pub fn no_store() -> Self {
        Self {
            message: "there is no place to keep files here".to_owned(),
            diagnosis: Diagnosis::new(Kind::Unavailable, "K0204"),
        }
    }
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        self.diagnosis.clone()
    }
}
