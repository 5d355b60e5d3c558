//! A temporary git folder that replaces a repository's own while it is read.
//!
//! Its configuration is our own and it has no hooks, so nothing of the repository can start a
//! program. HEAD and the index are copies, new objects stay in it, and refs, logs and objects are
//! read from the repository.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::bounded_read;

use super::config::{self, Storage};
use super::error::Error;
use super::files;
use super::git_paths::GitPaths;
use super::program::Git;

/// The longest index that is copied.
const INDEX: u64 = 1 << 30;

/// The longest reflog that is copied, and the depth of the folders of reflogs.
const LOG: u64 = 64 * 1024 * 1024;
const DEPTH: usize = 64;

/// The default time limit of one command.
pub(super) const TIMEOUT: Duration = Duration::from_mins(2);

/// Refs that each worktree has for itself.
pub(super) const OWN_REFS: [&str; 3] = ["bisect", "worktree", "rewritten"];

/// The temporary git folder. It is removed on drop.
pub(crate) struct Shadow {
    scratch: TempDir,
    folder: PathBuf,
    limit: Duration,
    bare: bool,
}

impl Shadow {
    /// A shadow of the repository at `paths`.
    pub(crate) fn of(paths: &GitPaths) -> Result<Self, Error> {
        Self::with_timeout(paths, TIMEOUT)
    }

    /// Like [`Shadow::of`], with `limit` as the time limit of one command.
    pub(super) fn with_timeout(paths: &GitPaths, limit: Duration) -> Result<Self, Error> {
        let scratch = scratch()?;
        let git = Git::without_repository(&home(scratch.path()), limit);
        let settings = config::read(&git, paths)?;
        let bare = config::last(&settings, "core.bare");
        let shadow = Self {
            folder: paths.folder.clone(),
            limit,
            bare: bare.is_some_and(|bare| bare.eq_ignore_ascii_case("true")),
            scratch,
        };
        let content = config::write(&Storage::of(&settings), &config::safe(&settings));
        files::write(&shadow.git_dir().join("config"), content.as_bytes())?;
        shadow.copy(paths)?;
        shadow.link(paths)?;
        Ok(shadow)
    }

    /// Git, reading the repository.
    pub(crate) fn git(&self) -> Git {
        let folder = (!self.bare).then_some(self.folder.as_path());
        Git::in_repository(&self.home(), &self.git_dir(), folder, self.limit)
    }

    /// The temporary git folder.
    fn git_dir(&self) -> PathBuf {
        self.scratch.path().join("git")
    }

    fn home(&self) -> PathBuf {
        home(self.scratch.path())
    }

    fn copy(&self, paths: &GitPaths) -> Result<(), Error> {
        let git_dir = self.git_dir();
        let head = paths.git_dir.join("HEAD");
        match std::fs::read_link(&head) {
            // An old format of git: HEAD as a symbolic link.
            Ok(target) => {
                let line = [b"ref: ", target.as_os_str().as_bytes(), b"\n"].concat();
                files::write(&git_dir.join("HEAD"), &line)?;
            }
            Err(_) => {
                files::copy(&head, &git_dir.join("HEAD"), INDEX)?;
            }
        }
        files::copy(&paths.git_dir.join("index"), &git_dir.join("index"), INDEX)?;
        // Git updates the mtime of a shared index that it reads, so it must not be the original.
        for name in shared_indexes(paths) {
            files::copy(&paths.git_dir.join(&name), &git_dir.join(&name), INDEX)?;
        }
        // Git does not follow links when it reads reflogs.
        for (from, name) in logs(paths) {
            let to = git_dir.join(&name);
            if let Some(folder) = to.parent() {
                files::make_folder(folder)?;
            }
            files::copy(&from, &to, LOG)?;
        }
        Ok(())
    }

