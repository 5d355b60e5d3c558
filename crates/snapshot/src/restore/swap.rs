//! Moves what was staged into its place. Everything that is moved was checked.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode};
use rustix::io::{Errno, Result};
use segno_core::fault::{Point, point};

use crate::beneath::{self, Facts, times};
use crate::entry::{Entry, Kind};
use crate::error::Error;
use crate::machine;
use crate::manifest::Manifest;
use crate::request::Restore;
use crate::restore::plan::{Act, Plan, Removal};
use crate::restore::stage::{MANY, Stage};
use crate::restore::{Target, mode};

/// Removes what has to go, and moves what was staged. Returns what was removed.
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
        let gone = swap.remove(path, *removal).map_err(target.trouble(path))?;
        point(Point::RestoreAfterMove);
        if gone && !plan.replaced.contains(path) {
            removed.push(path.clone());
        }
    }
    removed.reverse();
    for (entry, act) in manifest.entries.iter().zip(&plan.acts) {
        let done = match act {
            Act::Write {
                staged,
                moves: true,
            } => swap.place(staged, &entry.path),
            Act::Keep { mend: true } if entry.kind != Kind::Folder => swap.mend(entry),
            _ => continue,
        };
        done.map_err(target.trouble(&entry.path))?;
        point(Point::RestoreAfterMove);
    }
    for (entry, act) in manifest.entries.iter().zip(&plan.acts) {
        if let (Kind::Twin { of }, Act::Link) = (&entry.kind, act) {
            swap.link(of, &entry.path)
                .map_err(target.trouble(&entry.path))?;
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
    /// True if it is gone; a folder that still has something in it stays.
    fn remove(&self, path: &Path, removal: Removal) -> Result<bool> {
        let (folder, name) = match self.open_up(path) {
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

    /// The folder that something is in, made writable if it was not; its mode is set again later.
    fn open_up<'p>(&self, path: &'p Path) -> Result<(std::os::fd::OwnedFd, &'p std::ffi::OsStr)> {
        let (folder, name) = beneath::parent(self.target.fd(), path)?;
        let mode = Facts::of(&folder)?.mode;
        if mode & 0o700 != 0o700 {
            let _ = rustix::fs::fchmod(&folder, Mode::from_raw_mode(mode | 0o700));
        }
        Ok((folder, name))
    }

    fn place(&self, staged: &Path, path: &Path) -> Result<()> {
        let (folder, name) = self.open_up(path)?;
        rustix::fs::renameat(self.stage.fd(), staged, folder, name)
    }

    /// Sets what is not as it should be on something whose content is.
    fn mend(&self, entry: &Entry) -> Result<()> {
        if let Kind::Link { .. } = entry.kind {
            let (folder, name) = beneath::parent(self.target.fd(), &entry.path)?;
            return rustix::fs::utimensat(
                folder,
                name,
                &times(entry.modified),
                AtFlags::SYMLINK_NOFOLLOW,
            );
        }
        if let Kind::Twin { .. } = entry.kind {
            return Ok(());
        }
        let file = beneath::file(self.target.fd(), &entry.path)?;
        set(&file, entry, self.options)
    }

    /// Links by another name first, so that what is there is replaced in one step.
    fn link(&self, of: &Path, path: &Path) -> Result<()> {
        let (from, leader) = beneath::parent(self.target.fd(), of)?;
        rustix::fs::linkat(from, leader, self.stage.fd(), "twin", AtFlags::empty())?;
        let (folder, name) = self.open_up(path)?;
        let moved = rustix::fs::renameat(self.stage.fd(), "twin", folder, name);
        // Renaming one name of a file over another does nothing at all.
        let _ = rustix::fs::unlinkat(self.stage.fd(), "twin", AtFlags::empty());
        moved
    }
}

fn set(fd: &std::os::fd::OwnedFd, entry: &Entry, options: &Restore<'_>) -> Result<()> {
    match beneath::set_attributes(fd, &entry.attributes) {
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

/// Gives folders their modes and times, the deepest first, and makes everything durable.
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
        let done =
            beneath::folder(target.fd(), &entry.path).and_then(|fd| set(&fd, entry, options));
        done.map_err(target.trouble(&entry.path))?;
    }
    let root = set(&target.fd, &manifest.root, options);
    root.map_err(target.trouble(Path::new("")))?;
    if options.durable {
        sync(manifest, plan, target).map_err(target.trouble(Path::new("")))?;
    }
    Ok(())
}

fn sync(manifest: &Manifest, plan: &Plan, target: &Target<'_>) -> Result<()> {
    if plan.written(manifest) > MANY || plan.removals.len() as u64 > MANY {
        return rustix::fs::syncfs(&target.fd);
    }
    let touched = manifest.entries.iter().zip(&plan.acts);
    let touched = touched.filter(|(_, act)| !matches!(act, Act::Keep { mend: false }));
    let mut folders = BTreeSet::from([Path::new("")]);
    for (entry, _) in touched {
        folders.extend(entry.path.parent());
        if entry.kind == Kind::Folder {
            folders.insert(&entry.path);
        }
    }
    folders.extend(plan.removals.iter().filter_map(|(path, _)| path.parent()));
    let folders: Vec<&Path> = folders.into_iter().collect();
    machine::each_at_once(&folders, |path| match beneath::folder(target.fd(), path) {
        Ok(folder) => rustix::fs::fsync(folder),
        Err(Errno::NOENT | Errno::ACCESS) => Ok(()),
        Err(error) => Err(error),
    })
}
