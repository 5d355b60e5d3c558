//! Where what is restored is written and checked before anything is moved into its place.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rustix::fs::{AtFlags, FlockOperation, Mode};

use crate::beneath::{self, times};
use crate::entry::{Entry, Kind};
use crate::error::Error;
use crate::machine;
use crate::manifest::Manifest;
use crate::pack::{Cursor, Shelf};
use crate::request::{Progress, Restore};
use crate::restore::plan::{Act, Plan};
use crate::restore::{Target, mode};
use crate::walk::STAGE;

/// How many files a thread takes at once: enough that two threads seldom work in one folder.
const BATCH: usize = 256;
/// With more files than this, the whole file system is made durable at once.
pub(crate) const MANY: u64 = 64;

/// A folder at the top of the target. It goes when it is dropped.
pub(crate) struct Stage<'a> {
    target: &'a Target<'a>,
    name: PathBuf,
    fd: OwnedFd,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(target: &'a Target<'a>) -> Result<Self, Error> {
        let chance = machine::chance().map_err(|error| Error::at(target.place, error))?;
        let chance = u128::from_le_bytes(chance);
        let name = PathBuf::from(format!("{STAGE}{}-{chance:032x}", std::process::id()));
        let make = || {
            rustix::fs::mkdirat(target.fd(), &name, Mode::RWXU)?;
            let fd = beneath::folder(target.fd(), &name)?;
            rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive)?;
            Ok(fd)
        };
        let fd = make().map_err(target.trouble(&name))?;
        Ok(Self { target, name, fd })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Removes it, and says if that did not work.
    pub(crate) fn remove(self) -> Result<(), Error> {
        beneath::remove_folder(self.target.fd(), &self.name)
            .map_err(self.target.trouble(&self.name))
    }

    /// Writes and checks everything that has to be written. Returns how many bytes that were.
    pub(crate) fn fill(
        &self,
        manifest: &Manifest,
        plan: &Plan,
        shelf: &Shelf,
        options: &Restore<'_>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<u64, Error> {
        let mut files: Vec<(&Entry, &Path)> = Vec::new();
        for (entry, act) in manifest.entries.iter().zip(&plan.acts) {
            let Act::Write { staged, .. } = act else {
                continue;
            };
            match &entry.kind {
                Kind::Folder => self.make_folder(staged)?,
                Kind::Link { target } => self.make_link(entry, staged, target)?,
                Kind::File { .. } => files.push((entry, staged)),
                Kind::Twin { .. } => {}
            }
        }
        // In the order of the packs, so that each block is unpacked once.
        files.sort_by_key(|(entry, _)| {
            entry
                .content()
                .first()
                .map(|chunk| shelf.place(&chunk.digest))
        });
        let job = Job {
            stage: self,
            files: &files,
            shelf,
            options,
            each_durable: options.durable && files.len() as u64 <= MANY,
            next: AtomicUsize::new(0),
            done: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            progress,
        };
        let threads = machine::workers().min(files.len().div_ceil(BATCH)).max(1);
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| job.work())).collect();
            let mut result = job.work();
            for other in others {
                let ended = std::io::Error::other("a thread that wrote ended early");
                let other = other
                    .join()
                    .unwrap_or_else(|_| Err(Error::at(self.target.place, ended)));
                result = result.and(other);
            }
            result
        })?;
        if options.durable && !job.each_durable {
            rustix::fs::syncfs(&self.fd).map_err(self.target.trouble(&self.name))?;
        }
        Ok(job.bytes.into_inner())
    }

    fn make_folder(&self, staged: &Path) -> Result<(), Error> {
        let make = || {
            let (folder, name) = beneath::parent(self.fd(), staged)?;
            rustix::fs::mkdirat(folder, name, Mode::RWXU)
        };
        make().map_err(self.target.trouble(staged))
    }

    fn make_link(&self, entry: &Entry, staged: &Path, target: &Path) -> Result<(), Error> {
        let make = || {
            let (folder, name) = beneath::parent(self.fd(), staged)?;
            rustix::fs::symlinkat(target, &folder, name)?;
            rustix::fs::utimensat(
                &folder,
                name,
                &times(entry.modified),
                AtFlags::SYMLINK_NOFOLLOW,
            )
        };
        make().map_err(self.target.trouble(&entry.path))
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        if beneath::remove_folder(self.target.fd(), &self.name).is_ok() {
            // It did not come to anything: not even a time shows that it was there.
            let _ = rustix::fs::futimens(self.target.fd(), &times(self.target.facts.modified));
        }
    }
}

