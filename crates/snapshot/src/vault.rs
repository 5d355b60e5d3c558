//! The folder that keeps snapshots: what is where in it, and who may do what at the same time.
//!
//! What is written becomes durable in this order: packs, then the manifest that needs them, then
//! the head that lists it (P4). Whoever captures holds the vault together with others; whoever
//! deletes holds it alone, and sees what everyone before has written (P8).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FlockOperation, OFlags, Timespec, Timestamps, UTIME_NOW, flock, utimensat,
};
use segno_core::cipher::Cipher;
use segno_core::digest::Digest;
use segno_core::fault::{Point, point};
use segno_core::time::Timestamp;

use crate::delta::{self, Changes, Stored};
use crate::error::Error;
use crate::files::{self, Draft, Settled};
use crate::manifest::Manifest;
use crate::pack::Shelf;
use crate::safe::Safe;
use crate::trash::Trash;

const FORMAT: &[u8] = b"segno vault 3\n";

/// Keeps snapshots in a folder.
#[derive(Debug)]
pub struct Vault {
    pub(crate) root: PathBuf,
    pub(crate) packs: PathBuf,
    pub(crate) manifests: PathBuf,
    pub(crate) heads: PathBuf,
    pub(crate) drafts: PathBuf,
    pub(crate) index: PathBuf,
    pub(crate) safe: Safe,
}

impl Vault {
    /// Opens the vault in `root`, making it if the folder is empty or not there. What killed
    /// captures left behind is cleared away.
    pub fn open(root: &Path) -> Result<Self, Error> {
        Self::open_with(root, None)
    }

    /// The same, where what is written is encrypted if there is a key.
    pub fn open_with(root: &Path, cipher: Option<Cipher>) -> Result<Self, Error> {
        let vault = Self {
            root: root.to_owned(),
            packs: root.join("packs"),
            manifests: root.join("manifests"),
            heads: root.join("heads"),
            drafts: root.join("drafts"),
            index: root.join("index"),
            safe: Safe::new(cipher),
        };
        let made = files::make_folder(root).map_err(|error| Error::at(root, error));
        made.and_then(|()| vault.check_format())?;
        vault.prepare().map_err(|error| Error::at(root, error))?;
        Ok(vault)
    }

    fn check_format(&self) -> Result<(), Error> {
        let path = self.root.join("format");
        let refuse = |reason: &str| {
            Err(Error::NotAVault {
                place: self.root.clone(),
                reason: reason.to_owned(),
            })
        };
        match files::read(&path, 1024) {
            Ok(format) if format == FORMAT => Ok(()),
            Ok(format) if format.starts_with(b"segno vault ") => {
                refuse("its file `format` has a version that is not known here")
            }
            Ok(_) => refuse("its file `format` says something else"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let names =
                    files::names(&self.root).map_err(|error| Error::at(&self.root, error))?;
                let is_draft =
                    |name: &std::ffi::OsString| name.to_string_lossy().starts_with("tmp.");
                if names.iter().all(is_draft) {
                    let made = self.make_format(&path);
                    return made.map_err(|error| Error::at(&path, error));
                }
                // Whoever made a vault of it in this moment made `format` first.
                if path.exists() {
                    return self.check_format();
                }
                refuse("it has other things in it, and no file `format`")
            }
            Err(error) => Err(Error::at(&path, error)),
        }
    }

    fn make_format(&self, path: &Path) -> io::Result<()> {
        let mut draft = Draft::new(&self.root)?;
        draft.write(FORMAT)?;
        draft.settle()?.publish(path)?;
        let parent = self
            .root
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        files::sync_folder(parent.unwrap_or(Path::new(".")))
    }

    fn prepare(&self) -> io::Result<()> {
        let folders = [
            &self.packs,
            &self.manifests,
            &self.heads,
            &self.drafts,
            &self.index,
        ];
        if folders.iter().any(|folder| !folder.is_dir()) {
            for folder in folders {
                files::make_folder(folder)?;
            }
            files::sync_folder(&self.root)?;
        }
        files::sweep_drafts(&self.drafts)?;
        files::sweep_drafts(&self.root)
    }

