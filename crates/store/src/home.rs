//! The home folder: its layout, its permissions, and its disk reserve.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use segno_core::id::SessionId;
use segno_core::ports::{Access, Disk};
use segno_core::store::{DiskSpace, Error};

/// The size of the reserve for a full disk: enough to store the longest answer that fits into a
/// row, and how the run ended.
const RESERVE: usize = 2 * 1024 * 1024;

/// Numbers the drafts of this process.
static DRAFTS: AtomicU64 = AtomicU64::new(0);

#[derive(Clone)]
pub struct Home {
    root: PathBuf,
    disk: Arc<dyn Disk>,
}

impl Home {
    /// Opens the home at `root` and creates it if it is missing. Refuses a folder that others own
    /// or may write to: a user who can change our files controls our sessions.
    pub fn open(root: impl Into<PathBuf>, disk: Arc<dyn Disk>) -> Result<Self, Error> {
        let root = root.into();
        disk.create_folder(&root, Access::Private)
            .map_err(|error| io_error(&root, &error))?;
        // SQLite opens no database through a link, so links in the path are resolved here.
        let root = fs::canonicalize(&root).map_err(|error| io_error(&root, &error))?;
        let home = Self { root, disk };
        home.check()?;
        let make = |folder: &Path| {
            let made = home.disk.create_folder(folder, Access::Private);
            made.map_err(|error| io_error(folder, &error))
        };
        for folder in [
            home.sessions(),
            home.names(),
            home.trash(),
            home.blobs(),
            home.heads(),
            home.previews(),
            home.backups(),
            home.checkpoints(),
            home.snapshots(),
        ] {
            make(&folder)?;
        }
        Ok(home)
    }

