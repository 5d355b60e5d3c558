//! Reading what has to be read, with several threads if there is much.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::entry::{Chunk, Why};
use crate::error::Error;
use crate::files;
use crate::index::Index;
use crate::machine;
use crate::pack::{Cursor, Finished, Known, Packer};
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
    ) -> Result<u64, Error> {
        if unread.is_empty() {
            return Ok(0);
        }
        let sizes: Vec<u64> = unread
            .iter()
            .map(|&number| plan.found[number].entry.size())
            .collect();
        let batches = batches(&sizes);
        let threads = machine::workers().min(batches.len());
        let paths: Vec<&Path> = unread
            .iter()
            .map(|&number| &*plan.found[number].entry.path)
            .collect();
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
        let stored = join(finished)?;
        // P4: what the manifest will name is durable before it is written.
        files::sync_folder(&self.vault.packs)
            .map_err(|error| Error::at(&self.vault.packs, error))?;
        let readings = job
            .readings
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        for (at, reading) in readings {
            plan.note(unread[at], reading);
        }
        Ok(stored)
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

    fn packer(&self) -> Result<Packer<'a>, Error> {
        let packer = Packer::new(self.vault, self.known)?;
        match self.index.snapshot {
            Some(_) => Ok(packer.with_bases(Cursor::new(self.known.shelf())?.scattered())),
            None => Ok(packer),
        }
    }

    /// What the snapshot before has of a file.
    fn content(&self, path: &Path) -> Vec<Chunk> {
        let number = self.index.find(path);
        let memory = number.and_then(|number| self.index.memory(number));
        memory.map_or_else(Vec::new, |memory| memory.content)
    }
}

/// Reading, shared by several threads.
struct Job<'a> {
    capture: &'a Capture<'a>,
    store: &'a Store<'a>,
    paths: &'a [&'a Path],
    /// The logs of databases, which are read with them.
    logs: HashMap<usize, Vec<usize>>,
    led: HashSet<usize>,
    batches: &'a [std::ops::Range<usize>],
    next: AtomicUsize,
    files: AtomicU64,
    bytes: AtomicU64,
    readings: Mutex<Vec<(usize, Reading)>>,
    progress: &'a (dyn Fn(Progress) + Sync),
}

impl<'a> Job<'a> {
    fn work(&self) -> Result<Finished<'a>, Error> {
        let mut packer = self.store.packer()?;
        let earlier = |path: &Path| self.store.content(path);
        let mut reader = Reader::new(&self.capture.root, &mut packer, &earlier);
        loop {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = self.batches.get(next) else {
                break;
            };
            let mut readings = Vec::with_capacity(batch.len());
            for at in batch.clone().filter(|at| !self.led.contains(at)) {
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
/// block of the disk. Returns how many bytes the vault has grown by.
fn join(finished: Vec<Result<Finished<'_>, Error>>) -> Result<u64, Error> {
    let (mut stored, mut little) = (0, None::<Packer<'_>>);
    for finished in finished {
        match (finished?, &mut little) {
            (Finished::Sealed(bytes), _) => stored += bytes,
            (Finished::Little(packer), Some(first)) => first.take_over(*packer)?,
            (Finished::Little(packer), none) => *none = Some(*packer),
        }
    }
    Ok(stored + little.map_or(Ok(0), Packer::finish)?)
}

/// Neighbours, about [`BATCH`] bytes of them at a time, or a thread's share.
fn batches(sizes: &[u64]) -> Vec<std::ops::Range<usize>> {
    let mut batches = Vec::new();
    let (mut from, mut bytes) = (0, 0_u64);
    let most = machine::share(sizes.len(), MOST);
    for (at, size) in sizes.iter().enumerate() {
        bytes = bytes.saturating_add(*size);
        if bytes >= BATCH || at + 1 - from >= most {
            batches.push(from..at + 1);
            (from, bytes) = (at + 1, 0);
        }
    }
    if from < sizes.len() {
        batches.push(from..sizes.len());
    }
    batches
}
