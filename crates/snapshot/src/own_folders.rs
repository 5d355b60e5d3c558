//! Segno's own folders, recognized under any path: links and bind mounts lead to the same device
//! and inode.
//!
//! No snapshot contains them, no restore writes into them, and none removes them (P5). The home
//! holds the sessions, the snapshots and the key that seals checkpoints: a restore over it would
//! destroy the very checkpoint that undoes the restore.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use segno_core::snapshot::FolderUse;

use crate::error::{Error, OWN_FOLDER};
use crate::openat::Facts;

/// Device and inode.
type FolderId = (u64, u64);

/// The home, the folders in it, and those that contain it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OwnFolders {
    /// The home itself, and the folders directly in it: one of them may be mounted elsewhere.
    own: Vec<FolderId>,
    /// The folders that contain the home.
    above: Vec<FolderId>,
}

/// The id of the folder that a path leads to.
fn id(path: &Path) -> Option<FolderId> {
    let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_dir)?;
    Some((metadata.dev(), metadata.ino()))
}

impl OwnFolders {
    /// The folders of the home at `root`; of any folder that belongs to Segno alone.
    pub(crate) fn find(root: &Path) -> Self {
        let Ok(real) = fs::canonicalize(root) else {
            return Self::default();
        };
        let inside = fs::read_dir(&real).into_iter().flatten().flatten();
        let folders = inside.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let inside = folders.map(|entry| entry.path());
        Self {
            own: inside
                .chain([real.clone()])
                .filter_map(|path| id(&path))
                .collect(),
            above: real.ancestors().skip(1).filter_map(id).collect(),
        }
    }

    /// Adds the folders of another root.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.own.extend(other.own);
        self.above.extend(other.above);
        self
    }

    /// Whether a folder is one of Segno's own.
    pub(crate) fn contains(&self, facts: &Facts) -> bool {
        facts.is_folder() && self.own.contains(&(facts.device, facts.inode))
    }

    /// Refuses a folder that is Segno's own or inside one; for files of a checkpoint from another
    /// folder, also one that contains the home. A folder that does not exist is as its nearest
    /// existing parent.
    pub(crate) fn check(&self, folder: &Path, usage: FolderUse) -> Result<(), Error> {
        let real = folder
            .ancestors()
            .find_map(|above| fs::canonicalize(above).ok());
        let Some(real) = real else { return Ok(()) };
        let refuse = |reason| {
            let place = folder.to_owned();
            Err(Error::Refused { place, reason })
        };
        let is_own = |path: &Path| id(path).is_some_and(|id| self.own.contains(&id));
        if is_own(&real) {
            return refuse(OWN_FOLDER);
        }
        if real.ancestors().skip(1).any(is_own) {
            return refuse("it is inside Segno's home folder");
        }
        let holds_home = || {
            let exists = folder.exists().then(|| id(&real)).flatten();
            exists.is_some_and(|id| self.above.contains(&id))
        };
        if usage == FolderUse::Target && holds_home() {
            return refuse("it contains Segno's home folder");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(own: &OwnFolders, folder: &Path, usage: FolderUse) -> Option<&'static str> {
        match own.check(folder, usage) {
            Ok(()) => None,
            Err(Error::Refused { reason, .. }) => Some(reason),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn home_is_recognized_under_any_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |path: &str| folder.path().join(path);
        for path in ["ws/home/packs/deep", "elsewhere"] {
            fs::DirBuilder::new()
                .recursive(true)
                .create(at(path))
                .expect("a folder");
        }
        std::os::unix::fs::symlink(at("ws/home"), at("link")).expect("a link");
        let own = OwnFolders::find(&at("link"));
        let home = "it is Segno's home folder, or a part of it";
        let inside = "it is inside Segno's home folder";
        let above = "it contains Segno's home folder";
        for (path, in_workspace, as_target) in [
            ("ws/home", Some(home), Some(home)),
            ("link", Some(home), Some(home)),
            ("ws/home/packs", Some(home), Some(home)),
            ("ws/home/packs/deep", Some(inside), Some(inside)),
            ("link/packs/deep", Some(inside), Some(inside)),
            ("ws/home/new/folder", Some(home), Some(home)),
            ("ws", None, Some(above)),
            ("", None, Some(above)),
            ("elsewhere", None, None),
            ("ws/new", None, None),
        ] {
            let answer = |usage| reason(&own, &at(path), usage);
            assert_eq!(answer(FolderUse::Workspace), in_workspace, "{path}");
            assert_eq!(answer(FolderUse::Target), as_target, "{path}");
        }
    }
}
