//! The folders that clients may choose.
//!
//! A token permits to use sessions, not the whole disk: a folder that a request names must lie below
//! one that `segno serve` was started with. Links are resolved before they are compared.

use std::path::{Component, Path, PathBuf};

use segno_engine::workspace::canonical_path;

use crate::error::Refusal;

/// The folder that a request names, if it lies below one of `roots`.
pub(crate) fn allowed(roots: &[PathBuf], folder: &str) -> Result<PathBuf, Refusal> {
    let refused = |reason| Refusal::FolderNotAllowed {
        folder: folder.to_owned(),
        reason,
    };
    let path = Path::new(folder);
    let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    if !path.is_absolute() || !path.components().all(is_plain) || folder.contains('\0') {
        return Err(refused("it is no absolute path without `..`"));
    }
    if roots.is_empty() {
        return Err(refused("the server allows no folder"));
    }
    let real = canonical_path(path);
    let contains = |root: &PathBuf| {
        let root = canonical_path(root);
        real.starts_with(&root) && real != root
    };
    if !roots.iter().any(contains) {
        return Err(refused("it is not below a folder that the server allows"));
    }
    Ok(real)
}

/// The same for a folder that does not exist yet.
pub(crate) fn new_folder(roots: &[PathBuf], folder: &str) -> Result<PathBuf, Refusal> {
    let path = allowed(roots, folder)?;
    if path.symlink_metadata().is_ok() {
        return Err(Refusal::FolderNotAllowed {
            folder: folder.to_owned(),
            reason: "it exists already",
        });
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_below_an_allowed_one_pass() {
        let roots = [PathBuf::from("/srv/forks")];
        assert!(allowed(&roots, "/srv/forks/a").is_ok());
        for folder in [
            "",
            "a",
            "/",
            "/srv/forks",
            "/srv/forks/",
            "/srv/forks2/a",
            "/srv/forks/../a",
            "/srv/forks/a\0b",
        ] {
            assert!(allowed(&roots, folder).is_err(), "{folder}");
        }
        assert!(allowed(&[], "/srv/forks/a").is_err());
    }
}
