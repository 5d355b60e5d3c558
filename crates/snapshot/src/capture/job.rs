//! Reads the files that have to be read, with several threads if they are many.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::entry::{Chunk, Why};
use crate::error::Error;
use crate::index::{Index, ROOT};
use crate::machine;
use crate::manifest::bytes;
use crate::pack::{Cursor, Finished, PackSync, Packer, StoredChunks};
use crate::read::{Reader, Reading};
use crate::request::Progress;
use crate::snapshot_store::SnapshotStore;

use super::Capture;
use super::plan::Plan;

/// How many bytes of neighbouring files a thread reads per batch.
const BATCH: u64 = 4 * 1024 * 1024;

/// The largest number of files per batch.
const MOST: usize = 1024;

impl Capture<'_> {
    /// Reads the `unread` files of the plan, with several threads if they are many.
    pub(super) fn read(
        &self,
        plan: &mut Plan,
        unread: &[usize],
        logs: &HashMap<usize, Vec<usize>>,
        previous: &Previous<'_>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<PackSync, Error> {
        let mut pack_sync = PackSync::new(&self.store.packs);
        if unread.is_empty() {
            return Ok(pack_sync);
        }
        let paths: Vec<&Path> = unread
            .iter()
            .map(|&number| &*plan.found[number].entry.path)
            .collect();
        let mut tasks: Vec<ReadTask> = unread
            .iter()
            .zip(&paths)
            .enumerate()
            .map(|(at, (&number, path))| ReadTask {
                at,
                size: plan.found[number].entry.size(),
                block: previous.block(path),
            })
            .collect();
        // Files whose earlier content shares a block are read together, so that each block is
        // unpacked once.
        tasks.sort_by_key(|task| task.block);
        let batches = batches(&tasks);
        let threads = machine::workers().min(batches.len());
        let at = |number: &usize| unread.binary_search(number).ok();
        let logs: HashMap<usize, Vec<usize>> = logs
            .iter()
            .filter_map(|(database, logs)| {
                Some((at(database)?, logs.iter().filter_map(at).collect()))
            })
            .collect();
        let job = Job {
            capture: self,
            paths: &paths,
            log_files: logs.values().flatten().copied().collect(),
            logs,
            previous,
            batches: &batches,
            next: AtomicUsize::new(0),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            readings: Mutex::new(Vec::with_capacity(unread.len())),
            progress,
        };
        let finished: Vec<_> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| job.work())).collect();
            let first = job.work();
            let ended = |_| {
                Err(Error::at(
                    &self.store.packs,
                    std::io::Error::other("a worker thread panicked"),
                ))
            };
            let others = others
                .into_iter()
                .map(|other| other.join().unwrap_or_else(ended));
            std::iter::once(first).chain(others).collect()
        });
        join(finished, &mut pack_sync)?;
        let readings = job
            .readings
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        for (at, reading) in readings {
            plan.record(unread[at], reading);
        }
        Ok(pack_sync)
    }
}

/// What the snapshot store already has.
pub(super) struct Previous<'a> {
    store: &'a SnapshotStore,
    known: &'a StoredChunks,
    /// The content of the previous snapshot.
    index: &'a Index,
}

impl<'a> Previous<'a> {
    pub(super) fn new(store: &'a SnapshotStore, known: &'a StoredChunks, index: &'a Index) -> Self {
        Self {
            store,
            known,
            index,
        }
    }

    /// A packer for one thread. `bytes` is what all threads write together.
    fn packer(&self, bytes: u64) -> Result<Packer<'a>, Error> {
        let packer = self.store.packer(self.known)?.for_bytes(bytes);
        match self.index.snapshot {
            Some(_) => Ok(packer.with_bases(Cursor::new(self.known.pack_set())?)),
            None => Ok(packer),
        }
    }

    /// The block that is unpacked to compare a file with the previous snapshot.
    fn block(&self, path: &Path) -> Option<(u32, u32)> {
        self.index.snapshot?;
        let first = self.content(path).first().copied()?;
        let place = self.known.pack_set().unpatched_location(&first.digest)?;
        Some((place.pack, place.block))
    }

    /// The chunks that a file has in the previous snapshot.
    fn content(&self, path: &Path) -> Vec<Chunk> {
        let path = bytes(path);
        // By binary search, not name by name: a folder may have any number of names, and all may
        // have changed.
        let number = self.index.seek(ROOT + 1, path);
        let is_there = self.index.is_at(number, path);
        let known = is_there.then(|| self.index.known_file(number)).flatten();
        known.map_or_else(Vec::new, |known| known.content)
    }
}

