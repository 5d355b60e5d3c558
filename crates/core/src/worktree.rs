//! What it is to work in a git repository: a branch with a folder of its own, and one commit for each
//! piece of work.

use std::path::PathBuf;

use crate::error::{Diagnose, Kind};
use crate::ports::Boxed;

/// Works in git repositories of a person. What is here writes: it makes branches, folders and commits,
/// and never changes or removes one that is there.
pub trait Worktrees: Send + Sync {
    /// How the repository stands that `folder` lies in, and whose commits would be made there. Nothing is
    /// written.
    fn survey(&self, folder: PathBuf) -> Boxed<'_, Result<Ground, Error>>;

    /// The commit that a branch of the repository stands at; `None` if there is no such branch.
    fn branch(&self, folder: PathBuf, branch: String) -> Boxed<'_, Result<Option<String>, Error>>;

    /// Makes a branch, and a folder with its files. May be called again with the same plot: what was
    /// made before a kill is gone on with, and what is whole is left as it is.
    fn branch_off(&self, plot: Plot) -> Boxed<'_, Result<(), Error>>;

    /// What differs in `folder` from a commit, files that git does not know yet included: a list of the
    /// files, then the changes, cut after `limit` bytes.
    fn diff(
        &self,
        folder: PathBuf,
        since: String,
        limit: usize,
    ) -> Boxed<'_, Result<String, Error>>;

    /// Commits everything in the folder that git does not ignore. May be called again with the same
    /// deed: a commit that carries its trailers is found, and not made a second time. Of two who call it
    /// at once, one makes it.
    fn commit(&self, deed: Deed) -> Boxed<'_, Result<Made, Error>>;
}

/// A repository that can be worked in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ground {
    /// The folder that has all of its files.
    pub top: PathBuf,
    /// The commit that it stands at.
    pub commit: String,
    /// The branch that is checked out, if one is.
    pub branch: Option<String>,
    /// What differs from that commit.
    pub changed: Vec<String>,
}

/// A branch and a folder to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plot {
    /// The repository.
    pub repository: PathBuf,
    /// What the branch is called.
    pub branch: String,
    /// The commit that it begins at.
    pub commit: String,
    /// The folder: not there yet, or empty.
    pub folder: PathBuf,
}

/// A commit to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deed {
    /// Where the files are.
    pub folder: PathBuf,
    /// The commit that the work began at: an earlier one does not count.
    pub since: String,
    /// The first line of its message.
    pub subject: String,
    /// What its message says below.
    pub body: String,
    /// Lines at the end of its message, by which it is known.
    pub trailers: Vec<(String, String)>,
}

/// What came of a deed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// The commit is there.
    Commit(String),
    /// Nothing is left to commit, and others have made commits since: this is the last of them.
    Others(String),
    /// Nothing was changed.
    Nothing,
}

/// Why a repository cannot be worked in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is none.
    #[error("{} is in no git repository", .folder.display())]
    NoRepository {
        /// The folder.
        folder: PathBuf,
    },
    /// There is nothing to begin from.
    #[error("the git repository {} has no commit yet", .folder.display())]
    NoCommit {
        /// The repository.
        folder: PathBuf,
    },
    /// Nobody knows who commits.
    #[error("git does not know who commits in {}: {reason}", .folder.display())]
    NoIdentity {
        /// The repository.
        folder: PathBuf,
        /// What git says.
        reason: String,
    },
    /// A branch of this name is there, and stands elsewhere.
    #[error("the git repository {} has a branch `{branch}` already", .folder.display())]
    BranchTaken {
        /// The repository.
        folder: PathBuf,
        /// The branch.
        branch: String,
    },
    /// A person's changes would get into a commit.
    #[error("{} has changes that are not committed: {}", .folder.display(), some(.changed))]
    Uncommitted {
        /// The folder.
        folder: PathBuf,
        /// What was changed.
        changed: Vec<String>,
    },
    /// The folder to work in is not free.
    #[error("{} cannot be worked in: {reason}", .folder.display())]
    FolderTaken {
        /// The folder.
        folder: PathBuf,
        /// What is in the way.
        reason: String,
    },
    /// Git refused.
    #[error("git cannot be used in {}: {reason}", .folder.display())]
    Refused {
        /// The folder.
        folder: PathBuf,
        /// What it said.
        reason: String,
    },
}

/// The first of several.
fn some(names: &[String]) -> String {
    let shown = names.iter().take(3).map(String::as_str);
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(3) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

impl Diagnose for Error {
    fn kind(&self) -> Kind {
        match self {
            Self::NoRepository { .. } | Self::NoCommit { .. } | Self::NoIdentity { .. } => {
                Kind::Invalid
            }
            Self::BranchTaken { .. } | Self::Uncommitted { .. } | Self::FolderTaken { .. } => {
                Kind::Conflict
            }
            Self::Refused { .. } => Kind::Unavailable,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NoRepository { .. } => "R0130",
            Self::NoCommit { .. } => "R0131",
            Self::NoIdentity { .. } => "R0132",
            Self::BranchTaken { .. } => "R0133",
            Self::Uncommitted { .. } => "R0134",
            Self::Refused { .. } => "R0135",
            Self::FolderTaken { .. } => "R0137",
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoRepository { .. } => "go to a git repository, or make one: `git init`".into(),
            Self::NoCommit { .. } => {
                "make the first one: `git commit --allow-empty -m \"Begin\"`".into()
            }
            Self::NoIdentity { .. } => {
                "say it once: `git config user.name NAME`, `git config user.email ADDRESS`".into()
            }
            Self::BranchTaken { branch, .. } => format!(
                "give another name with `--name NAME`; `git branch -d {branch}` removes one that was merged"
            ),
            Self::Uncommitted { .. } => {
                "commit or stash them; or leave away `--in-place`, and they stay as they are".into()
            }
            Self::FolderTaken { .. } => "name another one: `--into FOLDER`".into(),
            Self::Refused { .. } => return None,
        })
    }
}

/// There is no git here.
pub struct NoGit;

impl NoGit {
    fn refuse<'a, T: Send + 'a>(folder: PathBuf) -> Boxed<'a, Result<T, Error>> {
        let reason = "there is none here".to_owned();
        Box::pin(std::future::ready(Err(Error::Refused { folder, reason })))
    }
}

impl Worktrees for NoGit {
    fn survey(&self, folder: PathBuf) -> Boxed<'_, Result<Ground, Error>> {
        Self::refuse(folder)
    }

    fn branch(&self, folder: PathBuf, _: String) -> Boxed<'_, Result<Option<String>, Error>> {
        Self::refuse(folder)
    }

    fn branch_off(&self, plot: Plot) -> Boxed<'_, Result<(), Error>> {
        Self::refuse(plot.folder)
    }

    fn diff(&self, folder: PathBuf, _: String, _: usize) -> Boxed<'_, Result<String, Error>> {
        Self::refuse(folder)
    }

    fn commit(&self, deed: Deed) -> Boxed<'_, Result<Made, Error>> {
        Self::refuse(deed.folder)
    }
}
