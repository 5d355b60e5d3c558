//! Reads everything that a snapshot references, and reports what is damaged.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use segno_core::digest::Digest;

use crate::entry::{Chunk, Entry};
use crate::error::Error;
use crate::machine;
use crate::pack::{Cursor, PackSet};
use crate::request::Progress;
use crate::snapshot_store::SnapshotStore;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// A manifest, a pack, a block of one, or content that no pack has.
    pub object: String,
    pub reason: String,
    /// The files of the snapshot that cannot be restored because of it.
    pub paths: Vec<PathBuf>,
}

/// How many bytes of chunks a thread reads per batch, plus the rest of the last block.
const BATCH: u64 = 1024 * 1024;

impl SnapshotStore {
    /// Reads and verifies everything that the snapshot references. The result is empty if the
    /// snapshot can be restored.
    pub fn verify(
        &self,
        snapshot: Digest,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Vec<Damage>, Error> {
        let _lock = self.lock_shared()?;
        let manifest = match self.manifest(snapshot) {
            Err(Error::Damaged { object, reason }) => {
                return Ok(vec![Damage {
                    object,
                    reason,
                    paths: Vec::new(),
                }]);
            }
            other => other?,
        };
        let pack_set = self.pack_set()?;
        let broken = check(&pieces(&manifest.entries), &pack_set, progress)?;
        let mut damage = affected(&manifest.entries, &broken);
        if !damage.is_empty() {
            // It is unknown which pack had the missing content; it may have been one of these.
            let packs = pack_set.damaged().iter().map(|(name, reason)| Damage {
                object: format!("pack {name}"),
                reason: (*reason).to_owned(),
                paths: Vec::new(),
            });
            damage.extend(packs);
        }
        Ok(damage)
    }
}

/// Every chunk once.
fn pieces(entries: &[Entry]) -> Vec<Chunk> {
    let mut seen = HashSet::new();
    let chunks = entries.iter().flat_map(Entry::content);
    chunks
        .filter(|chunk| seen.insert(**chunk))
        .copied()
        .collect()
}

/// What is wrong with a chunk: the damaged object and the reason.
pub(crate) type Broken = HashMap<Chunk, (String, String)>;

/// Reads chunks in the order of the packs, so that each block is unpacked once.
pub(crate) fn check(
    pieces: &[Chunk],
    pack_set: &PackSet,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Broken, Error> {
    let mut pieces = pieces.to_vec();
    pieces.sort_by_cached_key(|chunk| pack_set.locate(&chunk.digest));
    let batches = batches(&pieces, pack_set);
    let (next, done, bytes) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let broken = Mutex::new(Broken::new());
    let work = || {
        let mut cursor = Cursor::new(pack_set)?;
        loop {
            let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) else {
                return Ok(());
            };
            for &chunk in *batch {
                match cursor.read(chunk) {
                    Ok(_) => {}
                    Err(Error::Damaged { object, reason }) => {
                        let mut broken = broken.lock().unwrap_or_else(PoisonError::into_inner);
                        broken.insert(chunk, (object, reason));
                    }
                    Err(error) => return Err(error),
                }
                bytes.fetch_add(u64::from(chunk.length), Ordering::Relaxed);
            }
            let count = batch.len() as u64;
            progress(Progress {
                files: done.fetch_add(count, Ordering::Relaxed) + count,
                of: pieces.len() as u64,
                bytes: bytes.load(Ordering::Relaxed),
            });
        }
    };
    std::thread::scope(|scope| {
        let threads = machine::workers().min(batches.len());
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut result = work();
        for other in others {
            let lost = || {
                Err(Error::damaged(
                    "the verification",
                    "a worker thread panicked",
                ))
            };
            result = result.and(other.join().unwrap_or_else(|_| lost()));
        }
        result
    })?;
    Ok(broken.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Batches of neighbouring chunks, at most about [`BATCH`] bytes each. No block is in two batches,
/// so that none is unpacked twice.
fn batches<'a>(pieces: &'a [Chunk], pack_set: &PackSet) -> Vec<&'a [Chunk]> {
    let all: u64 = pieces.iter().map(|piece| u64::from(piece.length)).sum();
    let block = |chunk: &Chunk| {
        let location = pack_set.locate(&chunk.digest)?;
        Some((location.pack, location.block))
    };
    split_between_blocks(pieces, batch_bytes(all, machine::workers()), block)
}

/// The length of a batch: several for each thread, if there is little to read.
fn batch_bytes(all: u64, workers: usize) -> u64 {
    (all / 2 / workers as u64).min(BATCH)
}

/// Splits where a block ends and at least `bytes` bytes were read.
fn split_between_blocks<B: PartialEq>(
    pieces: &[Chunk],
    bytes: u64,
    block: impl Fn(&Chunk) -> B,
) -> Vec<&[Chunk]> {
    let mut read = 0;
    let same_batch = |left: &Chunk, right: &Chunk| {
        read += u64::from(left.length);
        if read < bytes || block(left) == block(right) {
            return true;
        }
        read = 0;
        false
    };
    pieces.chunk_by(same_batch).collect()
}

/// The files with damaged content, grouped by damaged object.
fn affected(entries: &[Entry], broken: &Broken) -> Vec<Damage> {
    let mut objects: BTreeMap<(String, String), Vec<PathBuf>> = BTreeMap::new();
    if broken.is_empty() {
        return Vec::new();
    }
    for entry in entries {
        for chunk in entry.content() {
            if let Some(object) = broken.get(chunk) {
                let paths = objects.entry(object.clone()).or_default();
                if paths.last() != Some(&entry.path) {
                    paths.push(entry.path.clone());
                }
            }
        }
    }
    let damage = |((object, reason), paths)| Damage {
        object,
        reason,
        paths,
    };
    objects.into_iter().map(damage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_end_between_blocks() {
        let chunk = |number: u8| Chunk {
            digest: Digest::of(&[number]),
            length: 10,
        };
        let pieces: Vec<Chunk> = (0..6).map(chunk).collect();
        let blocks = [0, 0, 1, 1, 2, 3];
        let block = |chunk: &Chunk| blocks[pieces.iter().position(|it| it == chunk).unwrap()];
        for (bytes, expected) in [
            (0, vec![2, 2, 1, 1]),
            (11, vec![2, 2, 2]),
            (20, vec![2, 2, 2]),
            (21, vec![4, 2]),
            (41, vec![5, 1]),
            (61, vec![6]),
        ] {
            let batches = split_between_blocks(&pieces, bytes, block);
            let lengths: Vec<_> = batches.iter().map(|batch| batch.len()).collect();
            assert_eq!(lengths, expected, "{bytes}");
            assert_eq!(batches.concat(), pieces);
        }
    }

    #[test]
    fn each_thread_gets_batches_of_limited_length() {
        assert_eq!(batch_bytes(4_000_000, 8), 250_000);
        assert_eq!(batch_bytes(1 << 40, 8), 1_048_576);
    }
}
