//! The snapshot store: the layout of its folder, and its locks.
//!
//! Data becomes durable in this order: packs, then the manifest that references them, then the head
//! that lists the snapshot (P4). Captures and restores hold the store's lock shared; a process that
//! deletes holds it exclusively and therefore sees everything that earlier captures wrote (P8).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FlockOperation, OFlags, Timespec, Timestamps, UTIME_NOW, flock, utimensat,
};
use segno_core::digest::Digest;
use segno_core::fault::{Point, point};
use segno_core::time::Timestamp;
use segno_secrets::cipher::Cipher;

use crate::delta::{self, Changes, Stored};
use crate::encrypted_file::EncryptedFiles;
use crate::error::Error;
use crate::files::{self, Draft, SyncedDraft};
use crate::manifest::Manifest;
use crate::own_folders::OwnFolders;
use crate::pack::{PackSet, Packer, StoredChunks};
use crate::trash::Trash;

const FORMAT: &[u8] = b"segno vault 3\n";

/// A folder that contains snapshots.
#[derive(Debug)]
pub struct SnapshotStore {
    pub(crate) root: PathBuf,
    pub(crate) packs: PathBuf,
    pub(crate) manifests: PathBuf,
    pub(crate) heads: PathBuf,
    pub(crate) drafts: PathBuf,
    pub(crate) index: PathBuf,
    pub(crate) encrypted_files: EncryptedFiles,
    /// What no snapshot contains and no restore touches.
    pub(crate) own: OwnFolders,
}

impl SnapshotStore {
    /// Opens the snapshot store in `root`. Creates it if the folder is empty or missing. Removes
    /// the drafts of killed captures.
    pub fn open(root: &Path) -> Result<Self, Error> {
        Self::open_with(root, None)
    }

    /// Like [`SnapshotStore::open`], but encrypts what it writes if there is a key.
    pub fn open_with(root: &Path, cipher: Option<Cipher>) -> Result<Self, Error> {
        let mut store = Self {
            root: root.to_owned(),
            packs: root.join("packs"),
            manifests: root.join("manifests"),
            heads: root.join("heads"),
            drafts: root.join("drafts"),
            index: root.join("index"),
            encrypted_files: EncryptedFiles::new(cipher),
            own: OwnFolders::default(),
        };
        let made = files::make_folder(root).map_err(|error| Error::at(root, error));
        made.and_then(|()| store.check_format())?;
        match store.prepare() {
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {}
            prepared => prepared.map_err(|error| Error::at(root, error))?,
        }
        store.own = OwnFolders::find(root);
        Ok(store)
    }

    /// The same store, which also keeps its captures and restores out of `home`.
    #[must_use]
    pub fn in_home(mut self, home: &Path) -> Self {
        self.own = self.own.and(OwnFolders::find(home));
        self
    }

    fn check_format(&self) -> Result<(), Error> {
        let path = self.root.join("format");
        let refuse = |reason: &str| {
            Err(Error::NotASnapshotStore {
                place: self.root.clone(),
                reason: reason.to_owned(),
            })
        };
        match files::read(&path, 1024) {
            Ok(format) if format == FORMAT => Ok(()),
            Ok(format) if format.starts_with(b"segno vault ") => {
                refuse("its file `format` has an unknown version")
            }
            Ok(_) => refuse("its file `format` has unknown content"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let names =
                    files::names(&self.root).map_err(|error| Error::at(&self.root, error))?;
                let is_draft =
                    |name: &std::ffi::OsString| name.to_string_lossy().starts_with("tmp.");
                if names.iter().all(is_draft) {
                    return match self.make_format(&path) {
                        // An empty store can be read without one.
                        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(()),
                        made => made.map_err(|error| Error::at(&path, error)),
                    };
                }
                // A process that turns the folder into a store at the same time creates `format`
                // first.
                if path.exists() {
                    return self.check_format();
                }
                refuse("it is not empty and has no file `format`")
            }
            Err(error) => Err(Error::at(&path, error)),
        }
    }

