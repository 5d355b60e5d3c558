//! Reads the metadata of everything in a folder as fast as possible: the lower bound for detecting
//! changes.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir};

/// How many bytes of directory entries are read at once.
const BUFFER: usize = 32 * 1024;

/// A file, folder or link in a tree.
#[derive(Clone)]
pub(crate) struct Found {
    /// Relative to the root.
    pub(crate) path: PathBuf,
    pub(crate) kind: FileType,
    pub(crate) mode: u32,
    pub(crate) size: u64,
}

/// Folders that are queued, and how many are being read.
struct Queue {
    waiting: Vec<PathBuf>,
    busy: usize,
}

/// Everything below `root` with its metadata; one thread per core.
pub(crate) fn walk(root: &Path) -> Vec<Found> {
    let queue = Mutex::new(Queue {
        waiting: vec![PathBuf::new()],
        busy: 0,
    });
    let changed = Condvar::new();
    let work = || {
        let mut found = Vec::new();
        let mut buffer = Vec::with_capacity(BUFFER);
        while let Some(folder) = next_folder(&queue, &changed) {
            let below = read_folder(root, &folder, &mut buffer, &mut found);
            let mut queue = queue.lock().unwrap();
            queue.waiting.extend(below);
            queue.busy -= 1;
            changed.notify_all();
        }
        found
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads()).map(|_| scope.spawn(work)).collect();
        let found = threads.into_iter().flat_map(|one| one.join().unwrap());
        found.collect()
    })
}

/// As many threads as there are cores, like the program that is measured.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The next folder, once there is one; `None` when all are done.
fn next_folder(queue: &Mutex<Queue>, changed: &Condvar) -> Option<PathBuf> {
    let mut queue = queue.lock().unwrap();
    loop {
        if let Some(folder) = queue.waiting.pop() {
            queue.busy += 1;
            return Some(folder);
        }
        if queue.busy == 0 {
            return None;
        }
        queue = changed.wait(queue).unwrap();
    }
}

/// Reads the metadata of everything in one folder. Returns the folders in it.
fn read_folder(
    root: &Path,
    folder: &Path,
    buffer: &mut Vec<u8>,
    found: &mut Vec<Found>,
) -> Vec<PathBuf> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = rustix::fs::openat(CWD, root.join(folder), flags, Mode::empty()).unwrap();
    let mut entries = RawDir::new(&open, buffer.spare_capacity_mut());
    let mut folders = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry.unwrap();
        let name: CString = entry.file_name().to_owned();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let stat = rustix::fs::statat(&open, &name, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        let kind = FileType::from_raw_mode(stat.st_mode);
        let path = folder.join(OsStr::from_bytes(name.to_bytes()));
        if kind.is_dir() {
            folders.push(path.clone());
        }
        found.push(Found {
            path,
            kind,
            mode: stat.st_mode,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
        });
    }
    folders
}
