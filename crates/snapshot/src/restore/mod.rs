//! Restores a snapshot.
//!
//! First, everything that differs is written and checked in a staging folder inside the target. A
//! damaged store or a full disk is noticed there, while the target is unchanged. Then files are
//! moved to their paths, each in one atomic step. An interrupted restore is simply repeated.
//!
//! P5: no file is ever opened through a link, no matter who created it and when.

mod disarm;
mod plan;
mod restore_diff;
mod stage;
mod swap;

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use segno_core::digest::Digest;
use segno_core::fault::{Point, point};

use crate::entry::{Entry, Kind};
use crate::error::Error;
use crate::index::{self, Index};
use crate::machine;
use crate::manifest::Manifest;
use crate::openat::{self, Facts};
use crate::pack::PackSet;
use crate::request::{Progress, Restore, RestoreReport, Trust};
use crate::snapshot_store::SnapshotStore;
use crate::walk::guard;

use disarm::Disarmed;
use plan::{Existing, Plan};
use restore_diff::RestoreDiff;
use stage::Stage;

/// The largest git configuration that is read.
const SETTINGS: u64 = 1024 * 1024;

impl SnapshotStore {
    /// Makes `into` what the snapshot says, writing only what differs. Creates the folder if it is
    /// missing. Changes nothing in the target until everything that has to be written is staged and
    /// checked.
    pub fn restore(
        &self,
        snapshot: Digest,
        into: &Path,
        options: &Restore<'_>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<RestoreReport, Error> {
        self.own.check(into, options.folder_use)?;
        // The shared lock keeps others from deleting what is being read.
        let _lock = self.lock_shared()?;
        let diff = || self.restore_diff(snapshot, into, options);
        let (diff, pack_set) = machine::join(true, diff, || self.pack_set());
        let (diff, pack_set) = (diff?, pack_set?);
        if let Some(diff) = diff {
            check_limit(diff.bytes, into, options)?;
            let place = self.guard_target(into, options)?;
            let target = Target::open(&place)?;
            stage::remove_stale_stages(&target);
            let existing = diff.existing(&target)?;
            let restored = execute(
                &diff.manifest,
                &existing,
                &target,
                &pack_set,
                options,
                progress,
            )?;
            return Ok(RestoreReport {
                unchanged: restored.unchanged + diff.same,
                skipped: diff.manifest.skipped,
                ..restored
            });
        }
        let Disarmed {
            manifest,
            paths,
            git_configs,
        } = match options.trust {
            Trust::Full => Disarmed::nothing(self.manifest(snapshot)?),
            Trust::Content => self.disarm(snapshot, into)?,
        };
        let bytes = manifest.entries.iter().map(Entry::size);
        check_limit(bytes.fold(0, u64::saturating_add), into, options)?;
        std::fs::DirBuilder::new()
            .recursive(true)
            .create(into)
            .map_err(|error| Error::at(into, error))?;
        let place = self.guard_target(into, options)?;
        let target = Target::open(&place)?;
        stage::remove_stale_stages(&target);
        let index = index::index_path(&self.index, &place, target.facts.device);
        let index = Index::read(&self.encrypted_files, &index);
        let existing = plan::read_target(&manifest, &target, &index, self, options)?;
        let restored = execute(&manifest, &existing, &target, &pack_set, options, progress)?;
        self.add_safe_git_config(snapshot, &manifest, &git_configs, &target)?;
        Ok(RestoreReport {
            skipped: manifest.skipped,
            disarmed: paths,
            ..restored
        })
    }

    /// Refuses a folder that is never restored into. Returns its path without links.
    fn guard_target(&self, into: &Path, options: &Restore<'_>) -> Result<PathBuf, Error> {
        let place = guard(into, options.home)?;
        self.own.check(&place, options.folder_use)?;
        Ok(place)
    }

