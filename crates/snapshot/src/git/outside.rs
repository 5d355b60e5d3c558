//! Git folders that belong to a workspace and lie outside of it: those of a linked worktree, or of
//! a repository with a separate git folder.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::git_paths;

/// A git folder outside of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outside {
    /// The repository, relative to the workspace's root.
    pub(crate) path: PathBuf,
    /// The git folder that all of its worktrees share.
    pub(crate) folder: PathBuf,
    /// The name of the worktree in that git folder; `None` if it is the only one.
    pub(crate) worktree: Option<String>,
}

/// The git folders outside of the workspace at `root` that its `repositories` need.
pub(crate) fn outside(root: &Path, repositories: &[PathBuf]) -> Vec<Outside> {
    let Ok(root) = std::fs::canonicalize(root) else {
        return Vec::new();
    };
    let one = |path: &PathBuf| {
        let paths = git_paths::at(&root.join(path))?;
        let worktree = paths.git_dir.file_name().filter(|_| paths.is_linked());
        (!paths.common.starts_with(&root)).then(|| Outside {
            path: path.clone(),
            folder: paths.common.clone(),
            worktree: worktree.map(|name| name.to_string_lossy().into_owned()),
        })
    };
    repositories.iter().filter_map(one).collect()
}

/// The rule that excludes a file in a git folder: a lock would block git forever, and a partially
/// written object is useless.
pub(crate) fn git_temporary_rule(name: &OsStr, is_folder: bool) -> Option<String> {
    let name = name.as_bytes();
    let lock = name.ends_with(b".lock") && name != b".lock" || name == b"gc.pid";
    let half = ["obj_", "pack_", "idx_", "rev_"];
    let is_half = name
        .strip_prefix(b"tmp_")
        .is_some_and(|rest| half.iter().any(|half| rest.starts_with(half.as_bytes())));
    (!is_folder && (lock || is_half)).then(|| "temporary file of a running git".into())
}