    fn make_format(&self, path: &Path) -> io::Result<()> {
        let mut draft = Draft::new(&self.root)?;
        draft.write(FORMAT)?;
        draft.sync()?.publish(path)?;
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
        files::remove_stale_drafts(&self.drafts)?;
        files::remove_stale_drafts(&self.root)
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

    /// Takes the shared lock: nothing is deleted until the returned file is dropped.
    pub(crate) fn lock_shared(&self) -> Result<File, Error> {
        let lock = || {
            let file = match self.lock_file() {
                // Nobody deletes anything there. The folder stands in for a file that may be missing.
                Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                    OpenOptions::new().read(true).open(&self.root)?
                }
                opened => opened?,
            };
            flock(&file, FlockOperation::LockShared)?;
            Ok(file)
        };
        lock().map_err(|error: io::Error| Error::at(&self.root, error))
    }

    /// Takes the exclusive lock, which is held until the file is dropped. `None` if the store is in
    /// use.
    pub(crate) fn try_lock_exclusive(&self) -> Result<Option<File>, Error> {
        let file = self
            .lock_file()
            .map_err(|error| Error::at(&self.root, error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(Error::at(&self.root, error)),
        }
    }

    /// The listed snapshots, sorted by name.
    pub fn snapshots(&self) -> Result<Vec<Digest>, Error> {
        self.digests(&self.heads)
    }

    pub(crate) fn pack_names(&self) -> Result<Vec<Digest>, Error> {
        self.digests(&self.packs)
    }

    fn digests(&self, folder: &Path) -> Result<Vec<Digest>, Error> {
        match files::digests(folder) {
            // Nothing was stored yet, and the file system is read-only.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && !self.root.join("format").exists() =>
            {
                Ok(Vec::new())
            }
            found => found.map_err(|error| Error::at(folder, error)),
        }
    }

    pub(crate) fn is_listed(&self, snapshot: Digest) -> bool {
        self.heads.join(snapshot.to_string()).exists()
    }

    /// All packs; those in the trash come last.
    pub(crate) fn pack_set(&self) -> Result<PackSet, Error> {
        let trash = self.trash();
        let (trashed, others): (Vec<_>, Vec<_>) = self
            .pack_names()?
            .into_iter()
            .partition(|name| trash.has(name));
        PackSet::open(&self.packs, &self.encrypted_files, [others, trashed])
    }

    /// The packs that a new snapshot may reference: those that are not in the trash.
    pub(crate) fn usable_packs(&self) -> Result<PackSet, Error> {
        let trash = self.trash();
        let mut names = self.pack_names()?;
        names.retain(|name| !trash.has(name));
        PackSet::open(&self.packs, &self.encrypted_files, [names])
    }

    /// The packs that a new snapshot may reference now, given an earlier `pack_set`: its own packs and
    /// those written since, without damaged ones and those in the trash.
    pub(crate) fn undamaged_packs(&self, pack_set: &PackSet) -> Result<Vec<Digest>, Error> {
        let trash = self.trash();
        let damaged = |name: &Digest| {
            pack_set
                .damaged()
                .iter()
                .any(|(damaged, _)| damaged == name)
        };
        let mut names = self.pack_names()?;
        names.retain(|name| !trash.has(name) && !damaged(name));
        Ok(names)
    }

    /// A writer of packs that stores only what is not `known`.
    pub(crate) fn packer<'a>(&'a self, known: &'a StoredChunks) -> Result<Packer<'a>, Error> {
        Packer::new(&self.encrypted_files, &self.drafts, &self.packs, known)
    }

    pub(crate) fn trash(&self) -> Trash {
        Trash::read(&self.root.join("trash"))
    }

    fn manifest_path(&self, snapshot: Digest) -> PathBuf {
        self.manifests.join(snapshot.to_string())
    }

    /// Whether a manifest is stored as plain text although there is a key: it was written before
    /// the key.
    pub(crate) fn is_plaintext(&self, snapshot: Digest) -> Result<bool, Error> {
        let path = self.manifest_path(snapshot);
        let opened = self.encrypted_files.open(&path);
        let opened = opened.map_err(|error| Error::at(&path, error))?;
        Ok(self.encrypted_files.encrypts() && !opened.is_encrypted())
    }

    /// A manifest as it is stored: whole, or as changes since a parent.
    pub(crate) fn read_stored(&self, snapshot: Digest) -> Result<Stored, Error> {
        let path = self.manifest_path(snapshot);
        let damaged = |reason: &str| Error::damaged(format!("manifest {snapshot}"), reason);
        let bytes =
            self.encrypted_files
                .read(&path, delta::LONGEST)
                .map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => damaged("it is missing"),
                    io::ErrorKind::InvalidData => damaged(&error.to_string()),
                    _ => Error::at(&path, error),
                })?;
        Stored::decode(&bytes).map_err(|broken| damaged(broken.0))
    }

    /// The manifest of a listed snapshot.
    pub(crate) fn manifest(&self, snapshot: Digest) -> Result<Manifest, Error> {
        if self.is_listed(snapshot) {
            self.assemble(snapshot)
        } else {
            Err(Error::NoSnapshot(snapshot))
        }
    }

    /// Assembles a manifest from its stored changes and verifies it against its name.
    pub(crate) fn assemble(&self, snapshot: Digest) -> Result<Manifest, Error> {
        let whole = self.manifest_bytes(snapshot)?;
        Manifest::decode(&whole).map_err(|broken| Error::Hostile {
            snapshot,
            reason: broken.0.to_owned(),
        })
    }

    /// The bytes of a manifest, verified against its name.
    pub(crate) fn manifest_bytes(&self, snapshot: Digest) -> Result<Vec<u8>, Error> {
        let damaged =
            |name: Digest, reason: &str| Error::damaged(format!("manifest {name}"), reason);
        let mut chain: Vec<Changes> = Vec::new();
        let mut at = snapshot;
        let whole = loop {
            match self.read_stored(at)? {
                Stored::Whole(bytes) => break bytes,
                Stored::Changes {
                    parent, changes, ..
                } => {
                    chain.push(changes);
                    at = parent;
                }
            }
            if chain.len() > delta::CHAIN as usize {
                return Err(damaged(snapshot, "its chain of changes is too long"));
            }
        };
        if Digest::of(&whole) != at {
            return Err(damaged(at, "its content does not match its name"));
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
                "its merged changes do not match its name",
            ));
        }
        Ok(whole)
    }

    /// The bytes of a manifest file: as changes since a parent if they are few.
    pub(crate) fn encode_manifest(
        &self,
        whole: &[u8],
        changes: Option<(Digest, Changes)>,
    ) -> Result<Vec<u8>, Error> {
        let changes = changes.and_then(|(parent, changes)| self.delta_since(parent, changes));
        let stored = changes.unwrap_or_else(|| Stored::Whole(whole.to_vec()));
        let encoded = stored.encode();
        encoded.map_err(|error| Error::at(&self.manifests, error))
    }

    /// Writes a manifest file to the disk, still without a name.
    pub(crate) fn write_manifest_draft(&self, stored: &[u8]) -> Result<SyncedDraft, Error> {
        let write = || {
            let mut draft = self.encrypted_files.draft(&self.drafts)?;
            draft.write(stored)?;
            draft.sync()
        };
        write().map_err(|error: io::Error| Error::at(&self.drafts, error))
    }

    /// Gives a manifest file its name. The manifest is durable on return and listed once it has a
    /// head. Returns the size of the file.
    pub(crate) fn publish_manifest(
        &self,
        snapshot: Digest,
        settled: SyncedDraft,
    ) -> Result<u64, Error> {
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

    /// Stores a manifest without a parent.
    pub(crate) fn store_whole_manifest(
        &self,
        snapshot: Digest,
        whole: &[u8],
    ) -> Result<u64, Error> {
        let stored = self.encode_manifest(whole, None)?;
        self.publish_manifest(snapshot, self.write_manifest_draft(&stored)?)
    }

    /// The changes in their stored form; `None` if the chain of changes would become too long.
    fn delta_since(&self, parent: Digest, changes: Changes) -> Option<Stored> {
        let depth = self.depth(parent)? + 1;
        (depth < delta::CHAIN).then_some(Stored::Changes {
            parent,
            depth,
            changes,
        })
    }

    /// The number of changes between a manifest and the whole manifest at the start of its chain.
    fn depth(&self, snapshot: Digest) -> Option<u32> {
        let file = self
            .encrypted_files
            .open(&self.manifest_path(snapshot))
            .ok()?;
        let mut begin = [0; Stored::BEGIN];
        file.read_exact_at(&mut begin, 0).ok()?;
        if Stored::begins_whole(&begin) {
            return Some(0);
        }
        match self.read_stored(snapshot).ok()? {
            Stored::Whole(_) => Some(0),
            Stored::Changes { depth, .. } => Some(depth),
        }
    }

    /// Refreshes the timestamp of a listed snapshot. A capture that found it again is about to
    /// reference it, and garbage collection spares young snapshots (P8).
    pub(crate) fn touch_head(&self, snapshot: Digest) -> Result<(), Error> {
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
    pub(crate) fn write_head(&self, snapshot: Digest) -> Result<(), Error> {
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

    /// Unlists every snapshot except those in `kept` and those listed since `before`. Returns how
    /// many it unlisted. Does nothing while the store is in use.
    pub fn unlist_except(&self, kept: &[Digest], before: Timestamp) -> Result<u64, Error> {
        let Some(_lock) = self.try_lock_exclusive()? else {
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

    /// Unlists a snapshot. A later [`SnapshotStore::gc`] deletes what only this snapshot references.
    pub fn remove(&self, snapshot: Digest) -> Result<(), Error> {
        if !self.is_listed(snapshot) {
            return Err(Error::NoSnapshot(snapshot));
        }
        let path = self.heads.join(snapshot.to_string());
        let removed = files::remove(&path).and_then(|()| files::sync_folder(&self.heads));
        removed.map_err(|error| Error::at(&path, error))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test damages a pack")]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn trashed_and_damaged_packs_are_not_for_new_snapshots() {
        let folder = tempfile::tempdir().unwrap();
        let store = SnapshotStore::open(folder.path()).unwrap();
        let mut packs: Vec<Digest> = Vec::new();
        let mut put = |name: &str| {
            let file = (name.to_owned(), name.repeat(100).into_bytes());
            let snapshot = store.put_files(&[file]).unwrap();
            let names = store.pack_names().unwrap();
            let new: Vec<Digest> = names.into_iter().filter(|it| !packs.contains(it)).collect();
            packs.extend(&new);
            (snapshot, new[0])
        };
        let (gone, trashed) = put("trashed");
        let (_, damaged) = put("damaged");
        let (_, good) = put("good");
        store.remove(gone).unwrap();
        let swept = store.gc(Timestamp(1), Duration::from_hours(1)).unwrap();
        assert_eq!(swept.waiting, 2);
        let path = store.packs.join(damaged.to_string());
        let mut bytes = std::fs::read(&path).unwrap();
        let end = bytes.len() - 1;
        bytes[end] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let names = |pack_set: &PackSet| -> Vec<Digest> {
            pack_set.packs().iter().map(|pack| pack.name).collect()
        };
        let all = store.pack_set().unwrap();
        assert_eq!(names(&all), [good, trashed], "those in the trash come last");
        assert_eq!(names(&store.usable_packs().unwrap()), [good]);
        assert_eq!(store.undamaged_packs(&all).unwrap(), [good]);
    }
}
