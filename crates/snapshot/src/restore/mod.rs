//! Bringing a snapshot back.
//!
//! First everything that differs is written and checked in a folder of its own inside the target;
//! a damaged vault or a full disk is noticed there, and the target is as it was. Then files are
//! moved into their places, each in one step. A restore that was interrupted is simply repeated.
//!
//! P5: nothing is ever opened through a link, whoever planted it and whenever.

mod inert;
mod narrow;
mod plan;
mod stage;
mod swap;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use segno_core::digest::Digest;
use segno_core::fault::{Point, point};

use crate::beneath::{self, Facts};
use crate::entry::{Entry, Kind};
use crate::error::Error;
use crate::index::{self, Index};
use crate::machine;
use crate::manifest::Manifest;
use crate::pack::Shelf;
use crate::request::{Progress, Restore, Restored, Trust};
use crate::vault::Vault;
use crate::walk::guard;

use narrow::Narrow;
use plan::{Plan, There};
use stage::Stage;

/// The longest settings of a git folder that are looked at.
const SETTINGS: u64 = 1024 * 1024;

impl Vault {
    /// Makes `into` what the snapshot says, writing only what differs. The folder is made if it is
    /// not there. Until everything that has to be written is there and checked, nothing in the
    /// target is changed.
    pub fn restore(
        &self,
        snapshot: Digest,
        into: &Path,
        options: &Restore<'_>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Restored, Error> {
        // Nobody deletes what is being read.
        let _held = self.hold()?;
        let narrow = || self.narrow(snapshot, into, options);
        let (narrow, shelf) = machine::both(true, narrow, || self.shelf());
        let (narrow, shelf) = (narrow?, shelf?);
        if let Some(narrow) = narrow {
            check_limit(narrow.bytes, into, options)?;
            let place = guard(into, options.home)?;
            let target = Target::open(&place)?;
            stage::sweep(&target);
            let there = narrow.look(&target)?;
            let restored = carry_out(&narrow.manifest, &there, &target, &shelf, options, progress)?;
            return Ok(Restored {
                unchanged: restored.unchanged + narrow.same,
                skipped: narrow.manifest.skipped,
                ..restored
            });
        }
        let (manifest, set_aside) = self.wanted(snapshot, options)?;
        let bytes = manifest.entries.iter().map(Entry::size);
        check_limit(bytes.fold(0, u64::saturating_add), into, options)?;
        std::fs::DirBuilder::new()
            .recursive(true)
            .create(into)
            .map_err(|error| Error::at(into, error))?;
        let place = guard(into, options.home)?;
        let target = Target::open(&place)?;
        stage::sweep(&target);
        let index = index::place(&self.index, &place, target.facts.device);
        let index = Index::read(&self.safe, &index);
        let there = plan::look(&manifest, &target, &index, self, options)?;
        let restored = carry_out(&manifest, &there, &target, &shelf, options, progress)?;
        self.add_harmless_settings(snapshot, &manifest, &set_aside, &target)?;
        Ok(Restored {
            skipped: manifest.skipped,
            set_aside,
            ..restored
        })
    }

    /// What is left to do, if a snapshot of the target was taken a moment ago. One that is not
    /// trusted fully is not restored as it is.
    fn narrow(
        &self,
        snapshot: Digest,
        into: &Path,
        options: &Restore<'_>,
    ) -> Result<Option<Narrow>, Error> {
        let seen = options.seen.filter(|_| options.trust == Trust::Full);
        let Some(seen) = seen.filter(|_| self.is_kept(snapshot)) else {
            return Ok(None);
        };
        let wanted = || self.whole(snapshot);
        let (wanted, seen) = machine::both(true, wanted, || self.seen(seen, into));
        narrow::narrow(&wanted?, &seen?).map_err(|broken| Error::Hostile {
            snapshot,
            reason: broken.0.to_owned(),
        })
    }

    /// The manifest of a snapshot that was just taken of a folder: the index of the folder has it.
    fn seen(&self, snapshot: Digest, folder: &Path) -> Result<Vec<u8>, Error> {
        let look = || {
            let place = std::fs::canonicalize(folder).ok()?;
            let facts = beneath::root(&place).and_then(Facts::of).ok()?;
            let index = index::place(&self.index, &place, facts.device);
            index::manifest(&self.safe, &index, snapshot)
        };
        look().map_or_else(|| self.whole(snapshot), Ok)
    }

    /// What is to be restored, and what of it gets another name.
    fn wanted(
        &self,
        snapshot: Digest,
        options: &Restore<'_>,
    ) -> Result<(Manifest, Vec<PathBuf>), Error> {
        let manifest = self.manifest(snapshot)?;
        if options.trust == Trust::Full {
            return Ok((manifest, Vec::new()));
        }
        let (manifest, set_aside) = inert::set_aside(manifest);
        manifest.check().map_err(|broken| Error::Hostile {
            snapshot,
            reason: broken.0.to_owned(),
        })?;
        Ok((manifest, set_aside))
    }

