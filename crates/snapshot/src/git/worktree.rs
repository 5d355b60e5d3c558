//! Writes to a user's repository: creates a branch with a worktree of its own, and commits.
//!
//! Each of these operations may be killed anywhere and called again. A commit creates objects
//! first, which nothing references, and then moves the branch from its previous commit by
//! compare-and-swap. So if two processes commit at once, or a killed one runs on for a moment, only
//! one of them moves the branch.

use std::path::{Path, PathBuf};
use std::time::Duration;

use segno_core::worktree::{CommitOutcome, CommitRequest, Error, NewWorktree, RepositoryInfo};

use super::error::Error as GitError;
use super::git_paths;
use super::program::Git;
use crate::machine;

/// The time limit of one git command: it may have to write all files of a large repository.
const TIMEOUT: Duration = Duration::from_mins(10);

/// How often, and how long each time, to wait for another program's lock on the index.
const LOCK_RETRIES: u32 = 50;
const LOCK_WAIT: Duration = Duration::from_millis(100);
/// How often git is tried again if no lock is visible.
const EXTRA_RETRIES: u32 = 3;

/// How often to try to move a branch that others move.
const TRIES: u32 = 5;

/// A repository, read and written as the user would.
struct Repository {
    git: Git,
    folder: PathBuf,
}

impl Repository {
    fn at(folder: &Path) -> Self {
        Self {
            git: Git::as_user(folder, TIMEOUT),
            folder: folder.to_owned(),
        }
    }

    fn refused(&self) -> impl Fn(GitError) -> Error {
        let folder = self.folder.clone();
        move |error| Error::Refused {
            folder: folder.clone(),
            reason: error.to_string(),
        }
    }

    /// One line of output.
    fn line(&self, args: &[&str]) -> Result<String, Error> {
        let answer = self.git.run(args).map_err(self.refused())?;
        Ok(trimmed(&answer))
    }

    /// One line of output; `None` if git finds nothing.
    fn line_maybe(&self, args: &[&str]) -> Result<Option<String>, Error> {
        let answer = self.git.run_optional(args).map_err(self.refused())?;
        Ok(answer.map(|answer| trimmed(&answer)))
    }

    /// The commit that a revision resolves to.
    fn commit_of(&self, name: &str) -> Result<Option<String>, Error> {
        let name = format!("{name}^{{commit}}");
        self.line_maybe(&[
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &name,
        ])
    }

    fn head(&self) -> Result<String, Error> {
        let none = || Error::NoCommit {
            folder: self.folder.clone(),
        };
        self.commit_of("HEAD")?.ok_or_else(none)
    }

    /// Runs a command that locks the index. If another program holds the lock, waits for it: a git
    /// process of a killed run may be about to end.
    fn with_index(&self, args: &[&str]) -> Result<String, Error> {
        let locked = || {
            let paths = self.folder.ancestors().find_map(git_paths::at);
            paths.is_some_and(|paths| paths.git_dir.join("index.lock").exists())
        };
        let mut spare = EXTRA_RETRIES;
        for _ in 0..LOCK_RETRIES {
            match self.git.run(args) {
                Err(GitError::Refused { .. }) if locked() => {}
                // The lock may have been released between the refusal and the check.
                Err(GitError::Refused { .. }) if spare > 0 => spare -= 1,
                done => return done.map(|answer| trimmed(&answer)).map_err(self.refused()),
            }
            machine::sleep(LOCK_WAIT);
        }
        self.line(args)
    }

    /// The commit with these trailers in the range `since..head`.
    fn find(&self, operation: &CommitRequest, head: &str) -> Result<Option<String>, Error> {
        let range = format!("{}..{head}", operation.since);
        let args = ["log", "-z", "--format=%H%n%B", "--end-of-options", &range];
        let answer = self.git.run(&args).map_err(self.refused())?;
        let answer = String::from_utf8_lossy(&answer);
        let marks: Vec<String> = trailers(operation);
        let mut commits = answer.split('\0').filter_map(|text| text.split_once('\n'));
        let known = commits.find(|(_, message)| {
            let has = |mark: &String| message.lines().any(|line| line == mark);
            marks.iter().all(has)
        });
        Ok(known.map(|(commit, _)| commit.trim().to_owned()))
    }
}

