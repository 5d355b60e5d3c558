//! The files that git tracks: the index of each repository, read once.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::bounded_read;
use crate::git::git_paths::{self, GitPaths};
use crate::git::shadow::Shadow;

use super::pattern::Pattern;
use super::{ignored, index};

/// The longest index that is read here.
const LIMIT: u64 = 1 << 30;

/// The repositories that were found so far.
#[derive(Default)]
pub(super) struct Repositories {
    /// Each folder that was asked about, and the repository that contains it.
    folders: Mutex<HashMap<PathBuf, Option<Arc<Repository>>>>,
}

/// A repository, for the duration of one snapshot.
pub(super) struct Repository {
    pub(super) root: PathBuf,
    /// The patterns of its `info/exclude`.
    pub(super) exclude: Vec<Pattern>,
    /// The names in its index, sorted; or why they are unknown.
    tracked: Result<Vec<Box<[u8]>>, String>,
    /// The repository that contains this one.
    around: Option<Arc<Repository>>,
}

impl Repositories {
    /// The innermost repository that contains `folder`.
    pub(super) fn around(&self, folder: &Path) -> Option<Arc<Repository>> {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let unknown: Vec<&Path> = folder
            .ancestors()
            .take_while(|folder| !folders.contains_key(*folder))
            .collect();
        for folder in unknown.into_iter().rev() {
            let above = folder.parent().and_then(|parent| folders.get(parent));
            let around = above.cloned().flatten();
            let found = match git_paths::at(folder) {
                Some(paths) => Some(Arc::new(Repository::open(&paths, around))),
                None => around,
            };
            folders.insert(folder.to_owned(), found);
        }
        folders.get(folder).cloned().flatten()
    }

    /// What could not be read, for the user.
    pub(super) fn read_errors(&self) -> Vec<String> {
        let folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let repositories = folders.values().flatten();
        let mut read_errors: Vec<String> = repositories
            .filter_map(|repository| {
                let reason = repository.tracked.as_ref().err()?;
                Some(format!("{}: {reason}", repository.root.display()))
            })
            .collect();
        read_errors.sort();
        read_errors.dedup();
        read_errors
    }
}

impl Repository {
    fn open(paths: &GitPaths, around: Option<Arc<Repository>>) -> Self {
        Self {
            root: paths.folder.clone(),
            exclude: ignored::read(&paths.common.join("info/exclude")),
            tracked: tracked(paths),
            around,
        }
    }

    /// Whether git tracks `path` or something below it, in this repository or in one that contains
    /// it. If the names are unknown, everything counts as tracked.
    pub(super) fn tracks(&self, path: &Path) -> bool {
        let listed = |names: &Vec<Box<[u8]>>| {
            let relative = path.strip_prefix(&self.root).ok();
            relative.is_some_and(|path| lists(names, path.as_os_str().as_bytes()))
        };
        self.tracked.as_ref().map_or(true, listed)
            || self.around.as_ref().is_some_and(|above| above.tracks(path))
    }
}

fn tracked(paths: &GitPaths) -> Result<Vec<Box<[u8]>>, String> {
    let path = paths.git_dir.join("index");
    if std::fs::symlink_metadata(&path).is_err() {
        return Ok(Vec::new());
    }
    let content =
        bounded_read::read(&path, LIMIT).map_err(|error| format!("its index: {error}"))?;
    if let Some(names) = index::names(&content) {
        return Ok(names);
    }
    let asked = Shadow::of(paths).and_then(|shadow| shadow.git().tracked());
    let mut names = asked.map_err(|error| format!("its index: {error}"))?;
    names.sort();
    Ok(names)
}

/// Whether `names` contains `path`, something below it, or a folder above it that a sparse index
/// stores as one entry.
fn lists(names: &[Box<[u8]>], path: &[u8]) -> bool {
    let below = [path, b"/"].concat();
    let at = |wanted: &[u8]| names.partition_point(|name| name.as_ref() < wanted);
    let has = |wanted: &[u8]| names.get(at(wanted)).is_some_and(|name| **name == *wanted);
    let next = names.get(at(&below));
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    has(path)
        || next.is_some_and(|name| name.starts_with(&below))
        || slashes.into_iter().any(|(end, _)| has(&path[..=end]))
}
