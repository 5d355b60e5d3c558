//! A folder that tools may access.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

/// An open folder, and its path without links.
#[derive(Clone)]
pub(super) struct Root {
    folder: Arc<OwnedFd>,
    path: PathBuf,
}

impl Root {
    /// Opens a folder. Its path is the user's own, so links are followed here.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = Arc::new(rustix::fs::open(&path, flags, Mode::empty())?);
        Ok(Self { folder, path })
    }

    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Resolves the links of a relative path without `..`; `None` if it leads out. A path that does
    /// not exist is where its nearest existing ancestor is.
    pub(super) fn resolve(&self, names: &Path) -> io::Result<Option<PathBuf>> {
        for ancestor in names.ancestors() {
            let given = self.path.join(ancestor);
            let real = match given.canonicalize() {
                Ok(real) => real,
                // A link to something that does not exist could lead anywhere.
                Err(error) if error.kind() == ErrorKind::NotFound && !given.is_symlink() => {
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let Ok(real) = real.strip_prefix(&self.path) else {
                return Ok(None);
            };
            let rest = names.strip_prefix(ancestor);
            let rest = rest.expect("it is an ancestor of these names");
            return Ok(Some(real.components().chain(rest.components()).collect()));
        }
        Err(ErrorKind::NotFound.into())
    }
}
