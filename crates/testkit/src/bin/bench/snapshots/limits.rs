//! Lower bounds for the parts of a checkpoint on this machine: reading, hashing and compressing
//! everything, and writing the same number of bytes into a tree. One thread per core; results are
//! discarded.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rustix::fs::FileType;

use crate::figures::millis;
use crate::snapshots::walk::{self, Found};

/// How many bytes are compressed at once.
const BLOCK: usize = 1024 * 1024;

/// How many files a thread processes at a time, so that neighbouring files stay together.
const BATCH: usize = 256;

const LEVEL: i32 = 3;

/// Reads the metadata of everything. Returns milliseconds.
pub(crate) fn stat(root: &Path) -> f64 {
    timed(|| {
        walk::walk(root);
    })
}

/// Reads everything. Returns milliseconds.
pub(crate) fn read(root: &Path, files: &[Found]) -> f64 {
    run_batches(files, |batch| {
        let mut content = Vec::new();
        for file in batch {
            read_file(&root.join(&file.path), &mut content);
            content.clear();
        }
    })
}

/// Reads everything and computes the BLAKE3 hash of each file. Returns milliseconds.
pub(crate) fn hash(root: &Path, files: &[Found]) -> f64 {
    run_batches(files, |batch| {
        let mut content = Vec::new();
        for file in batch {
            read_file(&root.join(&file.path), &mut content);
            std::hint::black_box(blake3::hash(&content));
            content.clear();
        }
    })
}

/// Reads everything and compresses it in blocks of neighbouring files. Returns milliseconds.
pub(crate) fn compress(root: &Path, files: &[Found]) -> f64 {
    run_batches(files, |batch| {
        let mut zstd = zstd::bulk::Compressor::new(LEVEL).unwrap();
        let mut out = Vec::with_capacity(zstd::zstd_safe::compress_bound(BLOCK));
        let mut content = Vec::new();
        let mut pack = |block: &[u8]| {
            out.clear();
            zstd.compress_to_buffer(block, &mut out).unwrap();
        };
        for file in batch {
            read_file(&root.join(&file.path), &mut content);
            let mut done = 0;
            while content.len() - done >= BLOCK {
                pack(&content[done..done + BLOCK]);
                done += BLOCK;
            }
            content.drain(..done);
        }
        pack(&content);
    })
}

/// Writes folders and files of the same names and sizes into the new folder `into`. Returns
/// milliseconds.
pub(crate) fn write(into: &Path, all: &[Found]) -> f64 {
    let longest = all.iter().map(|found| found.size).max().unwrap_or_default();
    let content = vec![b'x'; usize::try_from(longest).unwrap()];
    let mut folders: Vec<&Found> = all.iter().filter(|found| found.kind.is_dir()).collect();
    folders.sort_by(|a, b| a.path.cmp(&b.path));
    let files = files(all);
    let making = timed(|| {
        fs::create_dir(into).unwrap();
        for folder in folders {
            fs::create_dir(into.join(&folder.path)).unwrap();
        }
    });
    let writing = run_batches(&files, |batch| {
        for file in batch {
            let mut new = File::create_new(into.join(&file.path)).unwrap();
            let size = usize::try_from(file.size).unwrap();
            new.write_all(&content[..size]).unwrap();
        }
    });
    making + writing
}

/// The files of a tree, sorted so that neighbours are together.
pub(crate) fn files(all: &[Found]) -> Vec<Found> {
    let files = all
        .iter()
        .filter(|found| found.kind == FileType::RegularFile);
    let mut files: Vec<Found> = files.cloned().collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn read_file(path: &Path, content: &mut Vec<u8>) {
    File::open(path).unwrap().read_to_end(content).unwrap();
}

/// Distributes all files over threads in batches. Returns milliseconds.
fn run_batches(files: &[Found], work: impl Fn(&[Found]) + Sync) -> f64 {
    let batches: Vec<&[Found]> = files.chunks(BATCH).collect();
    let next = AtomicUsize::new(0);
    let worker = || {
        while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(batch);
        }
    };
    timed(|| {
        std::thread::scope(|scope| {
            for _ in 0..walk::threads() {
                scope.spawn(worker);
            }
        });
    })
}

fn timed(work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    millis(begun.elapsed())
}
