//! What a folder looks like, as far as a restore should bring it back.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;

/// How the folders begin in which a restore prepares what it writes.
const STAGE: &str = ".segno-restore-";

/// How many differences are named.
const NAMED: usize = 4;

/// What something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sort {
    Folder,
    File { bytes: u64, digest: Digest },
    Link { leads_to: PathBuf },
    Other,
}

/// How something looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) sort: Sort,
    pub(crate) mode: u32,
    modified: (i64, i64),
    /// The first name of the same file, if it has several.
    first: Option<PathBuf>,
}

/// Everything in a folder, the folder itself included. One that is not there has nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Picture(pub(crate) BTreeMap<PathBuf, Look>);

impl Picture {
    /// Draws a folder. What a killed restore left at its top does not belong to it.
    pub(crate) fn of(root: &Path) -> Self {
        let mut picture = Self::default();
        if fs::symlink_metadata(root).is_ok() {
            let mut names = HashMap::new();
            picture.draw(root, Path::new(""), &mut names);
            // What has its other names elsewhere has one here.
            names.retain(|_, (_, count)| *count == 1);
            for (path, _) in names.values() {
                picture.0.get_mut(path).unwrap().first = None;
            }
        }
        picture
    }

    fn draw(&mut self, root: &Path, path: &Path, names: &mut HashMap<u64, (PathBuf, u64)>) {
        // Not `root.join("")`: a file would get a slash behind its name.
        let full = root
            .components()
            .chain(path.components())
            .collect::<PathBuf>();
        let metadata = fs::symlink_metadata(&full).unwrap();
        let kind = metadata.file_type();
        let sort = if kind.is_dir() {
            Sort::Folder
        } else if kind.is_symlink() {
            let leads_to = fs::read_link(&full).unwrap();
            Sort::Link { leads_to }
        } else if kind.is_file() {
            let digest = Digest::of(&fs::read(&full).unwrap());
            let bytes = metadata.len();
            Sort::File { bytes, digest }
        } else {
            Sort::Other
        };
        let name = || {
            let known = names.entry(metadata.ino());
            let (first, count) = known.or_insert_with(|| (path.to_owned(), 0));
            *count += 1;
            first.clone()
        };
        let first = (kind.is_file() && metadata.nlink() > 1).then(name);
        let look = Look {
            sort,
            mode: metadata.permissions().mode(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            first,
        };
        self.0.insert(path.to_owned(), look);
        if !kind.is_dir() {
            return;
        }
        let inside = fs::read_dir(&full).unwrap();
        let mut inside: Vec<_> = inside.map(|entry| entry.unwrap().file_name()).collect();
        inside.sort();
        let is_top = path.as_os_str().is_empty();
        inside.retain(|name| !is_top || !name.to_string_lossy().starts_with(STAGE));
        for name in inside {
            self.draw(root, &path.join(name), names);
        }
    }

    /// Where it is not as `other`, in a few words; nothing if it is.
    pub(crate) fn differences(&self, other: &Self) -> Option<String> {
        let paths = self.0.keys().chain(other.0.keys());
        let mut paths: Vec<&PathBuf> = paths
            .filter(|path| self.0.get(*path) != other.0.get(*path))
            .collect();
        paths.sort();
        paths.dedup();
        let show = |path: &&PathBuf| {
            let (is, should) = (self.0.get(*path), other.0.get(*path));
            format!("{} is {is:?} instead of {should:?}", path.display())
        };
        let named: Vec<String> = paths.iter().take(NAMED).map(show).collect();
        let count = paths.len();
        (count > 0).then(|| format!("{count} differ: {}", named.join("; ")))
    }

    /// What something is.
    pub(crate) fn sort(&self, path: &Path) -> Option<&Sort> {
        self.0.get(path).map(|look| &look.sort)
    }

    /// Whether a file, a link or a folder of `old` is another one here, or gone.
    pub(crate) fn has_lost(&self, old: &Self) -> bool {
        let mut paths = old.0.keys();
        paths.any(|path| self.sort(path) != old.sort(path))
    }

    /// P5: what is not as it was before or as it shall be, and what is gone though it stays.
    pub(crate) fn between(&self, old: &Self, new: &Self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (path, look) in &self.0 {
            let (before, after) = (old.0.get(path), new.0.get(path));
            let known = [before, after];
            let sort = known.iter().flatten().any(|known| known.sort == look.sort);
            let mode = known.iter().flatten().any(|known| known.mode == look.mode);
            // Folders are opened up for as long as something is moved into them.
            let is_folder = look.sort == Sort::Folder;
            if !sort || !(mode || is_folder) {
                wrong.push(format!(
                    "{} is {look:?}, was {before:?}, becomes {after:?}",
                    path.display()
                ));
            }
        }
        let stays = |path: &&PathBuf| {
            let (before, after) = (old.sort(path), new.sort(path));
            let is_file = |sort: Option<&Sort>| matches!(sort, Some(Sort::File { .. }));
            is_file(before) && is_file(after) && !self.0.contains_key(*path)
        };
        let gone = old.0.keys().filter(stays);
        wrong.extend(gone.map(|path| format!("{} is gone", path.display())));
        wrong
    }
}
