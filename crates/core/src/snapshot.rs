//! What it is to keep the files of a workspace, for whoever takes checkpoints.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::archive::Archives;
use crate::carry::Carry;
use crate::checkpoint::Repository;
use crate::digest::Digest;
use crate::error::{Diagnose, Kind};
use crate::ports::Boxed;
use crate::time::Timestamp;

/// Keeps the files of folders. A snapshot is named by what is in it.
pub trait Snapshots: Archives + Carry {
    /// Keeps the files of `folder`; durable when it returns. If that is a git repository, it is told
    /// what differs in it from the commit `since`.
    fn capture<'a>(
        &'a self,
        folder: &'a Path,
        rules: &'a Rules,
        since: Option<&'a str>,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<Captured, Error>>;

    /// Brings the files back into `folder`.
    fn restore<'a>(
        &'a self,
        snapshot: Digest,
        folder: &'a Path,
        options: Restore,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<Restored, Error>>;

    /// Reads everything that a snapshot needs, and names what is damaged.
    fn verify<'a>(
        &'a self,
        snapshot: Digest,
        progress: &'a Progress,
    ) -> Boxed<'a, Result<Vec<String>, Error>>;

    /// How one snapshot differs from another.
    fn diff(&self, from: Digest, to: Digest) -> Boxed<'_, Result<Vec<Change>, Error>>;

    /// The content of one file.
    fn read(&self, snapshot: Digest, path: PathBuf) -> Boxed<'_, Result<Vec<u8>, Error>>;

    /// The commit that a folder stands at, if it is a git repository and has one.
    fn commit(&self, folder: PathBuf) -> Boxed<'_, Option<String>>;

    /// How a folder looks just now, and what differs in it from the commit `since`. Nothing is kept, and
    /// nothing is written.
    fn look(&self, folder: PathBuf, since: Option<String>) -> Boxed<'_, Sight>;

    /// Keeps files that are in no folder, by their names; durable when it returns.
    fn keep(&self, papers: Vec<(String, Vec<u8>)>) -> Boxed<'_, Result<Digest, Error>>;

    /// Keeps the first `length` bytes of a file that may be of any length, under a name; durable when
    /// it returns. They are read back with [`Carry::papers`].
    fn keep_file(
        &self,
        name: String,
        file: PathBuf,
        length: u64,
    ) -> Boxed<'_, Result<Digest, Error>>;

    /// What a snapshot takes on the disk.
    fn size(&self, snapshot: Digest) -> Boxed<'_, Result<Size, Error>>;

    /// What all snapshots take on the disk.
    fn room(&self) -> Boxed<'_, Result<u64, Error>>;

    /// Lets go of every snapshot but these and those that were taken since `before`, and of what
    /// nothing has needed for `grace`.
    fn sweep(
        &self,
        kept: Vec<Digest>,
        before: Timestamp,
        grace: Duration,
    ) -> Boxed<'_, Result<Swept, Error>>;
}

/// How a folder looks to git.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sight {
    /// How the repository stands that the folder is; `None` if it is none.
    pub repository: Option<Repository>,
    /// What differs in it from the last commit.
    pub changed: Vec<String>,
}

/// What a person has said about which files belong to a snapshot, in patterns as `.gitignore` has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Kept, though they can be made again.
    pub include: Vec<String>,
    /// Left out, unless git tracks them; with `!` before the pattern, also then.
    pub exclude: Vec<String>,
}

impl Rules {
    /// These and those.
    pub fn with(&self, others: &Self) -> Self {
        Self {
            include: [&self.include[..], &others.include].concat(),
            exclude: [&self.exclude[..], &others.exclude].concat(),
        }
    }

    /// Whether a pattern says anything.
    pub fn says_something(pattern: &str) -> bool {
        !pattern.trim_start_matches('!').trim_matches('/').is_empty()
    }
}

