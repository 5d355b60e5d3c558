//! Folders that are never captured, nor restored into.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Refuses folders that are too much: the root of the file system, the user's home, and every
/// folder above the home. Returns the path without links.
pub(crate) fn guard(root: &Path, home: Option<&Path>) -> Result<PathBuf, Error> {
    let real = std::fs::canonicalize(root).map_err(|error| Error::at(root, error))?;
    let refuse = |reason| {
        Err(Error::Refused {
            place: real.clone(),
            reason,
        })
    };
    if real == Path::new("/") {
        return refuse("it is the whole file system");
    }
    let homes: HashSet<PathBuf> = home
        .into_iter()
        .flat_map(|home| [Some(home.to_owned()), std::fs::canonicalize(home).ok()])
        .flatten()
        .collect();
    if homes.contains(&real) {
        return refuse("it is your home folder");
    }
    if homes.iter().any(|home| home.starts_with(&real)) {
        return refuse("it contains your home folder");
    }
    Ok(real)
}
