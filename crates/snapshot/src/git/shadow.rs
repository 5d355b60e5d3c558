//! A folder that stands in for a repository's git folder while it is read.
//!
//! It has settings of our own making and no hooks, so nothing of the repository can start a
//! program. HEAD and the index are copies, new objects stay in it, and refs, logs and objects are
//! read where they are.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::scope::peek;

use super::config::{self, Storage};
use super::error::Error;
use super::files;
use super::place::Place;
use super::program::Git;

/// The longest index that is copied.
const INDEX: u64 = 1 << 30;

/// The longest log that is copied, and how deep logs lie.
const LOG: u64 = 64 * 1024 * 1024;
const DEPTH: usize = 64;

/// How long one command may take unless something else is said.
pub(super) const PATIENCE: Duration = Duration::from_mins(2);

/// Refs that each worktree has for itself.
pub(super) const OWN_REFS: [&str; 3] = ["bisect", "worktree", "rewritten"];

/// A stand-in, for as long as it is held.
pub(crate) struct Shadow {
    scratch: TempDir,
    folder: PathBuf,
    limit: Duration,
    bare: bool,
}

impl Shadow {
    /// Stands in for the repository at `place`.
    pub(crate) fn of(place: &Place) -> Result<Self, Error> {
        Self::patient(place, PATIENCE)
    }

    /// The same, where one command may take `limit`.
    pub(super) fn patient(place: &Place, limit: Duration) -> Result<Self, Error> {
        let scratch = scratch()?;
        let git = Git::alone(&home(scratch.path()), limit);
        let settings = config::read(&git, place)?;
        let bare = config::last(&settings, "core.bare");
        let shadow = Self {
            folder: place.folder.clone(),
            limit,
            bare: bare.is_some_and(|bare| bare.eq_ignore_ascii_case("true")),
            scratch,
        };
        let content = config::write(&Storage::of(&settings), &config::safe(&settings));
        files::write(&shadow.git_dir().join("config"), content.as_bytes())?;
        shadow.copy(place)?;
        shadow.link(place)?;
        Ok(shadow)
    }

    /// Git, reading the repository.
    pub(crate) fn git(&self) -> Git {
        let folder = (!self.bare).then_some(self.folder.as_path());
        Git::within(&self.home(), &self.git_dir(), folder, self.limit)
    }

    /// The git folder that stands in.
    fn git_dir(&self) -> PathBuf {
        self.scratch.path().join("git")
    }

    fn home(&self) -> PathBuf {
        home(self.scratch.path())
    }

    fn copy(&self, place: &Place) -> Result<(), Error> {
        let git_dir = self.git_dir();
        let head = place.git_dir.join("HEAD");
        match std::fs::read_link(&head) {
            // As git wrote it long ago.
            Ok(target) => {
                let line = [b"ref: ", target.as_os_str().as_bytes(), b"\n"].concat();
                files::write(&git_dir.join("HEAD"), &line)?;
            }
            Err(_) => {
                files::copy(&head, &git_dir.join("HEAD"), INDEX)?;
            }
        }
        files::copy(&place.git_dir.join("index"), &git_dir.join("index"), INDEX)?;
        // Git freshens the time of a shared index that it reads, so it must not be the real one.
        for name in shared_indexes(place) {
            files::copy(&place.git_dir.join(&name), &git_dir.join(&name), INDEX)?;
        }
        // Git does not follow links when it reads logs.
        for (from, name) in logs(place) {
            let to = git_dir.join(&name);
            if let Some(folder) = to.parent() {
                files::make_folder(folder)?;
            }
            files::copy(&from, &to, LOG)?;
        }
        Ok(())
    }

    fn link(&self, place: &Place) -> Result<(), Error> {
        let git_dir = self.git_dir();
        for folder in ["objects/info", "objects/pack", "refs", "info"] {
            files::make_folder(&git_dir.join(folder))?;
        }
        let alternates = quoted(&place.common.join("objects"));
        files::write(&git_dir.join("objects/info/alternates"), &alternates)?;
        let refs = peek::entries(&place.common.join("refs"), usize::MAX).unwrap_or_default();
        let shared = refs.iter().map(|(name, _)| Path::new(name));
        for name in shared.filter(|name| OWN_REFS.iter().all(|own| *name != Path::new(own))) {
            let (real, ours) = (place.common.join("refs"), git_dir.join("refs"));
            files::link(&real.join(name), &ours.join(name))?;
        }
        for name in OWN_REFS {
            let name = Path::new("refs").join(name);
            files::link(&place.git_dir.join(&name), &git_dir.join(&name))?;
        }
        for name in ["packed-refs", "reftable", "shallow", "info/exclude"] {
            files::link(&place.common.join(name), &git_dir.join(name))?;
        }
        let sparse = "info/sparse-checkout";
        files::link(&place.git_dir.join(sparse), &git_dir.join(sparse))
    }
}

impl Git {
    /// The names in the index, as git reads them.
    pub(crate) fn tracked(&self) -> Result<Vec<Box<[u8]>>, Error> {
        let answer = self.ask(&["ls-files", "-z", "--full-name"])?;
        let names = answer.split(|byte| *byte == 0);
        let names = names.filter(|name| !name.is_empty());
        Ok(names.map(Into::into).collect())
    }
}

/// The logs of the refs that a worktree sees: where they are, and their path in a git folder.
fn logs(place: &Place) -> Vec<(PathBuf, PathBuf)> {
    let head = PathBuf::from("logs/HEAD");
    let mut found = vec![(place.git_dir.join(&head), head)];
    let refs = Path::new("logs/refs");
    let mut waiting = vec![(place.common.as_path(), refs.to_owned())];
    if place.is_linked() {
        waiting.extend(OWN_REFS.map(|own| (place.git_dir.as_path(), refs.join(own))));
    }
    while let Some((root, folder)) = waiting.pop() {
        let entries = peek::entries(&root.join(&folder), usize::MAX).unwrap_or_default();
        for (name, is_folder) in entries {
            let path = folder.join(name);
            let foreign =
                root != place.git_dir && OWN_REFS.iter().any(|own| path == refs.join(own));
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
fn shared_indexes(place: &Place) -> Vec<String> {
    let entries = peek::entries(&place.git_dir, 100_000).unwrap_or_default();
    let names = entries
        .into_iter()
        .filter_map(|(name, _)| name.into_string().ok());
    names
        .filter(|name| name.starts_with("sharedindex."))
        .collect()
}

/// A new folder with a home for git in it; gone when it is dropped.
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

/// A path as a line of `info/alternates`, in quotes so that any byte can be in it.
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
