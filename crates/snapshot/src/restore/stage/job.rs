//! Writes and checks files, with several threads.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, Mode};

use crate::entry::{Chunk, Entry};
use crate::error::Error;
use crate::machine;
use crate::openat::{self, Facts, ParentCache, times};
use crate::pack::{Cursor, PackSet};
use crate::request::{Progress, Restore};
use crate::restore::mode;

use super::{MANY, Stage};

/// How many files or bytes a thread writes per batch, plus the rest of the last block: enough that
/// two threads seldom work in one folder.
const BATCH: usize = 256;
const BATCH_BYTES: u64 = 4 * 1024 * 1024;
/// The largest number of files per batch: one block can be the content of any number of files.
const LARGEST: usize = 4 * BATCH;
/// How many bytes may be unsynced before a thread begins to write them back. Otherwise the kernel
/// would begin when everything is written, and all threads would wait for the disk.
const WRITE_BACK_BYTES: u64 = 64 * 1024 * 1024;
/// The mode of a file that gets its final mode after it is written.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A file, and its path in the stage.
type Staged<'a> = (&'a Entry, &'a Path);

/// The work that several threads share.
pub(super) struct Job<'a> {
    stage: &'a Stage<'a>,
    files: u64,
    batches: Vec<&'a [Staged<'a>]>,
    pack_set: &'a PackSet,
    options: &'a Restore<'a>,
    durable: Durable,
    /// The permission bits that a new file can be created with.
    creatable: Mode,
    next: AtomicUsize,
    done: AtomicU64,
    bytes: AtomicU64,
    /// The value of `bytes` at the last write-back.
    synced: Mutex<u64>,
    /// Files that are synced one by one, once all are written.
    written: Mutex<Vec<(File, &'a Entry)>>,
    failed: AtomicBool,
    progress: &'a (dyn Fn(Progress) + Sync),
}

/// How written files become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durable {
    /// Whenever the kernel writes them back.
    Unsynced,
    /// By one fsync per file.
    PerFile,
    /// By one syncfs, which also writes everything else on the file system.
    SyncFs,
}