/// Hears how far something is: done, and of how many.
pub type Progress = dyn Fn(u64, u64) + Send + Sync;

/// A snapshot that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// What it is called.
    pub snapshot: Digest,
    /// How many files it has.
    pub files: u64,
    /// How long they are, all together.
    pub bytes: u64,
    /// How much was written for it.
    pub written: u64,
    /// Files that changed while they were read.
    pub unstable: Vec<String>,
    /// What could not be read.
    pub skipped: Vec<Left>,
    /// What was left out because it can be made again.
    pub left_out: Vec<Left>,
    /// How the git repositories in it stand.
    pub repositories: Vec<Repository>,
}

/// Something that is not in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Where it is, below the folder.
    pub path: String,
    /// Why.
    pub why: String,
}

/// How files are brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restore {
    /// Whether files that the snapshot does not have, but would have if they had been there, go.
    pub exact: bool,
    /// Whether nothing is done, only told.
    pub dry: bool,
    /// Whether what could start a program comes back as it was; otherwise under another name.
    pub trusted: bool,
    /// The snapshot of the folder that was taken a moment ago, if one was.
    pub seen: Option<Digest>,
    /// Where the files were.
    pub from: PathBuf,
    /// The git repositories among them.
    pub repositories: Vec<Repository>,
    /// What belongs to a snapshot of the folder.
    pub rules: Rules,
}

/// What was brought back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Files that were written.
    pub written: u64,
    /// How long they are.
    pub bytes: u64,
    /// Files that were as they should be.
    pub unchanged: u64,
    /// What was removed.
    pub removed: Vec<String>,
    /// What could start a program, and came back under another name.
    pub set_aside: Vec<String>,
}

/// A path that is not the same in two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The path.
    pub path: String,
    /// What is different.
    pub sort: Sort,
}

/// What is different.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It has another content.
    Changed,
    /// Only its mode is another.
    Mode,
}

/// What a snapshot takes on the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// What would be free without it.
    pub own: u64,
    /// What it shares with others.
    pub shared: u64,
}

/// What a sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Someone was at work: nothing was done.
    pub busy: bool,
    /// Snapshots that it let go of.
    pub snapshots: u64,
    /// Bytes that are free now.
    pub freed: u64,
    /// Files that go when the grace is over.
    pub waiting: u64,
}

/// Why files could not be kept or brought back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The sort.
    pub kind: Kind,
    /// The code of its page.
    pub code: &'static str,
    /// What happened.
    pub message: String,
    /// What to do.
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

/// Keeps nothing: for runs that leave nothing behind.
pub struct Nowhere;

impl Nowhere {
    pub(crate) fn refuse<'a, T: Send + 'a>() -> Boxed<'a, Result<T, Error>> {
        Box::pin(std::future::ready(Err(Error {
            kind: Kind::Unavailable,
            code: "K0204",
            message: "there is no place to keep files here".to_owned(),
            hint: None,
        })))
    }
}

impl Snapshots for Nowhere {
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

    fn commit(&self, _: PathBuf) -> Boxed<'_, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    fn look(&self, _: PathBuf, _: Option<String>) -> Boxed<'_, Sight> {
        Box::pin(std::future::ready(Sight::default()))
    }

    fn keep(&self, _: Vec<(String, Vec<u8>)>) -> Boxed<'_, Result<Digest, Error>> {
        Self::refuse()
    }

    fn keep_file(&self, _: String, _: PathBuf, _: u64) -> Boxed<'_, Result<Digest, Error>> {
        Self::refuse()
    }

    fn size(&self, _: Digest) -> Boxed<'_, Result<Size, Error>> {
        Self::refuse()
    }

    fn room(&self) -> Boxed<'_, Result<u64, Error>> {
        Self::refuse()
    }

    fn sweep(&self, _: Vec<Digest>, _: Timestamp, _: Duration) -> Boxed<'_, Result<Swept, Error>> {
        Self::refuse()
    }
}
