//! What git tracks: the index of each repository, read once.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::git::place::{self, Place};
use crate::git::shadow::Shadow;

use super::pattern::Pattern;
use super::{ignored, index, peek};

/// The longest index that is read here.
const LIMIT: u64 = 1 << 30;

/// The repositories that have been met.
#[derive(Default)]
pub(super) struct Repositories {
    /// Each folder that was asked about, and the repository it is in.
    folders: Mutex<HashMap<PathBuf, Option<Arc<Repository>>>>,
}

/// A repository, for as long as one snapshot takes.
pub(super) struct Repository {
    pub(super) root: PathBuf,
    /// The patterns of its `info/exclude`.
    pub(super) exclude: Vec<Pattern>,
    /// What its index lists, sorted; why that is not known, otherwise.
    tracked: Result<Vec<Box<[u8]>>, String>,
    /// The repository around it.
    around: Option<Arc<Repository>>,
}

impl Repositories {
    /// The innermost repository that `folder` is in.
    pub(super) fn around(&self, folder: &Path) -> Option<Arc<Repository>> {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let unknown: Vec<&Path> = folder
            .ancestors()
            .take_while(|folder| !folders.contains_key(*folder))
            .collect();
        for folder in unknown.into_iter().rev() {
            let above = folder.parent().and_then(|parent| folders.get(parent));
            let around = above.cloned().flatten();
            let found = match place::at(folder) {
                Some(place) => Some(Arc::new(Repository::open(&place, around))),
                None => around,
            };
            folders.insert(folder.to_owned(), found);
        }
        folders.get(folder).cloned().flatten()
    }

    /// What could not be read, for people.
    pub(super) fn troubles(&self) -> Vec<String> {
        let folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        let repositories = folders.values().flatten();
        let mut troubles: Vec<String> = repositories
            .filter_map(|repository| {
                let reason = repository.tracked.as_ref().err()?;
                Some(format!("{}: {reason}", repository.root.display()))
            })
            .collect();
        troubles.sort();
        troubles.dedup();
        troubles
    }
}

impl Repository {
    fn open(place: &Place, around: Option<Arc<Repository>>) -> Self {
        Self {
            root: place.folder.clone(),
            exclude: ignored::read(&place.common.join("info/exclude")),
            tracked: tracked(place),
            around,
        }
    }

    /// Whether git tracks `path` or something below it, here or in a repository around this one.
    /// What is not known counts as tracked.
    pub(super) fn tracks(&self, path: &Path) -> bool {
        let listed = |names: &Vec<Box<[u8]>>| {
            let relative = path.strip_prefix(&self.root).ok();
            relative.is_some_and(|path| lists(names, path.as_os_str().as_bytes()))
        };
        self.tracked.as_ref().map_or(true, listed)
            || self.around.as_ref().is_some_and(|above| above.tracks(path))
    }
}

fn tracked(place: &Place) -> Result<Vec<Box<[u8]>>, String> {
    let path = place.git_dir.join("index");
    if std::fs::symlink_metadata(&path).is_err() {
        return Ok(Vec::new());
    }
    let content = peek::read(&path, LIMIT).map_err(|error| format!("its index: {error}"))?;
    if let Some(names) = index::names(&content) {
        return Ok(names);
    }
    let asked = Shadow::of(place).and_then(|shadow| shadow.git().tracked());
    let mut names = asked.map_err(|error| format!("its index: {error}"))?;
    names.sort();
    Ok(names)
}

/// Whether `names` has `path`, something below it, or a folder that a sparse index keeps as one
/// entry and that holds it.
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