    /// The difference to a snapshot of the target that was just taken, if there is one. Only for
    /// fully trusted snapshots: others are not restored as they are.
    fn restore_diff(
        &self,
        snapshot: Digest,
        into: &Path,
        options: &Restore<'_>,
    ) -> Result<Option<RestoreDiff>, Error> {
        let seen = options
            .target_snapshot
            .filter(|_| options.trust == Trust::Full);
        let Some(seen) = seen.filter(|_| self.is_listed(snapshot)) else {
            return Ok(None);
        };
        let wanted = || self.manifest_bytes(snapshot);
        let (wanted, seen) = machine::join(true, wanted, || self.captured_manifest(seen, into));
        restore_diff::diff(&wanted?, &seen?).map_err(|broken| Error::Hostile {
            snapshot,
            reason: broken.0.to_owned(),
        })
    }

    /// The manifest of a snapshot that was just taken of a folder. The index of the folder contains
    /// it.
    fn captured_manifest(&self, snapshot: Digest, folder: &Path) -> Result<Vec<u8>, Error> {
        let read = || {
            let place = std::fs::canonicalize(folder).ok()?;
            let facts = openat::root(&place).and_then(Facts::of).ok()?;
            let index = index::index_path(&self.index, &place, facts.device);
            index::manifest(&self.encrypted_files, &index, snapshot)
        };
        read().map_or_else(|| self.manifest_bytes(snapshot), Ok)
    }

    /// The paths of a snapshot that a restore into `into` would disarm.
    pub fn disarmed_paths(&self, snapshot: Digest, into: &Path) -> Result<Vec<PathBuf>, Error> {
        Ok(self.disarm(snapshot, into)?.paths)
    }

    /// The manifest of a snapshot without anything that could start a program.
    fn disarm(&self, snapshot: Digest, into: &Path) -> Result<Disarmed, Error> {
        let in_target = |path: &Path| into.join(path).symlink_metadata().is_ok();
        let disarmed = disarm::disarm(self.manifest(snapshot)?, &in_target);
        let checked = disarmed.manifest.check();
        checked.map_err(|broken| Error::Hostile {
            snapshot,
            reason: broken.0.to_owned(),
        })?;
        Ok(disarmed)
    }

    /// Gives each git folder whose configuration was disarmed the harmless part of it, with its
    /// remotes and branches, unless it already has a configuration.
    fn add_safe_git_config(
        &self,
        snapshot: Digest,
        manifest: &Manifest,
        git_configs: &[(PathBuf, PathBuf)],
        target: &Target<'_>,
    ) -> Result<(), Error> {
        for (path, disarmed) in git_configs {
            let short = |entry: &Entry| entry.size() <= SETTINGS && !entry.content().is_empty();
            if !manifest.find(disarmed).is_some_and(short) {
                continue;
            }
            // Without git to read the configuration, the repository gets none.
            let Ok(content) = crate::git::safe_config(&self.read(snapshot, path)?) else {
                continue;
            };
            let (folder, name) =
                openat::parent(target.fd(), path).map_err(target.error_at(path))?;
            let made = match openat::create(folder.as_fd(), name) {
                Err(Errno::EXIST) => continue,
                made => made.map_err(target.error_at(path))?,
            };
            let mut file = File::from(made);
            let written = file.write_all(&content).and_then(|()| file.sync_all());
            written.map_err(|error| Error::at(&target.place.join(path), error))?;
        }
        Ok(())
    }
}

/// Executes the plan that turns what is in the target into what the manifest says.
fn execute(
    manifest: &Manifest,
    existing: &HashMap<PathBuf, Existing>,
    target: &Target<'_>,
    pack_set: &PackSet,
    options: &Restore<'_>,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<RestoreReport, Error> {
    let plan = Plan::new(manifest, target, existing, options)?;
    let stage = Stage::new(target)?;
    let bytes = stage.fill(manifest, &plan, pack_set, options, progress)?;
    point(Point::RestoreAfterStage);
    let removed = swap::run(manifest, &plan, target, &stage, options)?;
    stage.remove()?;
    point(Point::RestoreBeforeFinish);
    swap::finish(manifest, &plan, target, options)?;
    let unstable = |entry: &&Entry| matches!(entry.kind, Kind::File { unstable: true, .. });
    let unstable = manifest.entries.iter().filter(unstable);
    Ok(RestoreReport {
        written: plan.written(manifest),
        bytes,
        unchanged: plan.unchanged(manifest),
        removed,
        unstable: unstable.map(|entry| entry.path.clone()).collect(),
        ..RestoreReport::default()
    })
}

