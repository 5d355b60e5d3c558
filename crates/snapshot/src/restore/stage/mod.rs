//! The staging folder: restored files are written and checked here before they are moved to their
//! paths.

mod job;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::ScopedJoinHandle;

use rustix::fs::{AtFlags, FlockOperation, Mode};

use crate::entry::{Entry, Kind};
use crate::error::Error;
use crate::machine;
use crate::manifest::Manifest;
use crate::openat::{self, ParentCache, times};
use crate::pack::PackSet;
use crate::request::{Progress, Restore};
use crate::restore::Target;
use crate::restore::plan::{Action, Plan};
use crate::walk::STAGE;

use job::Job;

/// How many folders of one level are worth a thread.
const LEVEL: usize = 128;
/// With more files than this, one syncfs makes everything durable at once.
pub(crate) const MANY: u64 = 64;

/// A folder at the top of the target. It is removed on drop.
pub(crate) struct Stage<'a> {
    target: &'a Target<'a>,
    name: PathBuf,
    fd: OwnedFd,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(target: &'a Target<'a>) -> Result<Self, Error> {
        let chance = machine::random_bytes().map_err(|error| Error::at(target.place, error))?;
        let chance = u128::from_le_bytes(chance);
        let name = PathBuf::from(format!("{STAGE}{}-{chance:032x}", std::process::id()));
        let make = || {
            rustix::fs::mkdirat(target.fd(), &name, Mode::RWXU)?;
            let fd = openat::folder(target.fd(), &name)?;
            rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive)?;
            Ok(fd)
        };
        let fd = make().map_err(target.error_at(&name))?;
        Ok(Self { target, name, fd })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Removes the folder and reports errors, which drop does not.
    pub(crate) fn remove(self) -> Result<(), Error> {
        openat::remove_folder(self.target.fd(), &self.name)
            .map_err(self.target.error_at(&self.name))
    }

    /// Writes and checks everything that has to be written. Returns the number of bytes.
    pub(crate) fn fill(
        &self,
        manifest: &Manifest,
        plan: &Plan,
        pack_set: &PackSet,
        options: &Restore<'_>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<u64, Error> {
        let (mut folders, mut links, mut files) = (Vec::new(), Vec::new(), Vec::new());
        for (entry, action) in manifest.entries.iter().zip(&plan.actions) {
            let Action::Write { staged, .. } = action else {
                continue;
            };
            match &entry.kind {
                Kind::Folder => folders.push(&**staged),
                Kind::Link { target } => links.push((entry, &**staged, &**target)),
                Kind::File { .. } => files.push((entry, &**staged)),
                Kind::HardLink { .. } => {}
            }
        }
        self.make_folders(folders)?;
        let mut parent_cache = ParentCache::default();
        for (entry, staged, target) in links {
            self.make_link(&mut parent_cache, entry, staged, target)?;
        }
        // In the order of the packs, so that each block is unpacked once.
        files.sort_by_cached_key(|(entry, _)| {
            let first = entry.content().first();
            first.map(|chunk| pack_set.locate(&chunk.digest))
        });
        let bytes = Job::new(self, &files, pack_set, options, progress)?.run()?;
        // Everything that replaces something is durable before the replacement.
        if options.durable && files.len() as u64 > MANY && !plan.replaces_nothing {
            self.sync()?;
        }
        Ok(bytes)
    }

    /// Makes everything written so far durable.
    fn sync(&self) -> Result<(), Error> {
        rustix::fs::syncfs(&self.fd).map_err(self.target.error_at(&self.name))
    }

    /// Creates folders, level by level. Folders of one level are independent, so several threads
    /// can create them.
    fn make_folders(&self, mut folders: Vec<&Path>) -> Result<(), Error> {
        let depth = |folder: &&Path| folder.components().count();
        folders.sort_by_cached_key(depth);
        let make = |folders: &[&Path]| {
            let mut parent_cache = ParentCache::default();
            let mut folders = folders.iter();
            folders.try_for_each(|folder| self.make_folder(&mut parent_cache, folder))
        };
        for level in folders.chunk_by(|left, right| depth(left) == depth(right)) {
            let share = level.len().div_ceil(machine::workers()).max(LEVEL);
            let mut shares = level.chunks(share);
            let own = shares.next().unwrap_or_default();
            std::thread::scope(|scope| {
                let others: Vec<_> = shares
                    .map(|share| scope.spawn(move || make(share)))
                    .collect();
                let made = make(own);
                others
                    .into_iter()
                    .fold(made, |made, other| made.and(self.join(other)))
            })?;
        }
        Ok(())
    }

    /// The result of a thread.
    fn join(&self, thread: ScopedJoinHandle<'_, Result<(), Error>>) -> Result<(), Error> {
        let ended = || std::io::Error::other("a writer thread panicked");
        let lost = |_| Err(Error::at(self.target.place, ended()));
        thread.join().unwrap_or_else(lost)
    }

    fn make_folder<'p>(
        &self,
        parent_cache: &mut ParentCache<'p>,
        staged: &'p Path,
    ) -> Result<(), Error> {
        let mut make = || {
            let (folder, name) = parent_cache.parent(self.fd(), staged)?;
            rustix::fs::mkdirat(folder, name, Mode::RWXU)
        };
        make().map_err(self.target.error_at(staged))
    }

    fn make_link<'p>(
        &self,
        parent_cache: &mut ParentCache<'p>,
        entry: &Entry,
        staged: &'p Path,
        target: &Path,
    ) -> Result<(), Error> {
        let mut make = || {
            let (folder, name) = parent_cache.parent(self.fd(), staged)?;
            rustix::fs::symlinkat(target, folder, name)?;
            rustix::fs::utimensat(
                folder,
                name,
                &times(entry.modified),
                AtFlags::SYMLINK_NOFOLLOW,
            )
        };
        make().map_err(self.target.error_at(&entry.path))
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        if openat::remove_folder(self.target.fd(), &self.name).is_ok() {
            // The restore failed: not even the modification time shows that the stage existed.
            let _ = rustix::fs::futimens(self.target.fd(), &times(self.target.facts.modified));
        }
    }
}

/// Removes the stages of killed restores.
pub(crate) fn remove_stale_stages(target: &Target<'_>) {
    let Ok(names) = crate::files::names(target.place) else {
        return;
    };
    for name in names {
        let writer = name
            .to_str()
            .and_then(|name| name.strip_prefix(STAGE)?.split('-').next()?.parse().ok())
            .and_then(rustix::process::Pid::from_raw);
        let Some(pid) = writer else { continue };
        if rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH) {
            continue;
        }
        let Ok(fd) = openat::folder(target.fd(), Path::new(&name)) else {
            continue;
        };
        if rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = openat::remove_folder(target.fd(), Path::new(&name));
        }
    }
}