/// The state of the repository that contains `folder`, and whether commits can be made there.
pub fn inspect(folder: &Path) -> Result<RepositoryInfo, Error> {
    let repository = Repository::at(folder);
    if folder.ancestors().find_map(git_paths::at).is_none() {
        let folder = folder.to_owned();
        return Err(Error::NoRepository { folder });
    }
    let top = PathBuf::from(repository.line(&["rev-parse", "--show-toplevel"])?);
    let repository = Repository::at(&top);
    let commit = repository.head()?;
    for role in ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"] {
        let known = repository.git.run(&["var", role]);
        known.map_err(|error| Error::NoIdentity {
            folder: top.clone(),
            reason: error.to_string(),
        })?;
    }
    let status = ["status", "--porcelain", "-z", "--no-renames"];
    let status = repository.git.run(&status).map_err(repository.refused())?;
    let status = String::from_utf8_lossy(&status);
    let changed = status.split('\0').filter_map(|entry| entry.get(3..));
    Ok(RepositoryInfo {
        branch: repository.line_maybe(&["symbolic-ref", "--quiet", "--short", "HEAD"])?,
        changed: changed.map(str::to_owned).collect(),
        commit,
        top,
    })
}

/// The commit at the tip of a branch.
pub fn branch_commit(folder: &Path, branch: &str) -> Result<Option<String>, Error> {
    Repository::at(folder).commit_of(&format!("refs/heads/{branch}"))
}

/// Creates a branch and a worktree for it.
pub fn create_worktree(plot: &NewWorktree) -> Result<(), Error> {
    let (repository, branch) = (Repository::at(&plot.repository), plot.branch.as_str());
    if git_paths::at(&plot.folder).is_none() {
        let name = format!("refs/heads/{branch}");
        match repository.commit_of(&name)? {
            // An empty old value means: only if the ref does not exist.
            None => repository.line(&["update-ref", &name, &plot.commit, ""])?,
            Some(commit) if commit == plot.commit => commit,
            Some(_) => {
                return Err(Error::BranchTaken {
                    folder: plot.repository.clone(),
                    branch: branch.to_owned(),
                });
            }
        };
        super::files::remove_broken_link(&plot.folder.join(".git"))
            .map_err(repository.refused())?;
        let folder = plot.folder.to_string_lossy();
        // With `-f -f`, because a killed run may have left git's record of the worktree without its
        // folder.
        let add = ["worktree", "add", "-f", "-f", "--no-checkout", "--quiet"];
        repository.line(&[&add[..], &["--end-of-options", &folder, branch]].concat())?;
    }
    let paths = git_paths::at(&plot.folder).ok_or_else(|| Error::Refused {
        folder: plot.folder.clone(),
        reason: "it is not a worktree of the repository".to_owned(),
    })?;
    // The index is written last: while it is missing, so are files.
    if paths.git_dir.join("index").exists() {
        return Ok(());
    }
    Repository::at(&plot.folder).with_index(&["reset", "--hard", "--quiet"])?;
    Ok(())
}

/// The changes since a commit, truncated after `limit` bytes.
pub fn diff(folder: &Path, since: &str, limit: usize) -> Result<String, Error> {
    let repository = Repository::at(folder);
    repository.with_index(&["add", "--all"])?;
    let args = [
        "diff",
        "--cached",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--patch-with-stat",
        "--end-of-options",
        since,
    ];
    let asked = repository.git.run_limited(&args, limit);
    let (diff, whole) = asked.map_err(repository.refused())?;
    let diff = String::from_utf8_lossy(&diff).into_owned();
    Ok(if whole {
        diff
    } else {
        format!("{diff}\n(cut after {limit} bytes)\n")
    })
}

/// Commits everything, exactly once.
pub fn commit(operation: &CommitRequest) -> Result<CommitOutcome, Error> {
    let repository = Repository::at(&operation.folder);
    repository.with_index(&["add", "--all"])?;
    let tree = repository.with_index(&["write-tree"])?;
    let mut refusal = None;
    for _ in 0..TRIES {
        // Everything below refers to this commit, even if others move the branch meanwhile.
        let head = repository.head()?;
        if let Some(commit) = repository.find(operation, &head)? {
            return Ok(CommitOutcome::Commit(commit));
        }
        if repository.line(&["rev-parse", &format!("{head}^{{tree}}")])? == tree {
            return Ok(if head == operation.since {
                CommitOutcome::NothingChanged
            } else {
                CommitOutcome::OthersCommitted(head)
            });
        }
        let marks = trailers(operation).join("\n");
        let mut args = vec!["commit-tree", &tree, "-p", &head, "-m", &operation.subject];
        if !operation.body.is_empty() {
            args.extend(["-m", &operation.body]);
        }
        args.extend(["-m", &marks]);
        let commit = repository.line(&args)?;
        let note = format!("segno: {}", operation.subject);
        match repository.line(&["update-ref", "-m", &note, "HEAD", &commit, &head]) {
            Ok(_) => return Ok(CommitOutcome::Commit(commit)),
            Err(error) => refusal = Some(error),
        }
    }
    Err(refusal.expect("the loop ran at least once"))
}

fn trailers(operation: &CommitRequest) -> Vec<String> {
    let trailers = operation.trailers.iter();
    trailers
        .map(|(name, value)| format!("{name}: {value}"))
        .collect()
}

fn trimmed(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).trim_end().to_owned()
}
