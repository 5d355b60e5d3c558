//! Writing and checking files, by several threads.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, Mode};

use crate::beneath::{self, Facts, Nearby, times};
use crate::entry::{Chunk, Entry};
use crate::error::Error;
use crate::machine;
use crate::pack::{Cursor, Shelf};
use crate::request::{Progress, Restore};
use crate::restore::mode;

use super::{MANY, Stage};

/// How many files or bytes a thread takes at once, and whatever else is in the last block: enough
/// that two threads seldom work in one folder.
const BATCH: usize = 256;
const BATCH_BYTES: u64 = 4 * 1024 * 1024;
/// How many it takes at most: one block can be the content of any number of files.
const LARGEST: usize = 4 * BATCH;
/// How many bytes wait in memory before a thread begins to bring them to the disk. Left alone, the
/// kernel would begin when everything is written, and everybody would wait for the disk.
const WAITING: u64 = 64 * 1024 * 1024;
/// The mode of a file that gets its own when it is written.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A file, and where in the stage it is written.
type Staged<'a> = (&'a Entry, &'a Path);

/// Writing files, shared by several threads.
pub(super) struct Job<'a> {
    stage: &'a Stage<'a>,
    files: u64,
    batches: Vec<&'a [Staged<'a>]>,
    shelf: &'a Shelf,
    options: &'a Restore<'a>,
    durable: Durable,
    /// The permission bits that a new file can be made with.
    possible: Mode,
    next: AtomicUsize,
    done: AtomicU64,
    bytes: AtomicU64,
    /// How many bytes were written when the disk was last asked to take them.
    synced: Mutex<u64>,
    /// Files that become durable each by itself, once all are written.
    written: Mutex<Vec<(File, &'a Entry)>>,
    failed: AtomicBool,
    progress: &'a (dyn Fn(Progress) + Sync),
}

/// How what is written becomes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durable {
    /// When the system likes.
    Sometime,
    /// Each file by itself.
    Each,
    /// All files at once, and whatever else waits on the file system.
    AtOnce,
}