/// Removes the stages of restores that were killed.
pub(crate) fn sweep(target: &Target<'_>) {
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
        let Ok(fd) = beneath::folder(target.fd(), Path::new(&name)) else {
            continue;
        };
        if rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = beneath::remove_folder(target.fd(), Path::new(&name));
        }
    }
}

/// Writing files, shared by several threads.
struct Job<'a> {
    stage: &'a Stage<'a>,
    files: &'a [(&'a Entry, &'a Path)],
    shelf: &'a Shelf,
    options: &'a Restore<'a>,
    each_durable: bool,
    next: AtomicUsize,
    done: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicBool,
    progress: &'a (dyn Fn(Progress) + Sync),
}

impl Job<'_> {
    fn work(&self) -> Result<(), Error> {
        let mut cursor = Cursor::new(self.shelf)?;
        let mut folder = None;
        loop {
            let from = self.next.fetch_add(BATCH, Ordering::Relaxed);
            let to = self.files.len().min(from.saturating_add(BATCH));
            let Some(batch) = self.files.get(from..to).filter(|batch| !batch.is_empty()) else {
                return Ok(());
            };
            for (entry, staged) in batch {
                if self.failed.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let written = self.write(&mut cursor, &mut folder, entry, staged);
                if written.is_err() {
                    self.failed.store(true, Ordering::Relaxed);
                }
                written?;
            }
            let count = batch.len() as u64;
            (self.progress)(Progress {
                files: self.done.fetch_add(count, Ordering::Relaxed) + count,
                of: self.files.len() as u64,
                bytes: self.bytes.load(Ordering::Relaxed),
            });
        }
    }

    fn write<'a>(
        &self,
        cursor: &mut Cursor<'_>,
        folder: &mut Option<(&'a Path, OwnedFd)>,
        entry: &Entry,
        staged: &'a Path,
    ) -> Result<(), Error> {
        let place = self.stage.target.place.join(&entry.path);
        let created = self.create(folder, staged);
        let mut file = File::from(created.map_err(|error| Error::at(&place, error))?);
        for &chunk in entry.content() {
            let bytes = cursor.read(chunk)?;
            file.write_all(bytes)
                .map_err(|error| Error::at(&place, error))?;
        }
        self.bytes.fetch_add(entry.size(), Ordering::Relaxed);
        let finish = || {
            if !entry.attributes.is_empty() {
                beneath::set_attributes(&file, &entry.attributes)?;
            }
            rustix::fs::fchmod(&file, mode(entry, self.options))?;
            rustix::fs::futimens(&file, &times(entry.modified))?;
            if self.each_durable {
                rustix::fs::fsync(&file)?;
            }
            Ok(())
        };
        finish().map_err(|error: rustix::io::Errno| Error::at(&place, error))
    }

    /// Makes a file. Neighbours are in the same folder, which is opened once.
    fn create<'a>(
        &self,
        folder: &mut Option<(&'a Path, OwnedFd)>,
        staged: &'a Path,
    ) -> rustix::io::Result<OwnedFd> {
        let parent = staged.parent().unwrap_or(Path::new(""));
        let open = match folder.take() {
            Some((path, fd)) if path == parent => fd,
            _ => beneath::folder(self.stage.fd(), parent)?,
        };
        let (_, open) = folder.insert((parent, open));
        let name = staged.file_name().ok_or(rustix::io::Errno::INVAL)?;
        beneath::create(open.as_fd(), name)
    }
}
