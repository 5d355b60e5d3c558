//! Reading what has to be read, with several threads if there is much.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::entry::{Chunk, Why};
use crate::error::Error;
use crate::index::{Index, ROOT};
use crate::machine;
use crate::manifest::bytes;
use crate::pack::{Cursor, Finished, Known, Packer, Sealing};
use crate::read::{Reader, Reading};
use crate::request::Progress;
use crate::vault::Vault;

use super::Capture;
use super::plan::Plan;

/// How many bytes of neighbouring files a thread takes at once.
const BATCH: u64 = 4 * 1024 * 1024;

/// How many files it takes at most.
const MOST: usize = 1024;

impl Capture<'_> {
    /// Reads what has to be read, with several threads if there is much.
    pub(super) fn read(
        &self,
        plan: &mut Plan,
        unread: &[usize],
        logs: &HashMap<usize, Vec<usize>>,
        store: &Store<'_>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Sealing, Error> {
        let mut sealing = Sealing::new(&self.vault.packs);
        if unread.is_empty() {
            return Ok(sealing);
        }
        let paths: Vec<&Path> = unread
            .iter()
            .map(|&number| &*plan.found[number].entry.path)
            .collect();
        let mut turns: Vec<Turn> = unread
            .iter()
            .zip(&paths)
            .enumerate()
            .map(|(at, (&number, path))| Turn {
                at,
                size: plan.found[number].entry.size(),
                block: store.block(path),
            })
            .collect();
        // What was kept together is read together, so that each block is unpacked once.
        turns.sort_by_key(|turn| turn.block);
        let batches = batches(&turns);
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
            led: logs.values().flatten().copied().collect(),
            logs,
            store,
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
                    &self.vault.packs,
                    std::io::Error::other("a thread ended early"),
                ))
            };
            let others = others
                .into_iter()
                .map(|other| other.join().unwrap_or_else(ended));
            std::iter::once(first).chain(others).collect()
        });
        join(finished, &mut sealing)?;
        let readings = job
            .readings
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        for (at, reading) in readings {
            plan.note(unread[at], reading);
        }
        Ok(sealing)
    }
}

/// What the vault has already.
pub(super) struct Store<'a> {
    vault: &'a Vault,
    known: &'a Known,
    /// What the snapshot before has.
    index: &'a Index,
}

impl<'a> Store<'a> {
    pub(super) fn new(vault: &'a Vault, known: &'a Known, index: &'a Index) -> Self {
        Self {
            vault,
            known,
            index,
        }
    }

    /// A way into the vault, for one of the threads that keep so many bytes together.
    fn packer(&self, bytes: u64) -> Result<Packer<'a>, Error> {
        let packer = Packer::new(self.vault, self.known)?.for_bytes(bytes);
        match self.index.snapshot {
            Some(_) => Ok(packer.with_bases(Cursor::new(self.known.shelf())?)),
            None => Ok(packer),
        }
    }

    /// The block that is unpacked to see what the snapshot before has of a file.
    fn block(&self, path: &Path) -> Option<(u32, u32)> {
        self.index.snapshot?;
        let first = self.content(path).first().copied()?;
        let place = self.known.shelf().foundation(&first.digest)?;
        Some((place.pack, place.block))
    }

    /// What the snapshot before has of a file.
    fn content(&self, path: &Path) -> Vec<Chunk> {
        let path = bytes(path);
        // Not name by name: a folder may have any number of them, and all may have changed.
        let number = self.index.seek(ROOT + 1, path);
        let is_there = self.index.is_at(number, path);
        let memory = is_there.then(|| self.index.memory(number)).flatten();
        memory.map_or_else(Vec::new, |memory| memory.content)
    }
}

/// A file to be read.
struct Turn {
    /// Where it is among those that have to be read.
    at: usize,
    size: u64,
    /// The block that is unpacked to see what it was before.
    block: Option<(u32, u32)>,
}

/// Reading, shared by several threads.
struct Job<'a> {
    capture: &'a Capture<'a>,
    store: &'a Store<'a>,
    paths: &'a [&'a Path],
    /// The logs of databases, which are read with them.
    logs: HashMap<usize, Vec<usize>>,
    led: HashSet<usize>,
    batches: &'a [&'a [Turn]],
    next: AtomicUsize,
    files: AtomicU64,
    bytes: AtomicU64,
    readings: Mutex<Vec<(usize, Reading)>>,
    progress: &'a (dyn Fn(Progress) + Sync),
}

impl<'a> Job<'a> {
    fn work(&self) -> Result<Finished<'a>, Error> {
        let sizes = self.batches.iter().copied().flatten();
        let mut packer = self.store.packer(sizes.map(|turn| turn.size).sum())?;
        let earlier = |path: &Path| self.store.content(path);
        let Capture { root, stamps, .. } = self.capture;
        let mut reader = Reader::new(root, stamps, &mut packer, &earlier);
        loop {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = self.batches.get(next) else {
                break;
            };
            let share = |two: &[Turn]| two[0].block.is_some() && two[0].block == two[1].block;
            reader.expect_neighbours(batch.windows(2).any(share));
            let mut readings = Vec::with_capacity(batch.len());
            let turns = batch.iter().map(|turn| turn.at);
            for at in turns.filter(|at| !self.led.contains(at)) {
                let logs = self.logs.get(&at).map_or(&[][..], Vec::as_slice);
                let kept = if self.capture.is_late() {
                    let late = || Reading::Left(Why::Budget("time".into()));
                    std::iter::repeat_with(late).take(1 + logs.len()).collect()
                } else {
                    let logs: Vec<&Path> = logs.iter().map(|log| self.paths[*log]).collect();
                    reader.read_with_logs(self.paths[at], &logs)?
                };
                for (at, reading) in std::iter::once(&at).chain(logs).zip(kept) {
                    if let Reading::Kept(kept) = &reading {
                        self.bytes.fetch_add(kept.facts.size, Ordering::Relaxed);
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
        packer.finish_much()
    }
}

/// What several threads have little of goes into one pack: each file of a vault takes at least a
/// block of the disk.
fn join(finished: Vec<Result<Finished<'_>, Error>>, sealing: &mut Sealing) -> Result<(), Error> {
    let mut little = None::<Packer<'_>>;
    for finished in finished {
        match (finished?, &mut little) {
            (Finished::Sealed(more), _) => sealing.add(more),
            (Finished::Little(packer), Some(first)) => first.take_over(*packer)?,
            (Finished::Little(packer), none) => *none = Some(*packer),
        }
    }
    if let Some(little) = little {
        sealing.add(little.finish()?);
    }
    Ok(())
}

/// Neighbours, about [`BATCH`] bytes of them at a time, or a thread's share. What lies in one block is in
/// one batch.
fn batches(turns: &[Turn]) -> Vec<&[Turn]> {
    let (mut count, mut bytes) = (0, 0_u64);
    let most = machine::share(turns.len(), MOST);
    let together = |left: &Turn, right: &Turn| {
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
    turns.chunk_by(together).collect()
}
