//! The contract for working in a git repository: a branch with a worktree of its own, and one commit per
//! piece of work.

use std::path::PathBuf;

use crate::error::{Diagnose, Diagnosis, Kind};
use crate::ports::Boxed;

/// Works in the user's git repositories. It creates branches, worktrees and commits, and never changes
/// or deletes existing ones.
pub trait Worktrees: Send + Sync {
    /// The state of the repository that contains `folder`. Fails if git has no author or committer
    /// identity there. Writes nothing.
    fn inspect(&self, folder: PathBuf) -> Boxed<'_, Result<RepositoryInfo, Error>>;

    /// The commit of a branch; `None` if the branch does not exist.
    fn branch_commit(
        &self,
        folder: PathBuf,
        branch: String,
    ) -> Boxed<'_, Result<Option<String>, Error>>;

    /// Creates a branch and a worktree with its files. May be called again with the same argument: it
    /// completes what an earlier call created before it was killed, and leaves complete work unchanged.
    fn create_worktree(&self, plot: NewWorktree) -> Boxed<'_, Result<(), Error>>;

    /// The difference between `folder` and a commit, untracked files included: a list of the files, then
    /// the changes, cut after `limit` bytes.
    fn diff(
        &self,
        folder: PathBuf,
        since: String,
        limit: usize,
    ) -> Boxed<'_, Result<String, Error>>;

    /// Commits everything in the folder that git does not ignore. May be called again with the same
    /// argument: a commit with the same trailers is found and not created a second time. Of two
    /// concurrent callers, one creates it.
    fn commit(&self, operation: CommitRequest) -> Boxed<'_, Result<CommitOutcome, Error>>;
}

/// A repository that can be worked in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryInfo {
    /// The top-level folder of the worktree.
    pub top: PathBuf,
    /// The current commit.
    pub commit: String,
    /// The checked-out branch, if any.
    pub branch: Option<String>,
    /// What differs from that commit.
    pub changed: Vec<String>,
}

/// A branch and a worktree to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWorktree {
    pub repository: PathBuf,
    pub branch: String,
    /// The commit that the branch starts at.
    pub commit: String,
    /// The worktree's folder: it does not exist yet, or is empty.
    pub folder: PathBuf,
}

/// A commit to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitRequest {
    pub folder: PathBuf,
    /// The commit at which the work started: commits before it are not searched.
    pub since: String,
    /// The first line of the commit message.
    pub subject: String,
    /// The rest of the commit message.
    pub body: String,
    /// Trailers of the commit message, which identify the commit.
    pub trailers: Vec<(String, String)>,
}

/// The result of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The commit exists.
    Commit(String),
    /// There is nothing left to commit, but others have created commits since: this is the last of them.
    OthersCommitted(String),
    /// Nothing changed.
    NothingChanged,
}

/// Why a repository cannot be worked in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{} is not in a git repository", .folder.display())]
    NoRepository { folder: PathBuf },
    /// The repository has no commit to start from.
    #[error("the git repository {} has no commit yet", .folder.display())]
    NoCommit { folder: PathBuf },
    /// Git has no committer identity.
    #[error("git has no committer identity in {}: {reason}", .folder.display())]
    NoIdentity {
        folder: PathBuf,
        /// Git's message.
        reason: String,
    },
    /// The branch exists at another commit.
    #[error("the git repository {} already has a branch `{branch}`", .folder.display())]
    BranchTaken { folder: PathBuf, branch: String },
    /// Uncommitted changes of the user would get into a commit.
    #[error("{} has uncommitted changes: {}", .folder.display(), summarize_names(.changed))]
    Uncommitted {
        folder: PathBuf,
        changed: Vec<String>,
    },
    /// The worktree's folder is in use.
    #[error("{} cannot be used as a worktree: {reason}", .folder.display())]
    FolderTaken {
        folder: PathBuf,
        /// What blocks it.
        reason: String,
    },
    /// Git failed.
    #[error("git failed in {}: {reason}", .folder.display())]
    Refused {
        folder: PathBuf,
        /// Git's message.
        reason: String,
    },
}

/// The first three names, and how many more there are.
fn summarize_names(names: &[String]) -> String {
    let shown = names.iter().take(3).map(String::as_str);
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(3) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NoRepository { .. } => Diagnosis::new(Kind::Invalid, "R0130")
                .hint("change to a git repository, or create one: `git init`"),
            Self::NoCommit { .. } => Diagnosis::new(Kind::Invalid, "R0131")
                .hint("create the first commit: `git commit --allow-empty -m \"Begin\"`"),
            Self::NoIdentity { .. } => Diagnosis::new(Kind::Invalid, "R0132").hint(
                "set it once: `git config user.name NAME`, `git config user.email ADDRESS`",
            ),
            Self::BranchTaken { branch, .. } => Diagnosis::new(Kind::Conflict, "R0133").hint(
                format!(
                    "choose another name with `--name NAME`; `git branch -d {branch}` deletes a merged branch"
                ),
            ),
            Self::Uncommitted { .. } => Diagnosis::new(Kind::Conflict, "R0134").hint(
                "commit or stash them, or run without `--in-place` to leave them untouched",
            ),
            Self::FolderTaken { .. } => Diagnosis::new(Kind::Conflict, "R0137")
                .hint("choose another folder: `--into FOLDER`"),
            Self::Refused { .. } => Diagnosis::new(Kind::Unavailable, "R0135"),
        }
    }
}