struct ReadTask {
    /// Its position among the unread files.
    at: usize,
    size: u64,
    /// The block that is unpacked to compare the file with the previous snapshot.
    block: Option<(u32, u32)>,
}

/// The work that several threads share.
struct Job<'a> {
    capture: &'a Capture<'a>,
    previous: &'a Previous<'a>,
    paths: &'a [&'a Path],
    /// The logs of databases, which are read together with their database.
    logs: HashMap<usize, Vec<usize>>,
    log_files: HashSet<usize>,
    batches: &'a [&'a [ReadTask]],
    next: AtomicUsize,
    files: AtomicU64,
    bytes: AtomicU64,
    readings: Mutex<Vec<(usize, Reading)>>,
    progress: &'a (dyn Fn(Progress) + Sync),
}

impl<'a> Job<'a> {
    fn work(&self) -> Result<Finished<'a>, Error> {
        let sizes = self.batches.iter().copied().flatten();
        let mut packer = self.previous.packer(sizes.map(|task| task.size).sum())?;
        let earlier = |path: &Path| self.previous.content(path);
        let Capture { root, stamps, .. } = self.capture;
        let mut reader = Reader::new(root, stamps, &mut packer, &earlier);
        loop {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = self.batches.get(next) else {
                break;
            };
            let share = |two: &[ReadTask]| two[0].block.is_some() && two[0].block == two[1].block;
            reader.expect_neighbours(batch.windows(2).any(share));
            let mut readings = Vec::with_capacity(batch.len());
            let tasks = batch.iter().map(|task| task.at);
            for at in tasks.filter(|at| !self.log_files.contains(at)) {
                let logs = self.logs.get(&at).map_or(&[][..], Vec::as_slice);
                let stored = if self.capture.is_late() {
                    let late = || Reading::Excluded(Why::Budget("time".into()));
                    std::iter::repeat_with(late).take(1 + logs.len()).collect()
                } else {
                    let logs: Vec<&Path> = logs.iter().map(|log| self.paths[*log]).collect();
                    reader.read_with_logs(self.paths[at], &logs)?
                };
                for (at, reading) in std::iter::once(&at).chain(logs).zip(stored) {
                    if let Reading::Stored(stored) = &reading {
                        self.bytes.fetch_add(stored.facts.size, Ordering::Relaxed);
                    }
                    readings.push((*at, reading));
                }
            }
            let count = readings.len() as u64;
            self.readings
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(readings);
            (self.progress)(Progress {
                files: self.files.fetch_add(count, Ordering::Relaxed) + count,
                of: self.paths.len() as u64,
                bytes: self.bytes.load(Ordering::Relaxed),
            });
        }
        drop(reader);
        packer.finish_unless_small()
    }
}

/// Puts the small remainders of several threads into one pack, because each file of the store takes
/// at least one disk block.
fn join(finished: Vec<Result<Finished<'_>, Error>>, pack_sync: &mut PackSync) -> Result<(), Error> {
    let mut small = None::<Packer<'_>>;
    for finished in finished {
        match (finished?, &mut small) {
            (Finished::Sealed(more), _) => pack_sync.add(more),
            (Finished::Small(packer), Some(first)) => first.absorb(*packer)?,
            (Finished::Small(packer), none) => *none = Some(*packer),
        }
    }
    if let Some(small) = small {
        pack_sync.add(small.finish()?);
    }
    Ok(())
}

/// Splits neighbouring files into batches of about [`BATCH`] bytes, or of a thread's share. Files
/// of one block stay in one batch.
fn batches(tasks: &[ReadTask]) -> Vec<&[ReadTask]> {
    let (mut count, mut bytes) = (0, 0_u64);
    let most = machine::batch_size(tasks.len(), MOST);
    let together = |left: &ReadTask, right: &ReadTask| {
        count += 1;
        bytes = bytes.saturating_add(left.size);
        let few = count < most && bytes < BATCH;
        let shared = left.block.is_some() && left.block == right.block;
        let together = few || (shared && count < MOST);
        if !together {
            (count, bytes) = (0, 0);
        }
        together
    };
    tasks.chunk_by(together).collect()
}
