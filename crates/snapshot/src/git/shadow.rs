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

use super::error::Error;
use super::place::Place;
use super::program::{Git, Input};
use super::truth::{Format, Inert, Setting};
use super::{config, files, tables};

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
    pub(super) limit: Duration,
    pub(super) format: Format,
    pub(super) bare: bool,
    pub(super) partial: bool,
    /// Whether the index may keep a folder as one entry. Git freshens the time of objects when it
    /// unfolds them, so it is asked in ways that leave them folded.
    pub(super) sparse: bool,
    /// The settings that are safe.
    pub(super) settings: Vec<Setting>,
    /// Those of them that are for one worktree alone.
    pub(super) own_settings: Vec<Setting>,
    /// The settings that are not.
    pub(super) inert: Vec<Inert>,
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
        let (shared, own) = config::read(&git, place)?;
        let all = [shared.as_slice(), &own].concat();
        let last = |key: &str| {
            let mut found = all.iter().rev().filter(|setting| setting.key == key);
            found.next().map(|setting| setting.value.to_lowercase())
        };
        let sha256 = last("extensions.objectformat").is_some_and(|format| format == "sha256");
        let promised = |setting: &Setting| {
            setting.key == "extensions.partialclone" || setting.key.ends_with(".promisor")
        };
        let (settings, mut inert) = config::divide(&shared);
        let (own_settings, others) = config::divide(&own);
        inert.extend(others);
        let shadow = Self {
            folder: place.folder.clone(),
            limit,
            format: if sha256 { Format::Sha256 } else { Format::Sha1 },
            bare: last("core.bare").is_some_and(|bare| bare == "true"),
            partial: all.iter().any(promised),
            sparse: last("index.sparse").is_some_and(|sparse| sparse == "true"),
            settings,
            own_settings,
            inert,
            scratch,
        };
        let storage = last("extensions.refstorage").filter(|storage| storage == "reftable");
        let settings = [shadow.settings.as_slice(), &shadow.own_settings].concat();
        let content = config::write(shadow.format, storage.as_deref(), &settings);
        files::write(&shadow.git_dir().join("config"), &content)?;
        shadow.copy(place)?;
        shadow.link(place)?;
        if storage.is_some() {
            tables::write_logs(&shadow)?;
        }
        Ok(shadow)
    }

    /// Git, reading the repository.
    pub(crate) fn git(&self) -> Git {
        let folder = (!self.bare).then_some(self.folder.as_path());
        Git::within(&self.home(), &self.git_dir(), folder, self.limit)
    }

    /// The git folder that stands in.
    pub(super) fn git_dir(&self) -> PathBuf {
        self.scratch.path().join("git")
    }

    /// Where new objects go. Apart from all others: git freshens the time of an object that it would
    /// write a second time.
    pub(super) fn blobs(&self) -> PathBuf {
        self.scratch.path().join("blobs")
    }

    /// Where to put what is needed in between.
    pub(super) fn scratch(&self) -> &Path {
        self.scratch.path()
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
        files::make_folder(&self.blobs())?;
        let real = quoted(&place.common.join("objects"));
        let alternates = [real, quoted(&self.blobs())].concat();
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
        let answer = self.ask(&["ls-files", "-z", "--full-name"], Input::Nothing)?;
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
pub(super) fn shared_indexes(place: &Place) -> Vec<String> {
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