    /// A git folder whose settings were set aside gets those of them that can do no harm, unless it
    /// has some.
    fn add_harmless_settings(
        &self,
        snapshot: Digest,
        manifest: &Manifest,
        set_aside: &[PathBuf],
        target: &Target<'_>,
    ) -> Result<(), Error> {
        let name = OsStr::new("config");
        for path in set_aside
            .iter()
            .filter(|path| path.file_name() == Some(name))
        {
            let aside = manifest.find(&inert::aside(path));
            let short = |entry: &Entry| entry.size() <= SETTINGS && !entry.content().is_empty();
            if !aside.is_some_and(short) {
                continue;
            }
            // Where git is not there to read it, a repository does without.
            let Ok(content) = crate::git::harmless(&self.read(snapshot, path)?) else {
                continue;
            };
            let (folder, name) =
                beneath::parent(target.fd(), path).map_err(target.trouble(path))?;
            let made = match beneath::create(folder.as_fd(), name) {
                Err(Errno::EXIST) => continue,
                made => made.map_err(target.trouble(path))?,
            };
            let mut file = File::from(made);
            let written = file.write_all(&content).and_then(|()| file.sync_all());
            written.map_err(|error| Error::at(&target.place.join(path), error))?;
        }
        Ok(())
    }
}

/// Does what has to be done to get from what is there to what the manifest says.
fn carry_out(
    manifest: &Manifest,
    there: &HashMap<PathBuf, There>,
    target: &Target<'_>,
    shelf: &Shelf,
    options: &Restore<'_>,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Restored, Error> {
    let plan = Plan::new(manifest, target, there, options)?;
    let stage = Stage::new(target)?;
    let bytes = stage.fill(manifest, &plan, shelf, options, progress)?;
    point(Point::RestoreAfterStage);
    let removed = swap::run(manifest, &plan, target, &stage, options)?;
    stage.remove()?;
    point(Point::RestoreBeforeFinish);
    swap::finish(manifest, &plan, target, options)?;
    let unstable = |entry: &&Entry| matches!(entry.kind, Kind::File { unstable: true, .. });
    let unstable = manifest.entries.iter().filter(unstable);
    Ok(Restored {
        written: plan.written(manifest),
        bytes,
        unchanged: plan.unchanged(manifest),
        removed,
        unstable: unstable.map(|entry| entry.path.clone()).collect(),
        ..Restored::default()
    })
}

fn check_limit(bytes: u64, into: &Path, options: &Restore<'_>) -> Result<(), Error> {
    if options.limit.is_some_and(|limit| bytes > limit) {
        return Err(Error::Refused {
            place: into.to_owned(),
            reason: "the snapshot has more bytes than are allowed",
        });
    }
    Ok(())
}

/// The folder that is restored into.
struct Target<'a> {
    place: &'a Path,
    fd: OwnedFd,
    facts: Facts,
}

impl<'a> Target<'a> {
    fn open(place: &'a Path) -> Result<Self, Error> {
        let trouble = |error| Error::at(place, error);
        let fd = beneath::root(place).map_err(trouble)?;
        let facts = Facts::of(&fd).map_err(trouble)?;
        Ok(Self { place, fd, facts })
    }

    fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// What a failed operation on something in the target means.
    fn trouble(&self, path: &Path) -> impl Fn(rustix::io::Errno) -> Error {
        let place = self.place.join(path);
        move |error| Error::at(&place, error)
    }
}

/// The permission bits that are set.
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
    fn a_hostile_manifest_is_refused_before_anything_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let vault = Vault::open(&folder.path().join("vault")).expect("a vault");
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
        vault.store_whole(snapshot, &whole).expect("it is stored");
        vault.list_as_kept(snapshot).expect("it is listed");
        let target = folder.path().join("target");
        let options = Restore::default();
        let refused = vault.restore(snapshot, &target, &options, &|_| {});
        assert!(matches!(refused, Err(Error::Hostile { .. })), "{refused:?}");
        assert!(!target.exists());
    }

    /// Many names of one small piece: little in the vault, endless on the disk.
    #[test]
    fn a_snapshot_with_more_bytes_than_allowed_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let vault = Vault::open(&folder.path().join("vault")).expect("a vault");
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
        vault.store_whole(snapshot, &whole).expect("it is stored");
        vault.list_as_kept(snapshot).expect("it is listed");
        let options = Restore {
            limit: Some(2999),
            ..Restore::default()
        };
        let target = folder.path().join("target");
        let refused = vault.restore(snapshot, &target, &options, &|_| {});
        assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
        assert!(!target.exists());
    }
}
