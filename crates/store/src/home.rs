//! The folder that holds everything: who may use it, what is in it, and what it must not be.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use segno_core::ports::{Access, Disk};
use segno_core::store::{Error, Room};

/// How much room is set aside for the day the disk is full: enough to write down the longest
/// answer that stands in a row, and how the run ended.
const RESERVE: usize = 2 * 1024 * 1024;

/// A folder of our own.
#[derive(Clone)]
pub struct Home {
    root: PathBuf,
    disk: Arc<dyn Disk>,
    /// Whether the room that was set aside had to be used since this was opened.
    strained: Arc<AtomicBool>,
}

impl Home {
    /// Opens the home at `root`, making it if there is none. Refuses a folder that others own or
    /// may write: whoever can change our files decides what our sessions say.
    pub fn open(root: impl Into<PathBuf>, disk: Arc<dyn Disk>) -> Result<Self, Error> {
        let home = Self {
            root: root.into(),
            disk,
            strained: Arc::default(),
        };
        let make = |folder: &Path| {
            let made = home.disk.create_folder(folder, Access::Private);
            made.map_err(|error| trouble(folder, &error))
        };
        make(&home.root)?;
        home.check()?;
        for folder in [
            home.blobs(),
            home.heads(),
            home.backups(),
            home.checkpoints(),
            home.snapshots(),
        ] {
            make(&folder)?;
        }
        Ok(home)
    }

    fn check(&self) -> Result<(), Error> {
        let metadata = fs::metadata(&self.root).map_err(|error| trouble(&self.root, &error))?;
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

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// How its files are reached.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.root.join("segno.db")
    }

    /// Long values, by content.
    pub fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    /// What was acknowledged, one small file per session.
    pub fn heads(&self) -> PathBuf {
        self.root.join("heads")
    }

    /// Where sessions stood, a folder for each.
    pub fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    /// The files of workspaces.
    pub fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    /// Copies of the database from before each change of its format.
    pub fn backups(&self) -> PathBuf {
        self.root.join("backups")
    }

    fn reserve(&self) -> PathBuf {
        self.root.join("reserve")
    }

    /// Sets room aside, if there is room; a disk that is almost full is not made fuller.
    pub fn fill_reserve(&self) {
        if !self.has_reserve() && self.free() >= 4 * RESERVE {
            self.restore_reserve();
        }
    }

    /// Sets room aside again, down to the last byte.
    pub fn restore_reserve(&self) {
        // Not zeros: a file system that compresses would set nothing aside.
        let noise = |n: u32| n.wrapping_mul(0x9E37_79B1).to_le_bytes()[3];
        let noise: Vec<u8> = (0_u32..).map(noise).take(RESERVE).collect();
        // A short one is left from a process that was killed while it wrote.
        let _ = self.disk.remove(&self.reserve());
        if self
            .disk
            .create(&self.reserve(), &noise, Access::Private)
            .is_err()
        {
            let _ = self.disk.remove(&self.reserve());
        }
    }

    /// Whether room is set aside.
    pub fn has_reserve(&self) -> bool {
        fs::metadata(self.reserve()).is_ok_and(|metadata| metadata.len() == RESERVE as u64)
    }

    /// Gives the room back. True if there was any.
    pub fn use_reserve(&self) -> bool {
        let used = self.has_reserve() && self.disk.remove(&self.reserve()).is_ok();
        if used {
            self.strained.store(true, Ordering::SeqCst);
        }
        used
    }

    /// What is left: only what was set aside, once that had to be used.
    pub fn room(&self) -> Room {
        if self.strained.load(Ordering::SeqCst) {
            Room::Reserve
        } else {
            Room::Plenty
        }
    }

    /// How many bytes are left on the disk; plenty if that cannot be known.
    pub fn free(&self) -> usize {
        let stat = rustix::fs::statvfs(&self.root);
        stat.map_or(usize::MAX, |stat| {
            usize::try_from(stat.f_bavail.saturating_mul(stat.f_frsize)).unwrap_or(usize::MAX)
        })
    }

    /// The kind of network file system this is on, if it is on one: SQLite's locks do not hold there.
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

/// What a failed file operation means.
pub(crate) fn trouble(folder: &Path, error: &io::Error) -> Error {
    let place = folder.display().to_string();
    if is_full(error) {
        Error::Full { place }
    } else {
        Error::Unavailable {
            place,
            reason: error.to_string(),
        }
    }
}

/// Whether the disk has no room, as opposed to any other trouble.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