    fn link(&self, paths: &GitPaths) -> Result<(), Error> {
        let git_dir = self.git_dir();
        for folder in ["objects/info", "objects/pack", "refs", "info"] {
            files::make_folder(&git_dir.join(folder))?;
        }
        let alternates = quoted(&paths.common.join("objects"));
        files::write(&git_dir.join("objects/info/alternates"), &alternates)?;
        let refs =
            bounded_read::entries(&paths.common.join("refs"), usize::MAX).unwrap_or_default();
        let shared = refs.iter().map(|(name, _)| Path::new(name));
        for name in shared.filter(|name| OWN_REFS.iter().all(|own| *name != Path::new(own))) {
            let (real, ours) = (paths.common.join("refs"), git_dir.join("refs"));
            files::link(&real.join(name), &ours.join(name))?;
        }
        for name in OWN_REFS {
            let name = Path::new("refs").join(name);
            files::link(&paths.git_dir.join(&name), &git_dir.join(&name))?;
        }
        for name in ["packed-refs", "reftable", "shallow", "info/exclude"] {
            files::link(&paths.common.join(name), &git_dir.join(name))?;
        }
        let sparse = "info/sparse-checkout";
        files::link(&paths.git_dir.join(sparse), &git_dir.join(sparse))
    }
}

impl Git {
    /// The names in the index, as git reads them.
    pub(crate) fn tracked(&self) -> Result<Vec<Box<[u8]>>, Error> {
        let answer = self.run(&["ls-files", "-z", "--full-name"])?;
        let names = answer.split(|byte| *byte == 0);
        let names = names.filter(|name| !name.is_empty());
        Ok(names.map(Into::into).collect())
    }
}

/// The reflogs that a worktree sees: their paths, and their paths in a git folder.
fn logs(paths: &GitPaths) -> Vec<(PathBuf, PathBuf)> {
    let head = PathBuf::from("logs/HEAD");
    let mut found = vec![(paths.git_dir.join(&head), head)];
    let refs = Path::new("logs/refs");
    let mut waiting = vec![(paths.common.as_path(), refs.to_owned())];
    if paths.is_linked() {
        waiting.extend(OWN_REFS.map(|own| (paths.git_dir.as_path(), refs.join(own))));
    }
    while let Some((root, folder)) = waiting.pop() {
        let entries = bounded_read::entries(&root.join(&folder), usize::MAX).unwrap_or_default();
        for (name, is_folder) in entries {
            let path = folder.join(name);
            let foreign =
                root != paths.git_dir && OWN_REFS.iter().any(|own| path == refs.join(own));
            if is_folder && !foreign && path.components().count() < DEPTH {
                waiting.push((root, path));
            } else if !is_folder {
                found.push((root.join(&path), path));
            }
        }
    }
    found
}

/// The names of the shared parts of a split index.
fn shared_indexes(paths: &GitPaths) -> Vec<String> {
    let entries = bounded_read::entries(&paths.git_dir, 100_000).unwrap_or_default();
    let names = entries
        .into_iter()
        .filter_map(|(name, _)| name.into_string().ok());
    names
        .filter(|name| name.starts_with("sharedindex."))
        .collect()
}

/// A new folder with a home for git in it; removed on drop.
pub(super) fn scratch() -> Result<TempDir, Error> {
    let made = tempfile::Builder::new().prefix("segno-git-").tempdir();
    let scratch = made.map_err(|error| Error::file(&std::env::temp_dir(), &error))?;
    files::make_folder(&home(scratch.path()))?;
    Ok(scratch)
}

/// The empty home in a scratch folder.
pub(super) fn home(scratch: &Path) -> PathBuf {
    scratch.join("home")
}

/// A path as a line of `info/alternates`, in quotes so that it can contain any byte.
fn quoted(path: &Path) -> Vec<u8> {
    let mut line = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => line.extend([b'\\', *byte]),
            b' '..=b'~' => line.push(*byte),
            _ => line.extend(format!("\\{byte:03o}").into_bytes()),
        }
    }
    line.extend(b"\"\n");
    line
}