impl<'a> Job<'a> {
    pub(super) fn new(
        stage: &'a Stage<'a>,
        files: &'a [Staged<'a>],
        shelf: &'a Shelf,
        options: &'a Restore<'a>,
        progress: &'a (dyn Fn(Progress) + Sync),
    ) -> Result<Self, Error> {
        let many = files.len() as u64 > MANY;
        Ok(Self {
            stage,
            files: files.len() as u64,
            batches: batches(files, shelf),
            shelf,
            options,
            durable: match (options.durable, many) {
                (false, _) => Durable::Sometime,
                (true, false) => Durable::Each,
                (true, true) => Durable::AtOnce,
            },
            possible: if many { possible(stage)? } else { PRIVATE },
            next: AtomicUsize::new(0),
            done: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            synced: Mutex::new(0),
            written: Mutex::default(),
            failed: AtomicBool::new(false),
            progress,
        })
    }

    /// Writes everything, and makes it durable unless that is done for all at once. Returns how many
    /// bytes that were.
    pub(super) fn run(self) -> Result<u64, Error> {
        // One thread waits for the disk most of the time.
        let waiting = usize::from(self.durable == Durable::AtOnce);
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
        machine::each_at_once(&written, |(file, entry)| {
            let place = || self.stage.target.place.join(&entry.path);
            file.sync_all().map_err(|error| Error::at(&place(), error))
        })?;
        Ok(self.bytes.into_inner())
    }

    fn work(&self) -> Result<(), Error> {
        let mut cursor = Cursor::new(self.shelf)?;
        let mut nearby = Nearby::default();
        loop {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = self.batches.get(next) else {
                return Ok(());
            };
            // Few files lie apart, unless the folder is small.
            let neighbours = |two: &[Staged<'_>]| share_a_block(self.shelf, &two[0], &two[1]);
            let many = self.files > MANY;
            cursor.expect_neighbours(many || batch.windows(2).any(neighbours));
            let mut files = batch.iter();
            let written = files.try_for_each(|(entry, staged)| {
                if self.failed.load(Ordering::Relaxed) {
                    return Ok(());
                }
                self.write(&mut cursor, &mut nearby, entry, staged)
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

    /// Brings what was written so far to the disk, if it is much and no other thread does. What
    /// the disk refuses is said to whoever asks first, and so has to be heard here.
    fn write_back(&self) -> Result<(), Error> {
        if self.durable != Durable::AtOnce {
            return Ok(());
        }
        let Ok(mut synced) = self.synced.try_lock() else {
            return Ok(());
        };
        let bytes = self.bytes.load(Ordering::Relaxed);
        if bytes - *synced < WAITING {
            return Ok(());
        }
        *synced = bytes;
        self.stage.sync()
    }

    fn write<'p>(
        &self,
        cursor: &mut Cursor<'_>,
        nearby: &mut Nearby<'p>,
        entry: &'a Entry,
        staged: &'p Path,
    ) -> Result<(), Error> {
        let trouble = |error| Error::at(&self.stage.target.place.join(&entry.path), error);
        let wanted = mode(entry, self.options);
        // Attributes can be set on what its owner may write.
        let made = if self.possible.contains(wanted) && entry.attributes.is_empty() {
            wanted
        } else {
            PRIVATE
        };
        let created = nearby
            .parent(self.stage.fd(), staged)
            .and_then(|(folder, name)| beneath::create_as(folder, name, made));
        let mut file = File::from(created.map_err(|error| trouble(error.into()))?);
        for &chunk in entry.content() {
            file.write_all(cursor.read(chunk)?).map_err(trouble)?;
        }
        self.bytes.fetch_add(entry.size(), Ordering::Relaxed);
        let finish = || {
            if !entry.attributes.is_empty() {
                beneath::set_attributes(&file, &entry.attributes)?;
            }
            if made != wanted {
                rustix::fs::fchmod(&file, wanted)?;
            }
            rustix::fs::futimens(&file, &times(entry.modified))
        };
        finish().map_err(|error: rustix::io::Errno| trouble(error.into()))?;
        if self.durable == Durable::Each {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            written.push((file, entry));
        }
        Ok(())
    }
}

/// Neighbours in packs. A block is in one batch, so that it is unpacked once.
fn batches<'a>(files: &'a [Staged<'a>], shelf: &Shelf) -> Vec<&'a [Staged<'a>]> {
    let (mut count, mut bytes) = (0, 0);
    let batch = machine::share(files.len(), BATCH);
    let together = |left: &Staged<'_>, right: &Staged<'_>| {
        count += 1;
        bytes += left.0.size();
        let few = count < batch && bytes < BATCH_BYTES;
        let together = few || (share_a_block(shelf, left, right) && count < LARGEST);
        if !together {
            (count, bytes) = (0, 0);
        }
        together
    };
    files.chunk_by(together).collect()
}

/// Whether the end of one file and the beginning of another are unpacked together.
fn share_a_block(shelf: &Shelf, left: &Staged<'_>, right: &Staged<'_>) -> bool {
    let block = |chunk: Option<&Chunk>| {
        let place = shelf.place(&chunk?.digest)?;
        Some((place.pack, place.block))
    };
    let left = block(left.0.content().last());
    left.is_some() && left == block(right.0.content().first())
}

/// The permission bits that a new file gets if it is made with all of them: what the person does
/// not want on new files is missing. In the stage nobody else comes by a file before it is whole.
fn possible(stage: &Stage<'_>) -> Result<Mode, Error> {
    let probe = || {
        let all = Mode::RWXU | Mode::RWXG | Mode::RWXO;
        let file = beneath::create_as(stage.fd(), "probe".as_ref(), all)?;
        rustix::fs::unlinkat(stage.fd(), "probe", AtFlags::empty())?;
        Ok(Mode::from_raw_mode(Facts::of(&file)?.mode).intersection(all))
    };
    probe().map_err(stage.target.trouble(&stage.name))
}
