//! Locates the git folder of a repository.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::bounded_read;

/// The longest `.git` or `commondir` file.
const LIMIT: u64 = 16 * 1024;

/// A repository with a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GitPaths {
    /// The folder that contains `.git`.
    pub(crate) folder: PathBuf,
    /// What belongs to this worktree: HEAD, index.
    pub(crate) git_dir: PathBuf,
    /// What all worktrees share: refs, objects, config. Equals `git_dir` without linked worktrees.
    pub(crate) common: PathBuf,
}

impl GitPaths {
    /// Whether this is a linked worktree of another repository.
    pub(crate) fn is_linked(&self) -> bool {
        self.git_dir != self.common
    }
}

/// The repository whose worktree is `folder` itself, if there is one.
pub(crate) fn at(folder: &Path) -> Option<GitPaths> {
    let git = folder.join(".git");
    let metadata = fs::metadata(&git).ok()?;
    let git_dir = if metadata.is_dir() {
        git
    } else {
        let content = bounded_read::read(&git, LIMIT).ok()?;
        folder.join(path(content.strip_prefix(b"gitdir: ")?))
    };
    let common = match bounded_read::read(&git_dir.join("commondir"), LIMIT) {
        Ok(content) => git_dir.join(path(&content)),
        Err(_) => git_dir.clone(),
    };
    let whole =
        fs::symlink_metadata(git_dir.join("HEAD")).is_ok() && common.join("objects").is_dir();
    let real = |path: &Path| fs::canonicalize(path).ok();
    whole.then_some(())?;
    Some(GitPaths {
        folder: folder.to_owned(),
        git_dir: real(&git_dir)?,
        common: real(&common)?,
    })
}

/// The path in a file of one line.
fn path(content: &[u8]) -> &OsStr {
    let line = content.strip_suffix(b"\n").unwrap_or(content);
    OsStr::from_bytes(line.strip_suffix(b"\r").unwrap_or(line))
}
