//! Local files of transfers, read and written in ranges.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use segno_core::remote::Error;

fn io_error(path: &Path, error: &io::Error) -> Error {
    Error::File {
        place: path.display().to_string(),
        reason: error.to_string(),
    }
}

pub(super) fn length(path: &Path) -> Result<u64, Error> {
    let metadata = path.symlink_metadata();
    metadata
        .map(|metadata| metadata.len())
        .map_err(|error| io_error(path, &error))
}

/// Reads a range of a file.
pub(super) async fn read(path: &Path, at: u64, length: u64) -> Result<Vec<u8>, Error> {
    let place = path.to_owned();
    let read = move || {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&place)?;
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    };
    blocking(path, read).await
}

/// Writes a range of an existing file.
pub(super) async fn write(path: &Path, at: u64, bytes: Vec<u8>) -> Result<(), Error> {
    let place = path.to_owned();
    let write = move || {
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&place)?;
        file.write_all_at(&bytes, at)
    };
    blocking(path, write).await
}

/// Runs blocking work on another thread, so that the executor is not blocked.
async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.expect("reading and writing a file does not panic");
    done.map_err(|error| io_error(path, &error))
}
