//! Ensures that only one watcher runs per home folder.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::ports::Disk;
use segno_core::time::Timestamp;
use segno_store::LocalDisk;

/// The lock of the watcher. The kernel releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct WatchLock {
    _file: File,
}

/// Why the lock could not be acquired.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("transcripts are watched already: {0}")]
    HeldBy(String),
    #[error("{} cannot be used: {error}", .path.display())]
    Unusable { path: PathBuf, error: io::Error },
}

impl Diagnose for LockError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::HeldBy(_) | Self::Unusable { .. } => Diagnosis::new(Kind::Locked, "H0103"),
        }
    }
}

impl WatchLock {
    pub fn acquire(home: &Path, now: Timestamp) -> Result<Self, LockError> {
        let path = home.join("watch.lock");
        let unusable = |error: io::Error| LockError::Unusable {
            path: path.clone(),
            error,
        };
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(&path);
        let mut file = file.map_err(unusable)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                let owner = LocalDisk.read(&path, 4096).unwrap_or_default();
                let owner = String::from_utf8_lossy(&owner).trim().to_owned();
                let owner = if owner.is_empty() {
                    "by another process".into()
                } else {
                    owner
                };
                return Err(LockError::HeldBy(owner));
            }
            other => other.map_err(|error| unusable(error.into()))?,
        }
        let owner = format!("by process {} since {now}\n", std::process::id());
        let written = file
            .set_len(0)
            .and_then(|()| file.write_all(owner.as_bytes()));
        // On a full disk the owner cannot be recorded, but the lock holds.
        drop(written);
        Ok(Self { _file: file })
    }
}