fn check_limit(bytes: u64, into: &Path, options: &Restore<'_>) -> Result<(), Error> {
    if options.limit.is_some_and(|limit| bytes > limit) {
        return Err(Error::Refused {
            place: into.to_owned(),
            reason: "the snapshot exceeds the allowed number of bytes",
        });
    }
    Ok(())
}

struct Target<'a> {
    place: &'a Path,
    fd: OwnedFd,
    facts: Facts,
}

impl<'a> Target<'a> {
    fn open(place: &'a Path) -> Result<Self, Error> {
        let to_error = |error| Error::at(place, error);
        let fd = openat::root(place).map_err(to_error)?;
        let facts = Facts::of(&fd).map_err(to_error)?;
        Ok(Self { place, fd, facts })
    }

    fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Converts the error of an operation on a path in the target.
    fn error_at(&self, path: &Path) -> impl Fn(rustix::io::Errno) -> Error {
        let place = self.place.join(path);
        move |error| Error::at(&place, error)
    }
}

/// The permission bits to set.
fn mode(entry: &Entry, options: &Restore<'_>) -> rustix::fs::Mode {
    let allowed = if options.privileges { 0o7777 } else { 0o1777 };
    rustix::fs::Mode::from_raw_mode(entry.mode & allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Chunk;

    /// A manifest that no capture writes, but whose name and checksums are right.
    #[test]
    fn hostile_manifest_is_refused_before_writing() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SnapshotStore::open(&folder.path().join("store")).expect("a snapshot store");
        let outside = folder.path().join("outside");
        let link = Kind::Link { target: outside };
        let empty = Kind::File {
            size: 0,
            content: Vec::new(),
            unstable: false,
        };
        let manifest = Manifest {
            root: Entry::plain("", Kind::Folder),
            entries: vec![Entry::plain("a", link), Entry::plain("a/b", empty)],
            skipped: Vec::new(),
        };
        let whole = manifest.encode();
        let snapshot = Digest::of(&whole);
        store
            .store_whole_manifest(snapshot, &whole)
            .expect("it is stored");
        store.write_head(snapshot).expect("it is listed");
        let target = folder.path().join("target");
        let options = Restore::default();
        let refused = store.restore(snapshot, &target, &options, &|_| {});
        assert!(matches!(refused, Err(Error::Hostile { .. })), "{refused:?}");
        assert!(!target.exists());
    }

    /// Many references to one small chunk: little in the store, a huge file on the disk.
    #[test]
    fn restore_refuses_more_bytes_than_the_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SnapshotStore::open(&folder.path().join("store")).expect("a snapshot store");
        let chunk = Chunk {
            digest: Digest::of(b"abc"),
            length: 3,
        };
        let bomb = Kind::File {
            size: 3000,
            content: vec![chunk; 1000],
            unstable: false,
        };
        let manifest = Manifest {
            root: Entry::plain("", Kind::Folder),
            entries: vec![Entry::plain("bomb", bomb)],
            skipped: Vec::new(),
        };
        let whole = manifest.encode();
        let snapshot = Digest::of(&whole);
        store
            .store_whole_manifest(snapshot, &whole)
            .expect("it is stored");
        store.write_head(snapshot).expect("it is listed");
        let options = Restore {
            limit: Some(2999),
            ..Restore::default()
        };
        let target = folder.path().join("target");
        let refused = store.restore(snapshot, &target, &options, &|_| {});
        assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
        assert!(!target.exists());
    }
}
