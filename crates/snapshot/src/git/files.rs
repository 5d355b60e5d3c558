//! Writes files for git: in the scratch folder of a capture, and in a repository that is being
//! created. Nothing here writes into an existing repository.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::bounded_read;

use super::error::Error;

/// Creates a folder and its missing parents.
pub(super) fn make_folder(path: &Path) -> Result<(), Error> {
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o777).create(path);
    made.map_err(|error| Error::file(path, &error))
}

/// Writes a file and replaces an existing one.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
        .and_then(|mut file| file.write_all(content));
    written.map_err(|error| Error::file(path, &error))
}

/// Copies a regular file of at most `limit` bytes with its mtime, because git compares the mtime of
/// an index with those of files. `false` if there is none.
pub(super) fn copy(from: &Path, to: &Path, limit: u64) -> Result<bool, Error> {
    let copied = || -> io::Result<()> {
        let time = bounded_read::open(from)?.metadata()?.modified()?;
        let content = bounded_read::read(from, limit)?;
        let mut file = OpenOptions::new().write(true).create_new(true).open(to)?;
        file.write_all(&content)?;
        file.set_modified(time)
    };
    match copied() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::file(from, &error)),
        Ok(()) => Ok(true),
    }
}

/// Creates the symbolic link `link` to `target`, if that exists.
pub(super) fn link(target: &Path, link: &Path) -> Result<(), Error> {
    if fs::symlink_metadata(target).is_err() {
        return Ok(());
    }
    let linked = std::os::unix::fs::symlink(target, link);
    linked.map_err(|error| Error::file(link, &error))
}

/// Moves something complete to its final path.
#[expect(
    clippy::disallowed_methods,
    reason = "a folder is renamed atomically, and `Disk` is not available here"
)]
pub(super) fn put(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).map_err(|error| Error::file(to, &error))
}

/// Removes a `.git` file whose git folder is missing. Anything else stays.
#[expect(
    clippy::disallowed_methods,
    reason = "a killed run left the file, and `Disk` is not available here"
)]
pub(super) fn remove_broken_link(path: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => {
            fs::remove_file(path).map_err(|error| Error::file(path, &error))
        }
        _ => Ok(()),
    }
}