impl<'a> Job<'a> {
    pub(super) fn new(
        stage: &'a Stage<'a>,
        files: &'a [Staged<'a>],
        pack_set: &'a PackSet,
        options: &'a Restore<'a>,
        progress: &'a (dyn Fn(Progress) + Sync),
    ) -> Result<Self, Error> {
        let many = files.len() as u64 > MANY;
        Ok(Self {
            stage,
            files: files.len() as u64,
            batches: batches(files, pack_set),
            pack_set,
            options,
            durable: match (options.durable, many) {
                (false, _) => Durable::Unsynced,
                (true, false) => Durable::PerFile,
                (true, true) => Durable::SyncFs,
            },
            creatable: if many { creatable(stage)? } else { PRIVATE },
            next: AtomicUsize::new(0),
            done: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            synced: Mutex::new(0),
            written: Mutex::default(),
            failed: AtomicBool::new(false),
            progress,
        })
    }

    /// Writes all files, and syncs them unless that is done for all at once. Returns the number of
    /// bytes.
    pub(super) fn run(self) -> Result<u64, Error> {
        // One thread waits for the disk most of the time.
        let waiting = usize::from(self.durable == Durable::SyncFs);
        let threads = machine::workers() + waiting;
        let threads = threads.min(self.batches.len());
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| self.work())).collect();
            let written = self.work();
            others.into_iter().fold(written, |written, other| {
                written.and(self.stage.join(other))
            })
        })?;
        let written = self.written.into_inner();
        let written = written.unwrap_or_else(PoisonError::into_inner);
        machine::for_each_parallel(&written, |(file, entry)| {
            let place = || self.stage.target.place.join(&entry.path);
            file.sync_all().map_err(|error| Error::at(&place(), error))
        })?;
        Ok(self.bytes.into_inner())
    }

    fn work(&self) -> Result<(), Error> {
        let mut cursor = Cursor::new(self.pack_set)?;
        let mut parent_cache = ParentCache::default();
        loop {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = self.batches.get(next) else {
                return Ok(());
            };
            // A few files are seldom neighbours in packs, unless the folder is small.
            let neighbours = |two: &[Staged<'_>]| share_block(self.pack_set, &two[0], &two[1]);
            let many = self.files > MANY;
            cursor.expect_neighbours(many || batch.windows(2).any(neighbours));
            let mut files = batch.iter();
            let written = files.try_for_each(|(entry, staged)| {
                if self.failed.load(Ordering::Relaxed) {
                    return Ok(());
                }
                self.write(&mut cursor, &mut parent_cache, entry, staged)
            });
            let written = written.and_then(|()| self.write_back());
            if written.is_err() {
                self.failed.store(true, Ordering::Relaxed);
                return written;
            }
            let count = batch.len() as u64;
            (self.progress)(Progress {
                files: self.done.fetch_add(count, Ordering::Relaxed) + count,
                of: self.files,
                bytes: self.bytes.load(Ordering::Relaxed),
            });
        }
    }

    /// Writes back what was written so far, if it is much and no other thread does it. The kernel
    /// reports a write error to the first caller only, so this one must return it.
    fn write_back(&self) -> Result<(), Error> {
        if self.durable != Durable::SyncFs {
            return Ok(());
        }
        let Ok(mut synced) = self.synced.try_lock() else {
            return Ok(());
        };
        let bytes = self.bytes.load(Ordering::Relaxed);
        if bytes - *synced < WRITE_BACK_BYTES {
            return Ok(());
        }
        *synced = bytes;
        self.stage.sync()
    }

    fn write<'p>(
        &self,
        cursor: &mut Cursor<'_>,
        parent_cache: &mut ParentCache<'p>,
        entry: &'a Entry,
        staged: &'p Path,
    ) -> Result<(), Error> {
        let to_error = |error| Error::at(&self.stage.target.place.join(&entry.path), error);
        let wanted = mode(entry, self.options);
        // Attributes can only be set on a file that its owner may write.
        let made = if self.creatable.contains(wanted) && entry.attributes.is_empty() {
            wanted
        } else {
            PRIVATE
        };
        let created = parent_cache
            .parent(self.stage.fd(), staged)
            .and_then(|(folder, name)| openat::create_as(folder, name, made));
        let mut file = File::from(created.map_err(|error| to_error(error.into()))?);
        for &chunk in entry.content() {
            file.write_all(cursor.read(chunk)?).map_err(to_error)?;
        }
        self.bytes.fetch_add(entry.size(), Ordering::Relaxed);
        let finish = || {
            if !entry.attributes.is_empty() {
                openat::set_attributes(&file, &entry.attributes)?;
            }
            if made != wanted {
                rustix::fs::fchmod(&file, wanted)?;
            }
            rustix::fs::futimens(&file, &times(entry.modified))
        };
        finish().map_err(|error: rustix::io::Errno| to_error(error.into()))?;
        if self.durable == Durable::PerFile {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            written.push((file, entry));
        }
        Ok(())
    }
}

/// Batches of files that are neighbours in packs. A block is in one batch, so that it is unpacked
/// once.
fn batches<'a>(files: &'a [Staged<'a>], pack_set: &PackSet) -> Vec<&'a [Staged<'a>]> {
    let (mut count, mut bytes) = (0, 0);
    let batch = machine::batch_size(files.len(), BATCH);
    let together = |left: &Staged<'_>, right: &Staged<'_>| {
        count += 1;
        bytes += left.0.size();
        let few = count < batch && bytes < BATCH_BYTES;
        let together = few || (share_block(pack_set, left, right) && count < LARGEST);
        if !together {
            (count, bytes) = (0, 0);
        }
        together
    };
    files.chunk_by(together).collect()
}

/// Whether the end of one file and the beginning of the other lie in one block.
fn share_block(pack_set: &PackSet, left: &Staged<'_>, right: &Staged<'_>) -> bool {
    let block = |chunk: Option<&Chunk>| {
        let place = pack_set.locate(&chunk?.digest)?;
        Some((place.pack, place.block))
    };
    let left = block(left.0.content().last());
    left.is_some() && left == block(right.0.content().first())
}

/// The permission bits of a new file that is created with all of them, that is, without the umask.
/// Inside the stage, no other user can open a file before it is complete.
fn creatable(stage: &Stage<'_>) -> Result<Mode, Error> {
    let probe = || {
        let all = Mode::RWXU | Mode::RWXG | Mode::RWXO;
        let file = openat::create_as(stage.fd(), "probe".as_ref(), all)?;
        rustix::fs::unlinkat(stage.fd(), "probe", AtFlags::empty())?;
        Ok(Mode::from_raw_mode(Facts::of(&file)?.mode).intersection(all))
    };
    probe().map_err(stage.target.error_at(&stage.name))
}
