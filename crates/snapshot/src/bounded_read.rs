//! Reads files of a workspace: bounded, without following a link as the last part of the path,
//! without blocking on a FIFO.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed())
        .open(path)?;
    if !file.metadata()?.is_file() {
        let message = "not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(file)
}

/// The content of a regular file of at most `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open(path)?
        .take(limit.saturating_add(1))
        .read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        let message = format!("longer than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(content)
}

/// The first bytes of a regular file; empty if it cannot be read.
pub(crate) fn start(path: &Path, length: u64) -> Vec<u8> {
    let mut content = Vec::new();
    if let Ok(file) = open(path) {
        let _ = file.take(length).read_to_end(&mut content);
    }
    content
}

pub(crate) fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
}

pub(crate) fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// The entries of a folder, and whether each is a folder; `None` if it cannot be read or has more
/// than `limit` entries.
pub(crate) fn entries(folder: &Path, limit: usize) -> Option<Vec<(OsString, bool)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        if found.len() == limit {
            return None;
        }
        let is_folder = entry.file_type().ok()?.is_dir();
        found.push((entry.file_name(), is_folder));
    }
    Some(found)
}
