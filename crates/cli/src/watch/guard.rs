//! One watcher per home.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use segno_core::error::{Diagnose, Kind};
use segno_core::ports::Disk;
use segno_core::time::Timestamp;
use segno_store::LocalDisk;

/// The right to watch. The kernel takes it back when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Guard {
    _file: File,
}

/// Why there is no right to watch.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Held {
    #[error("transcripts are watched already: {0}")]
    By(String),
    #[error("{} cannot be used: {error}", .path.display())]
    Unusable { path: PathBuf, error: io::Error },
}

impl Diagnose for Held {
    fn kind(&self) -> Kind {
        match self {
            Self::By(_) => Kind::Conflict,
            Self::Unusable { .. } => Kind::Unavailable,
        }
    }

    fn code(&self) -> &'static str {
        "H0103"
    }

    fn hint(&self) -> Option<String> {
        None
    }
}

impl Guard {
    pub(crate) fn take(home: &Path, now: Timestamp) -> Result<Self, Held> {
        let path = home.join("watch.lock");
        let unusable = |error: io::Error| Held::Unusable {
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
                let who = LocalDisk.read(&path, 4096).unwrap_or_default();
                let who = String::from_utf8_lossy(&who).trim().to_owned();
                let who = if who.is_empty() {
                    "by another process".into()
                } else {
                    who
                };
                return Err(Held::By(who));
            }
            other => other.map_err(|error| unusable(error.into()))?,
        }
        let who = format!("by process {} since {now}\n", std::process::id());
        let written = file
            .set_len(0)
            .and_then(|()| file.write_all(who.as_bytes()));
        // On a full disk nobody can read who it is; it is watched all the same.
        drop(written);
        Ok(Self { _file: file })
    }
}
