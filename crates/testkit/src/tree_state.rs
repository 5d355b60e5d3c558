//! The state of a folder, as far as a restore must bring it back: kinds, contents, modes,
//! modification times and hard links. Tests compare two of them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;

/// Prefix of the folders in which a restore stages its files.
const RESTORE_PREFIX: &str = ".segno-restore-";

/// How many differences a message lists.
const MAX_SHOWN: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Folder,
    File { bytes: u64, digest: Digest },
    Link { target: PathBuf },
    Other,
}

/// The state of one file, folder or link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntryState {
    pub(crate) kind: EntryKind,
    pub(crate) mode: u32,
    modified: (i64, i64),
    /// The first name of the same file, if the file has several hard links in this folder.
    first: Option<PathBuf>,
}

/// Everything in a folder, including the folder itself. A folder that does not exist is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TreeState(pub(crate) BTreeMap<PathBuf, EntryState>);

impl TreeState {
    /// Reads a folder. Excludes the staging folders that a killed restore left at its top level.
    pub(crate) fn of(root: &Path) -> Self {
        let mut tree_state = Self::default();
        if fs::symlink_metadata(root).is_ok() {
            let mut names = HashMap::new();
            tree_state.read_entry(root, Path::new(""), &mut names);
            // A file whose other hard links are outside of the folder has only one name here.
            names.retain(|_, (_, count)| *count == 1);
            for (path, _) in names.values() {
                tree_state.0.get_mut(path).unwrap().first = None;
            }
        }
        tree_state
    }

    fn read_entry(&mut self, root: &Path, path: &Path, names: &mut HashMap<u64, (PathBuf, u64)>) {
        // Not `root.join("")`: that would append a slash to a file's name.
        let full = root
            .components()
            .chain(path.components())
            .collect::<PathBuf>();
        let metadata = fs::symlink_metadata(&full).unwrap();
        let file_type = metadata.file_type();
        let kind = if file_type.is_dir() {
            EntryKind::Folder
        } else if file_type.is_symlink() {
            let target = fs::read_link(&full).unwrap();
            EntryKind::Link { target }
        } else if file_type.is_file() {
            let digest = Digest::of(&fs::read(&full).unwrap());
            let bytes = metadata.len();
            EntryKind::File { bytes, digest }
        } else {
            EntryKind::Other
        };
        let name = || {
            let known = names.entry(metadata.ino());
            let (first, count) = known.or_insert_with(|| (path.to_owned(), 0));
            *count += 1;
            first.clone()
        };
        let first = (file_type.is_file() && metadata.nlink() > 1).then(name);
        let entry = EntryState {
            kind,
            mode: metadata.permissions().mode(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            first,
        };
        self.0.insert(path.to_owned(), entry);
        if !file_type.is_dir() {
            return;
        }
        let inside = fs::read_dir(&full).unwrap();
        let mut inside: Vec<_> = inside.map(|entry| entry.unwrap().file_name()).collect();
        inside.sort();
        let is_top = path.as_os_str().is_empty();
        inside.retain(|name| !is_top || !name.to_string_lossy().starts_with(RESTORE_PREFIX));
        for name in inside {
            self.read_entry(root, &path.join(name), names);
        }
    }

    /// Describes how it differs from `other`; `None` if it does not.
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
        let named: Vec<String> = paths.iter().take(MAX_SHOWN).map(show).collect();
        let count = paths.len();
        (count > 0).then(|| format!("{count} differ: {}", named.join("; ")))
    }

    pub(crate) fn kind(&self, path: &Path) -> Option<&EntryKind> {
        self.0.get(path).map(|entry| &entry.kind)
    }

    /// Whether a file, link or folder of `old` is changed here, or gone.
    pub(crate) fn has_lost(&self, old: &Self) -> bool {
        let mut paths = old.0.keys();
        paths.any(|path| self.kind(path) != old.kind(path))
    }

    /// P5: lists the paths that are neither in the old nor in the new state, and the files that are
    /// gone although both states have them.
    pub(crate) fn unexpected_between(&self, old: &Self, new: &Self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (path, entry) in &self.0 {
            let (before, after) = (old.0.get(path), new.0.get(path));
            let known = [before, after];
            let kind = known.iter().flatten().any(|known| known.kind == entry.kind);
            let mode = known.iter().flatten().any(|known| known.mode == entry.mode);
            // A restore makes folders writable while it moves something into them.
            let is_folder = entry.kind == EntryKind::Folder;
            if !kind || !(mode || is_folder) {
                wrong.push(format!(
                    "{} is {entry:?}, was {before:?}, becomes {after:?}",
                    path.display()
                ));
            }
        }
        let stays = |path: &&PathBuf| {
            let (before, after) = (old.kind(path), new.kind(path));
            let is_file = |kind: Option<&EntryKind>| matches!(kind, Some(EntryKind::File { .. }));
            is_file(before) && is_file(after) && !self.0.contains_key(*path)
        };
        let gone = old.0.keys().filter(stays);
        wrong.extend(gone.map(|path| format!("{} is gone", path.display())));
        wrong
    }
}
