//! Git folders that belong to a workspace and do not lie in it: those of a further worktree, or of
//! a repository with its git folder apart.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::scope::Scope;

use super::place;

/// A git folder outside of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outside {
    /// The repository, from the workspace's root.
    pub(super) path: PathBuf,
    /// The git folder that all of its worktrees share.
    pub(super) folder: PathBuf,
    /// The name under which that knows the worktree; none if it is the only one.
    pub(super) worktree: Option<String>,
}

/// The git folders that the `repositories` of the workspace at `root` need and that lie outside.
pub(super) fn outside(root: &Path, repositories: &[PathBuf]) -> Vec<Outside> {
    let Ok(root) = std::fs::canonicalize(root) else {
        return Vec::new();
    };
    let one = |path: &PathBuf| {
        let place = place::at(&root.join(path))?;
        let worktree = place.git_dir.file_name().filter(|_| place.is_linked());
        (!place.common.starts_with(&root)).then(|| Outside {
            path: path.clone(),
            folder: place.common.clone(),
            worktree: worktree.map(|name| name.to_string_lossy().into_owned()),
        })
    };
    repositories.iter().filter_map(one).collect()
}

/// What is kept of a git folder: all but what a git at work has left.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GitScope;

impl Scope for GitScope {
    fn leaves_out(&self, _: &Path, name: &OsStr, is_folder: bool) -> Option<String> {
        left_by_git(name, is_folder)
    }
}

/// The rule by which something in a git folder is left out: a lock would keep git out for ever, and
/// an object that is half written is none.
pub(crate) fn left_by_git(name: &OsStr, is_folder: bool) -> Option<String> {
    let name = name.as_bytes();
    let lock = name.ends_with(b".lock") && name != b".lock" || name == b"gc.pid";
    let half = ["obj_", "pack_", "idx_", "rev_"];
    let is_half = name
        .strip_prefix(b"tmp_")
        .is_some_and(|rest| half.iter().any(|half| rest.starts_with(half.as_bytes())));
    (!is_folder && (lock || is_half)).then(|| "left by a git that was at work".into())
}