    fn lock_file(&self) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(self.root.join("lock"))
    }

    /// Keeps everyone from deleting until it is dropped.
    pub(crate) fn hold(&self) -> Result<File, Error> {
        let hold = || {
            let file = self.lock_file()?;
            flock(&file, FlockOperation::LockShared)?;
            Ok(file)
        };
        hold().map_err(|error: io::Error| Error::at(&self.root, error))
    }

    /// Keeps everyone else out until it is dropped; none if someone is there.
    pub(crate) fn hold_alone(&self) -> Result<Option<File>, Error> {
        let file = self
            .lock_file()
            .map_err(|error| Error::at(&self.root, error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(Error::at(&self.root, error)),
        }
    }

    /// The snapshots that are kept, sorted by name.
    pub fn snapshots(&self) -> Result<Vec<Digest>, Error> {
        names(&self.heads)
    }

    pub(crate) fn pack_names(&self) -> Result<Vec<Digest>, Error> {
        names(&self.packs)
    }

    /// Whether the snapshot is kept.
    pub(crate) fn is_kept(&self, snapshot: Digest) -> bool {
        self.heads.join(snapshot.to_string()).exists()
    }

    /// All packs; those in the trash last.
    pub(crate) fn shelf(&self) -> Result<Shelf, Error> {
        let trash = self.trash();
        let (thrown, kept): (Vec<_>, Vec<_>) = self
            .pack_names()?
            .into_iter()
            .partition(|name| trash.has(name));
        Shelf::open(&self.packs, &self.safe, [kept, thrown])
    }

    /// The packs that may be built upon: those that are not in the trash.
    pub(crate) fn fresh_shelf(&self) -> Result<Shelf, Error> {
        let trash = self.trash();
        let mut names = self.pack_names()?;
        names.retain(|name| !trash.has(name));
        Shelf::open(&self.packs, &self.safe, [names])
    }

    /// The packs that can be built upon now, where a shelf was looked at before: those of it and
    /// those that were written since.
    pub(crate) fn sound_packs(&self, shelf: &Shelf) -> Result<Vec<Digest>, Error> {
        let trash = self.trash();
        let damaged = |name: &Digest| shelf.damaged().iter().any(|(damaged, _)| damaged == name);
        let mut names = self.pack_names()?;
        names.retain(|name| !trash.has(name) && !damaged(name));
        Ok(names)
    }

    pub(crate) fn trash(&self) -> Trash {
        Trash::read(&self.root.join("trash"))
    }

    fn manifest_path(&self, snapshot: Digest) -> PathBuf {
        self.manifests.join(snapshot.to_string())
    }

    /// Whether a manifest is from before there was a key.
    pub(crate) fn is_legible(&self, snapshot: Digest) -> Result<bool, Error> {
        let path = self.manifest_path(snapshot);
        let opened = self.safe.open(&path);
        let opened = opened.map_err(|error| Error::at(&path, error))?;
        Ok(self.safe.seals() && !opened.is_sealed())
    }

    /// A manifest as it is stored.
    pub(crate) fn stored(&self, snapshot: Digest) -> Result<Stored, Error> {
        let path = self.manifest_path(snapshot);
        let damaged = |reason: &str| Error::damaged(format!("manifest {snapshot}"), reason);
        let bytes = self
            .safe
            .read(&path, delta::LONGEST)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => damaged("it is missing"),
                io::ErrorKind::InvalidData => damaged(&error.to_string()),
                _ => Error::at(&path, error),
            })?;
        Stored::decode(&bytes).map_err(|broken| damaged(broken.0))
    }

    /// The manifest of a snapshot that is kept.
    pub(crate) fn manifest(&self, snapshot: Digest) -> Result<Manifest, Error> {
        if self.is_kept(snapshot) {
            self.assemble(snapshot)
        } else {
            Err(Error::NoSnapshot(snapshot))
        }
    }

    /// Puts a manifest together from what is stored, and proves it by its name.
    pub(crate) fn assemble(&self, snapshot: Digest) -> Result<Manifest, Error> {
        let whole = self.whole(snapshot)?;
        Manifest::decode(&whole).map_err(|broken| Error::Hostile {
            snapshot,
            reason: broken.0.to_owned(),
        })
    }

    /// The bytes of a manifest, proved by its name.
    pub(crate) fn whole(&self, snapshot: Digest) -> Result<Vec<u8>, Error> {
        let damaged =
            |name: Digest, reason: &str| Error::damaged(format!("manifest {name}"), reason);
        let mut chain: Vec<Changes> = Vec::new();
        let mut at = snapshot;
        let whole = loop {
            match self.stored(at)? {
                Stored::Whole(bytes) => break bytes,
                Stored::Changes {
                    parent, changes, ..
                } => {
                    chain.push(changes);
                    at = parent;
                }
            }
            if chain.len() > delta::CHAIN as usize {
                return Err(damaged(snapshot, "its chain of changes does not end"));
            }
        };
        if Digest::of(&whole) != at {
            return Err(damaged(at, "what it says does not match its name"));
        }
        if chain.is_empty() {
            return Ok(whole);
        }
        let whole = delta::apply(&whole, &chain).map_err(|broken| Error::Hostile {
            snapshot,
            reason: broken.0.to_owned(),
        })?;
        if Digest::of(&whole) != snapshot {
            return Err(damaged(
                snapshot,
                "what its changes add up to does not match its name",
            ));
        }
        Ok(whole)
    }

    /// The file of a manifest, as changes since a parent if there are few.
    pub(crate) fn as_stored(
        &self,
        whole: &[u8],
        changes: Option<(Digest, Changes)>,
    ) -> Result<Vec<u8>, Error> {
        let changes = changes.and_then(|(parent, changes)| self.since(parent, changes));
        let stored = changes.unwrap_or_else(|| Stored::Whole(whole.to_vec()));
        let encoded = stored.encode();
        encoded.map_err(|error| Error::at(&self.manifests, error))
    }

    /// Brings the file of a manifest to the disk, without a name.
    pub(crate) fn settle(&self, stored: &[u8]) -> Result<Settled, Error> {
        let write = || {
            let mut draft = self.safe.draft(&self.drafts)?;
            draft.write(stored)?;
            draft.settle()
        };
        write().map_err(|error: io::Error| Error::at(&self.drafts, error))
    }

    /// Gives the file of a manifest its name. Durable when it returns; listed once it has a head.
    /// Returns how many bytes it takes.
    pub(crate) fn store(&self, snapshot: Digest, settled: Settled) -> Result<u64, Error> {
        let path = self.manifest_path(snapshot);
        let name = || {
            point(Point::SnapshotBeforeManifest);
            let length = settled.publish(&path)?;
            point(Point::SnapshotAfterManifest);
            files::sync_folder(&self.manifests)?;
            Ok(length)
        };
        name().map_err(|error: io::Error| Error::at(&path, error))
    }

    /// Stores a manifest whole.
    pub(crate) fn store_whole(&self, snapshot: Digest, whole: &[u8]) -> Result<u64, Error> {
        let stored = self.as_stored(whole, None)?;
        self.store(snapshot, self.settle(&stored)?)
    }

    /// Changes as they are stored, unless too many follow one another.
    fn since(&self, parent: Digest, changes: Changes) -> Option<Stored> {
        let depth = self.depth(parent)? + 1;
        (depth < delta::CHAIN).then_some(Stored::Changes {
            parent,
            depth,
            changes,
        })
    }

    /// How many changes lie between a manifest and a whole one.
    fn depth(&self, snapshot: Digest) -> Option<u32> {
        let file = self.safe.open(&self.manifest_path(snapshot)).ok()?;
        let mut begin = [0; Stored::BEGIN];
        file.read_exact_at(&mut begin, 0).ok()?;
        if Stored::begins_whole(&begin) {
            return Some(0);
        }
        match self.stored(snapshot).ok()? {
            Stored::Whole(_) => Some(0),
            Stored::Changes { depth, .. } => Some(depth),
        }
    }

    /// Makes a snapshot young that is kept already: whoever took it again is about to name it, and a
    /// sweep leaves them the time for that (P8).
    pub(crate) fn renew(&self, snapshot: Digest) -> Result<(), Error> {
        let path = self.heads.join(snapshot.to_string());
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| Error::at(&path, error))
    }

    /// Lists a snapshot whose manifest is durable.
    pub(crate) fn list_as_kept(&self, snapshot: Digest) -> Result<(), Error> {
        let path = self.heads.join(snapshot.to_string());
        let make = || {
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
                .open(&path)?;
            point(Point::SnapshotAfterHead);
            files::sync_folder(&self.heads)
        };
        make().map_err(|error| Error::at(&path, error))
    }

    /// Takes every snapshot off the list but those in `kept` and those that were listed since
    /// `before`, and says how many. Nothing is done while someone uses the vault.
    pub fn keep_only(&self, kept: &[Digest], before: Timestamp) -> Result<u64, Error> {
        let Some(_alone) = self.hold_alone()? else {
            return Ok(0);
        };
        let mut gone = 0;
        for snapshot in self.snapshots()? {
            let path = self.heads.join(snapshot.to_string());
            let listed = path.metadata().and_then(|metadata| metadata.modified());
            let listed = listed.map_err(|error| Error::at(&path, error))?;
            let since = listed.duration_since(std::time::UNIX_EPOCH);
            let millis = since.map_or(0, |since| since.as_millis());
            let is_old = i64::try_from(millis).is_ok_and(|millis| millis < before.0);
            if is_old && !kept.contains(&snapshot) {
                self.remove(snapshot)?;
                point(Point::SweepAfterUnlist);
                gone += 1;
            }
        }
        Ok(gone)
    }

    /// Takes a snapshot off the list. What only it needs goes with a later [`Vault::gc`].
    pub fn remove(&self, snapshot: Digest) -> Result<(), Error> {
        if !self.is_kept(snapshot) {
            return Err(Error::NoSnapshot(snapshot));
        }
        let path = self.heads.join(snapshot.to_string());
        let removed = files::remove(&path).and_then(|()| files::sync_folder(&self.heads));
        removed.map_err(|error| Error::at(&path, error))
    }
}

/// The digests that files in a folder are called by.
pub(crate) fn names(folder: &Path) -> Result<Vec<Digest>, Error> {
    let names = files::names(folder).map_err(|error| Error::at(folder, error))?;
    let digest = |name: &std::ffi::OsString| name.to_str()?.parse().ok();
    Ok(names.iter().filter_map(digest).collect())
}
