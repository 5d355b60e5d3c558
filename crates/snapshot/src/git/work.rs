//! Working in a person's repository: a branch with a folder of its own, and commits.
//!
//! Each of these may be killed anywhere and called again. A commit is made of objects first, which nobody
//! sees, and then the branch is moved from the commit that was there before, by comparing and setting: so
//! of two who do it at once, or of a killed one that goes on for a moment, one moves it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use segno_core::worktree::{Deed, Error, Ground, Made, Plot};

use super::error::Error as GitError;
use super::place;
use super::program::Git;
use crate::machine;

/// How long one command of git may take: it may have to write all files of a large repository.
const PATIENCE: Duration = Duration::from_mins(10);

/// How often, and how long each time, another program's lock on the index is waited for.
const GLANCES: u32 = 50;
const GLANCE: Duration = Duration::from_millis(100);
/// How often git is asked again where no lock is seen.
const SPARE: u32 = 3;

/// How often a branch that others move is tried to be moved.
const TRIES: u32 = 5;

/// A repository, asked and written as the person would.
struct Repository {
    git: Git,
    folder: PathBuf,
}

impl Repository {
    fn at(folder: &Path) -> Self {
        Self {
            git: Git::own(folder, PATIENCE),
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

    /// A line that git answers.
    fn line(&self, args: &[&str]) -> Result<String, Error> {
        let answer = self.git.ask(args).map_err(self.refused())?;
        Ok(trimmed(&answer))
    }

    /// The same; `None` if git finds nothing.
    fn line_maybe(&self, args: &[&str]) -> Result<Option<String>, Error> {
        let answer = self.git.ask_maybe(args).map_err(self.refused())?;
        Ok(answer.map(|answer| trimmed(&answer)))
    }

    /// The commit that something leads to.
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

    /// Does something that locks the index. If another program has it locked, that is waited for: a
    /// killed run may have left one that is about to end.
    fn with_index(&self, args: &[&str]) -> Result<String, Error> {
        let locked = || {
            let place = self.folder.ancestors().find_map(place::at);
            place.is_some_and(|place| place.git_dir.join("index.lock").exists())
        };
        let mut spare = SPARE;
        for _ in 0..GLANCES {
            match self.git.ask(args) {
                Err(GitError::Refused { .. }) if locked() => {}
                // It may have been let go of between the refusal and the look.
                Err(GitError::Refused { .. }) if spare > 0 => spare -= 1,
                done => return done.map(|answer| trimmed(&answer)).map_err(self.refused()),
            }
            machine::pause(GLANCE);
        }
        self.line(args)
    }

    /// The commit with these trailers among those up to `head`, since another one.
    fn find(&self, deed: &Deed, head: &str) -> Result<Option<String>, Error> {
        let range = format!("{}..{head}", deed.since);
        let args = ["log", "-z", "--format=%H%n%B", "--end-of-options", &range];
        let answer = self.git.ask(&args).map_err(self.refused())?;
        let answer = String::from_utf8_lossy(&answer);
        let marks: Vec<String> = trailers(deed);
        let mut commits = answer.split('\0').filter_map(|text| text.split_once('\n'));
        let known = commits.find(|(_, message)| {
            let has = |mark: &String| message.lines().any(|line| line == mark);
            marks.iter().all(has)
        });
        Ok(known.map(|(commit, _)| commit.trim().to_owned()))
    }
}

/// How the repository stands that `folder` lies in, and whether commits can be made there.
pub fn survey(folder: &Path) -> Result<Ground, Error> {
    let repository = Repository::at(folder);
    if folder.ancestors().find_map(place::at).is_none() {
        let folder = folder.to_owned();
        return Err(Error::NoRepository { folder });
    }
    let top = PathBuf::from(repository.line(&["rev-parse", "--show-toplevel"])?);
    let repository = Repository::at(&top);
    let commit = repository.head()?;
    for role in ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"] {
        let known = repository.git.ask(&["var", role]);
        known.map_err(|error| Error::NoIdentity {
            folder: top.clone(),
            reason: error.to_string(),
        })?;
    }
    let status = ["status", "--porcelain", "-z", "--no-renames"];
    let status = repository.git.ask(&status).map_err(repository.refused())?;
    let status = String::from_utf8_lossy(&status);
    let changed = status.split('\0').filter_map(|entry| entry.get(3..));
    Ok(Ground {
        branch: repository.line_maybe(&["symbolic-ref", "--quiet", "--short", "HEAD"])?,
        changed: changed.map(str::to_owned).collect(),
        commit,
        top,
    })
}

/// The commit that a branch stands at.
pub fn branch(folder: &Path, branch: &str) -> Result<Option<String>, Error> {
    Repository::at(folder).commit_of(&format!("refs/heads/{branch}"))
}

/// Makes a branch, and a folder with its files.
pub fn branch_off(plot: &Plot) -> Result<(), Error> {
    let (repository, branch) = (Repository::at(&plot.repository), plot.branch.as_str());
    if place::at(&plot.folder).is_none() {
        let name = format!("refs/heads/{branch}");
        match repository.commit_of(&name)? {
            // Nothing as the old value: only if there is none.
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
        // By force, because a killed one may have left the folder's name with git, and no folder.
        let add = ["worktree", "add", "-f", "-f", "--no-checkout", "--quiet"];
        repository.line(&[&add[..], &["--end-of-options", &folder, branch]].concat())?;
    }
    let place = place::at(&plot.folder).ok_or_else(|| Error::Refused {
        folder: plot.folder.clone(),
        reason: "it is no folder of the repository".to_owned(),
    })?;
    // The index comes last: as long as it is not there, files are missing.
    if place.git_dir.join("index").exists() {
        return Ok(());
    }
    Repository::at(&plot.folder).with_index(&["reset", "--hard", "--quiet"])?;
    Ok(())
}

/// What differs from a commit, cut after `limit` bytes.
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
    let asked = repository.git.ask_some(&args, limit);
    let (diff, whole) = asked.map_err(repository.refused())?;
    let diff = String::from_utf8_lossy(&diff).into_owned();
    Ok(if whole {
        diff
    } else {
        format!("{diff}\n(cut after {limit} bytes)\n")
    })
}

/// Commits everything, once.
pub fn commit(deed: &Deed) -> Result<Made, Error> {
    let repository = Repository::at(&deed.folder);
    repository.with_index(&["add", "--all"])?;
    let tree = repository.with_index(&["write-tree"])?;
    let mut refusal = None;
    for _ in 0..TRIES {
        // Everything below is about this one, wherever others move the branch meanwhile.
        let head = repository.head()?;
        if let Some(commit) = repository.find(deed, &head)? {
            return Ok(Made::Commit(commit));
        }
        if repository.line(&["rev-parse", &format!("{head}^{{tree}}")])? == tree {
            return Ok(if head == deed.since {
                Made::Nothing
            } else {
                Made::Others(head)
            });
        }
        let marks = trailers(deed).join("\n");
        let mut args = vec!["commit-tree", &tree, "-p", &head, "-m", &deed.subject];
        if !deed.body.is_empty() {
            args.extend(["-m", &deed.body]);
        }
        args.extend(["-m", &marks]);
        let commit = repository.line(&args)?;
        let note = format!("segno: {}", deed.subject);
        match repository.line(&["update-ref", "-m", &note, "HEAD", &commit, &head]) {
            Ok(_) => return Ok(Made::Commit(commit)),
            Err(error) => refusal = Some(error),
        }
    }
    Err(refusal.expect("it was tried"))
}

fn trailers(deed: &Deed) -> Vec<String> {
    let trailers = deed.trailers.iter();
    trailers
        .map(|(name, value)| format!("{name}: {value}"))
        .collect()
}

fn trimmed(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).trim_end().to_owned()
}
