//! A folder for copies of a store, which is reused.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::Damage;
use crate::sandbox::memory_dir;

/// A folder in memory that is reset to the specimen before each damage.
pub struct StoreCopy(TempDir);

impl Default for StoreCopy {
    fn default() -> Self {
        Self::new()
    }
}

impl StoreCopy {
    /// An empty one, in memory (`/dev/shm`) if the machine has it.
    pub fn new() -> Self {
        Self(memory_dir())
    }

    /// One below `folder`.
    pub fn within(folder: &Path) -> Self {
        Self(TempDir::with_prefix_in("segno-damage-", folder).unwrap())
    }

    /// The home.
    pub fn root(&self) -> PathBuf {
        self.0.path().join("home")
    }

    /// Resets it to `files`. Files that are only ever read are not written again unless `damage` is
    /// about to change them or the previous damage did so.
    pub(super) fn restore(
        &self,
        files: &BTreeMap<PathBuf, Vec<u8>>,
        links: &BTreeMap<PathBuf, PathBuf>,
        damage: Option<&Damage>,
    ) {
        let root = self.root();
        let flip = matches!(damage, Some(Damage::Flip { .. }));
        if !flip || !root.exists() || root.with_extension("harmed").exists() {
            let _ = fs::remove_dir_all(&root);
            let _ = fs::remove_file(root.with_extension("elsewhere"));
            let _ = fs::remove_file(root.with_extension("harmed"));
        }
        // Logs that segno rescued from the previous damage.
        let _ = fs::remove_dir_all(root.join("backups"));
        let _ = fs::remove_file(root.join("index"));
        for path in files.keys().filter(|path| path.ends_with("journal.db")) {
            for log in ["db-shm", "db-wal"] {
                let _ = fs::remove_file(root.join(path).with_extension(log));
            }
        }
        for (path, content) in files {
            let target = root.join(path);
            let constant = path.starts_with("blobs") || path.ends_with("reserve");
            if (constant && target.exists()) || path.ends_with("journal.db-shm") {
                continue;
            }
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::write(&target, content).unwrap();
        }
        for (path, leads) in links {
            let link = root.join(path);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            let _ = fs::remove_file(&link);
            symlink(leads, link).unwrap();
        }
        fs::set_permissions(&root, fs::Permissions::from_mode(0o700)).unwrap();
        let harms_constant = damage.is_some_and(|damage| damage.file().starts_with("blobs"));
        if harms_constant || (damage.is_some() && !flip) {
            fs::write(root.with_extension("harmed"), "").unwrap();
        }
    }
}

/// The files of a home, and its links.
pub(super) fn read_home(root: &Path) -> (BTreeMap<PathBuf, Vec<u8>>, BTreeMap<PathBuf, PathBuf>) {
    let names = fs::read_dir(root.join("names")).unwrap().flatten();
    let links = names.filter_map(|entry| {
        let leads = fs::read_link(entry.path()).ok()?;
        Some((Path::new("names").join(entry.file_name()), leads))
    });
    (read_all(root, Path::new("")), links.collect())
}

/// The files below a folder, without links.
pub(super) fn read_all(root: &Path, below: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files.extend(read_all(root, &path));
        } else if kind.is_file() {
            files.insert(path.clone(), fs::read(root.join(path)).unwrap());
        }
    }
    files
}