    fn check(&self) -> Result<(), Error> {
        let metadata = fs::metadata(&self.root).map_err(|error| io_error(&self.root, &error))?;
        let refuse = |reason: String| {
            let place = self.root.display().to_string();
            Err(Error::Unsafe { place, reason })
        };
        let user = rustix::process::geteuid().as_raw();
        if metadata.uid() != user && user != 0 {
            return refuse(format!("it belongs to user {}", metadata.uid()));
        }
        if metadata.permissions().mode() & 0o022 != 0 {
            return refuse("others may write to it".into());
        }
        Ok(())
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The sessions, one folder each.
    pub fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    /// The folder of one session: its database and its lock.
    pub fn session_folder(&self, session: SessionId) -> PathBuf {
        self.sessions().join(session.to_string())
    }

    /// The database of one session.
    pub fn journal(&self, session: SessionId) -> PathBuf {
        self.session_folder(session).join("journal.db")
    }

    /// What running answers say so far.
    pub fn previews(&self) -> PathBuf {
        self.root.join("previews")
    }

    /// The marks of the sessions in the trash.
    pub fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    /// The index of sessions, a cache.
    pub fn index(&self) -> PathBuf {
        self.root.join("index")
    }

    /// The names of sessions: links to their folders.
    pub fn names(&self) -> PathBuf {
        self.root.join("names")
    }

    /// The one database that contains all sessions, in homes of version 0.1.0.
    pub fn shared_database(&self) -> PathBuf {
        self.root.join("segno.db")
    }

    /// Whether the home has sessions of version 0.1.0, which are migrated when the store is opened.
    pub fn has_shared_database(&self) -> bool {
        fs::symlink_metadata(self.shared_database()).is_ok()
    }

    /// Long values, by content.
    pub fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    /// The acknowledgement markers, one small file per session.
    pub fn heads(&self) -> PathBuf {
        self.root.join("heads")
    }

    /// The checkpoints, one folder per session.
    pub fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    /// The snapshot store.
    pub fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    /// Backups of the database from before each migration.
    pub fn backups(&self) -> PathBuf {
        self.root.join("backups")
    }

    fn reserve(&self) -> PathBuf {
        self.root.join("reserve")
    }

    /// Creates the reserve if there is plenty of space; a disk that is almost full is not made
    /// fuller.
    pub fn fill_reserve(&self) {
        if !self.has_reserve() && self.free() >= 4 * RESERVE {
            self.restore_reserve();
        }
    }

    /// Creates the reserve again, even if it takes the last space.
    pub fn restore_reserve(&self) {
        // Not zeros: a compressing file system would reserve nothing.
        let noise = |n: u32| n.wrapping_mul(0x9E37_79B1).to_le_bytes()[3];
        let noise: Vec<u8> = (0_u32..).map(noise).take(RESERVE).collect();
        // It appears complete: another process must not take a part of it for a full disk.
        let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
        let draft = format!("reserve.{}-{number}.draft", std::process::id());
        let draft = self.root.join(draft);
        let _ = self.disk.remove(&draft);
        let created = self
            .disk
            .create(&draft, &noise, Access::Private)
            .and_then(|()| self.disk.rename(&draft, &self.reserve()));
        if created.is_err() {
            let _ = self.disk.remove(&draft);
        }
    }

    pub fn has_reserve(&self) -> bool {
        fs::metadata(self.reserve()).is_ok_and(|metadata| metadata.len() == RESERVE as u64)
    }

    /// Removes the reserve to free its space. True if there was one.
    pub fn use_reserve(&self) -> bool {
        self.has_reserve() && self.disk.remove(&self.reserve()).is_ok()
    }

    /// The space that is left: only what the reserve freed, until there is room for it again.
    pub fn disk_space(&self) -> DiskSpace {
        if !self.has_reserve() {
            self.fill_reserve();
        }
        if self.has_reserve() {
            DiskSpace::Sufficient
        } else {
            DiskSpace::ReserveOnly
        }
    }

    /// The free bytes on the disk; `usize::MAX` if that is unknown.
    pub fn free(&self) -> usize {
        let stat = rustix::fs::statvfs(&self.root);
        stat.map_or(usize::MAX, |stat| {
            usize::try_from(stat.f_bavail.saturating_mul(stat.f_frsize)).unwrap_or(usize::MAX)
        })
    }

    /// The longest file that this process may write, if there is a limit (`ulimit -f`).
    pub fn file_size_limit() -> Option<u64> {
        rustix::process::getrlimit(rustix::process::Resource::Fsize).current
    }

    /// The error for a home without a reserve, in which nothing new is begun.
    pub(crate) fn no_reserve(&self) -> Error {
        let place = self.root.display().to_string();
        match Self::file_size_limit() {
            Some(limit) if limit < RESERVE as u64 => Error::Unavailable {
                place,
                reason: format!(
                    "this process may write files of {limit} bytes at most (`ulimit -f`)"
                ),
            },
            _ => Error::DiskFull { place },
        }
    }

    /// Says why a write failed for which SQLite knows no better reason than an I/O error: it writes
    /// a file in the same folder.
    pub(crate) fn explain(&self, error: Error, database: &Path) -> Error {
        let Error::Unavailable { place, reason } = error else {
            return error;
        };
        let probe = database.with_file_name(format!("probe-{}", std::process::id()));
        let written = self.disk.create(&probe, &[1; 16 * 1024], Access::Private);
        let _ = self.disk.remove(&probe);
        match (written, Self::file_size_limit()) {
            (Err(error), _) if is_full(&error) => Error::DiskFull { place },
            (_, Some(limit)) => Error::Unavailable {
                place,
                reason: format!(
                    "{reason}; this process may write files of {limit} bytes at most (`ulimit -f`)"
                ),
            },
            _ => Error::Unavailable { place, reason },
        }
    }

    /// The type of network file system that contains the home, if it is one: SQLite's locks do not
    /// work there.
    pub fn network_file_system(&self) -> Option<&'static str> {
        let kind = rustix::fs::statfs(&self.root).ok()?.f_type;
        #[expect(
            clippy::cast_sign_loss,
            clippy::cast_possible_truncation,
            reason = "magic numbers have 32 bits, in a signed field of varying width"
        )]
        match kind as u32 {
            0x6969 => Some("NFS"),
            0xFE53_4D42 | 0xFF53_4D42 | 0x517B => Some("SMB"),
            0x0102_1997 => Some("9P"),
            0x00C3_6400 => Some("Ceph"),
            0x5346_414F => Some("AFS"),
            0x0BD0_0BD0 => Some("Lustre"),
            _ => None,
        }
    }
}

/// Converts the error of a file operation.
pub(crate) fn io_error(folder: &Path, error: &io::Error) -> Error {
    let place = folder.display().to_string();
    let reason = match error.kind() {
        _ if is_full(error) => return Error::DiskFull { place },
        io::ErrorKind::ReadOnlyFilesystem => {
            "its file system is read-only; sessions can be read there, not started or resumed"
                .to_owned()
        }
        _ => error.to_string(),
    };
    Error::Unavailable { place, reason }
}

/// Whether an error means that the disk is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lack_of_space_is_a_full_disk() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            assert!(is_full(&kind.into()));
        }
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::FileTooLarge] {
            assert!(!is_full(&kind.into()));
        }
    }
}
