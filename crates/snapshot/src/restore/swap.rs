//! Moves staged files to their paths. Everything that is moved was checked before.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode};
use rustix::io::{Errno, Result};
use segno_core::fault::{Point, point};

use crate::entry::{Entry, Kind};
use crate::error::Error;
use crate::machine;
use crate::manifest::Manifest;
use crate::openat::{self, Facts, times};
use crate::request::Restore;
use crate::restore::plan::{Action, Plan, Removal};
use crate::restore::stage::{MANY, Stage};
use crate::restore::{Target, mode};

/// Removes what has to go and moves what was staged. Returns the removed paths.
pub(crate) fn run(
    manifest: &Manifest,
    plan: &Plan,
    target: &Target<'_>,
    stage: &Stage<'_>,
    options: &Restore<'_>,
) -> std::result::Result<Vec<PathBuf>, Error> {
    let swap = Swap {
        target,
        stage,
        options,
    };
    let mut removed = Vec::new();
    for (path, removal) in &plan.removals {
        let gone = swap.remove(path, *removal).map_err(target.error_at(path))?;
        point(Point::RestoreAfterMove);
        if gone && !plan.replaced.contains(path) {
            removed.push(path.clone());
        }
    }
    removed.reverse();
    for (entry, action) in manifest.entries.iter().zip(&plan.actions) {
        let done = match action {
            Action::Write {
                staged,
                moves: true,
            } => swap.move_staged(staged, &entry.path),
            Action::Keep { fix_metadata: true } if entry.kind != Kind::Folder => {
                swap.fix_metadata(entry)
            }
            _ => continue,
        };
        done.map_err(target.error_at(&entry.path))?;
        point(Point::RestoreAfterMove);
    }
    for (entry, action) in manifest.entries.iter().zip(&plan.actions) {
        if let (Kind::HardLink { of }, Action::Link) = (&entry.kind, action) {
            swap.link(of, &entry.path)
                .map_err(target.error_at(&entry.path))?;
            point(Point::RestoreAfterMove);
        }
    }
    Ok(removed)
}

struct Swap<'a> {
    target: &'a Target<'a>,
    stage: &'a Stage<'a>,
    options: &'a Restore<'a>,
}

impl Swap<'_> {
    /// True if the path is gone. A folder that is not empty stays.
    fn remove(&self, path: &Path, removal: Removal) -> Result<bool> {
        let (folder, name) = match self.open_parent(path) {
            Err(Errno::NOENT) => return Ok(true),
            other => other?,
        };
        let flags = match removal {
            Removal::File => AtFlags::empty(),
            Removal::Folder => AtFlags::REMOVEDIR,
        };
        match rustix::fs::unlinkat(folder, name, flags) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens the parent folder of a path and makes it writable; its mode is set again later.
    fn open_parent<'p>(
        &self,
        path: &'p Path,
    ) -> Result<(std::os::fd::OwnedFd, &'p std::ffi::OsStr)> {
        let (folder, name) = openat::parent(self.target.fd(), path)?;
        let mode = Facts::of(&folder)?.mode;
        if mode & 0o700 != 0o700 {
            let _ = rustix::fs::fchmod(&folder, Mode::from_raw_mode(mode | 0o700));
        }
        Ok((folder, name))
    }

    fn move_staged(&self, staged: &Path, path: &Path) -> Result<()> {
        let (folder, name) = self.open_parent(path)?;
        rustix::fs::renameat(self.stage.fd(), staged, folder, name)
    }

    /// Sets mode, time and attributes of an entry whose content is right.
    fn fix_metadata(&self, entry: &Entry) -> Result<()> {
        if let Kind::Link { .. } = entry.kind {
            let (folder, name) = openat::parent(self.target.fd(), &entry.path)?;
            return rustix::fs::utimensat(
                folder,
                name,
                &times(entry.modified),
                AtFlags::SYMLINK_NOFOLLOW,
            );
        }
        if let Kind::HardLink { .. } = entry.kind {
            return Ok(());
        }
        let file = openat::file(self.target.fd(), &entry.path)?;
        set_metadata(&file, entry, self.options)
    }

    /// Creates the link under another name first, so that the rename replaces what is there in one
    /// step.
    fn link(&self, of: &Path, path: &Path) -> Result<()> {
        let (from, leader) = openat::parent(self.target.fd(), of)?;
        rustix::fs::linkat(from, leader, self.stage.fd(), "twin", AtFlags::empty())?;
        let (folder, name) = self.open_parent(path)?;
        let moved = rustix::fs::renameat(self.stage.fd(), "twin", folder, name);
        // Renaming one name of a file over another one does nothing at all.
        let _ = rustix::fs::unlinkat(self.stage.fd(), "twin", AtFlags::empty());
        moved
    }
}

fn set_metadata(fd: &std::os::fd::OwnedFd, entry: &Entry, options: &Restore<'_>) -> Result<()> {
    match openat::set_attributes(fd, &entry.attributes) {
        Err(Errno::NOTSUP) if entry.attributes.is_empty() => {}
        other => other?,
    }
    let facts = Facts::of(fd)?;
    let wanted = mode(entry, options);
    if facts.mode != wanted.as_raw_mode() {
        rustix::fs::fchmod(fd, wanted)?;
    }
    if facts.modified != entry.modified {
        rustix::fs::futimens(fd, &times(entry.modified))?;
    }
    Ok(())
}

/// Sets modes and times of folders, the deepest first, and makes everything durable.
pub(crate) fn finish(
    manifest: &Manifest,
    plan: &Plan,
    target: &Target<'_>,
    options: &Restore<'_>,
) -> std::result::Result<(), Error> {
    let folders = manifest
        .entries
        .iter()
        .filter(|entry| entry.kind == Kind::Folder);
    for entry in folders.rev() {
        let done = openat::folder(target.fd(), &entry.path)
            .and_then(|fd| set_metadata(&fd, entry, options));
        done.map_err(target.error_at(&entry.path))?;
    }
    let root = set_metadata(&target.fd, &manifest.root, options);
    root.map_err(target.error_at(Path::new("")))?;
    if options.durable {
        sync(manifest, plan, target).map_err(target.error_at(Path::new("")))?;
    }
    Ok(())
}

fn sync(manifest: &Manifest, plan: &Plan, target: &Target<'_>) -> Result<()> {
    if plan.written(manifest) > MANY || plan.removals.len() as u64 > MANY {
        return rustix::fs::syncfs(&target.fd);
    }
    let touched = manifest.entries.iter().zip(&plan.actions);
    let touched = touched.filter(|(_, action)| {
        !matches!(
            action,
            Action::Keep {
                fix_metadata: false
            }
        )
    });
    let mut folders = BTreeSet::from([Path::new("")]);
    for (entry, _) in touched {
        folders.extend(entry.path.parent());
        if entry.kind == Kind::Folder {
            folders.insert(&entry.path);
        }
    }
    folders.extend(plan.removals.iter().filter_map(|(path, _)| path.parent()));
    let folders: Vec<&Path> = folders.into_iter().collect();
    machine::for_each_parallel(&folders, |path| match openat::folder(target.fd(), path) {
        Ok(folder) => rustix::fs::fsync(folder),
        Err(Errno::NOENT | Errno::ACCESS) => Ok(()),
        Err(error) => Err(error),
    })
}
