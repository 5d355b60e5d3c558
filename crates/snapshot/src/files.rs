//! The store's own files: private, durable, and visible under their names only when they are
//! complete and were read back from the disk.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};
use rustix::process::Pid;
use segno_core::digest::Digest;

use crate::machine::random_bytes;
use crate::openat::Facts;

/// Files of at least this length are read back with `O_DIRECT`: it costs another open and saves a
/// copy.
const LONG: u64 = 1024 * 1024;

/// How many bytes are written before the kernel is asked to write them back.
const WRITE_BACK_BYTES: u64 = 8 * 1024 * 1024;

/// Opens a regular file for reading. Never follows a link, never blocks on a FIFO.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::empty())
}

fn open_with(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "not a regular file",
        ))
    }
}

/// Creates a new file that only its owner may use; never through a link.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
}

/// The whole content, if it has at most `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    if length > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long"));
    }
    let mut content = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.take(limit).read_to_end(&mut content)?;
    Ok(content)
}

/// The length of a file, and its last `N` bytes if it is that long.
pub(crate) fn read_tail<const N: usize>(path: &Path) -> io::Result<(u64, Option<[u8; N]>)> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    let Some(from) = length.checked_sub(N as u64) else {
        return Ok((length, None));
    };
    let mut end = [0; N];
    file.read_exact_at(&mut end, from)?;
    Ok((length, Some(end)))
}

/// Creates a folder that only its owner may use, and its missing parents.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Makes the entries of a folder durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
    Ok(rustix::fs::fsync(folder)?)
}

/// The names in a folder, sorted.
pub(crate) fn names(path: &Path) -> io::Result<Vec<OsString>> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    names.sort();
    Ok(names)
}

/// The digests that are file names in a folder, sorted.
pub(crate) fn digests(folder: &Path) -> io::Result<Vec<Digest>> {
    let digest = |name: &OsString| name.to_str()?.parse().ok();
    Ok(names(folder)?.iter().filter_map(digest).collect())
}

/// Removes a file; a missing one is no error.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match rustix::fs::unlink(path) {
        Err(rustix::io::Errno::NOENT) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A file that is being written. It gets its name when it is complete; otherwise it is removed on
/// drop.
#[derive(Debug)]
pub(crate) struct Draft {
    file: File,
    path: PathBuf,
    /// The hash of everything written; `None` if the file is not read back.
    hasher: Option<blake3::Hasher>,
    length: u64,
    /// How many bytes the kernel was asked to write back.
    written_back: u64,
    published: bool,
}

impl Draft {
    /// Creates a draft in `folder`. Its name contains the process id of the writer; its lock shows
    /// that it is in use.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        let chance = u128::from_le_bytes(random_bytes()?);
        let path = folder.join(format!("tmp.{}.{chance:032x}", std::process::id()));
        let file = create(&path)?;
        let draft = Self {
            file,
            path,
            hasher: Some(blake3::Hasher::new()),
            length: 0,
            written_back: 0,
            published: false,
        };
        rustix::fs::flock(&draft.file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(draft)
    }

    /// Makes this a draft of something that may be lost: it is not read back.
    pub(crate) fn unverified(mut self) -> Self {
        self.hasher = None;
        self
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
        self.length += bytes.len() as u64;
        self.file.write_all(bytes)?;
        if self.length - self.written_back >= WRITE_BACK_BYTES {
            self.written_back = self.length;
            self.drop_page_cache();
        }
        Ok(())
    }

    /// Drops the file from the page cache, which makes the kernel start writing dirty pages to the
    /// disk without waiting for that.
    fn drop_page_cache(&self) {
        let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
    }

    /// Makes the content durable, and reads it back.
    pub(crate) fn sync(self) -> io::Result<SyncedDraft> {
        self.file.sync_all()?;
        let written = self.hasher.as_ref().map(blake3::Hasher::finalize);
        if written != Some(self.read_back()?) {
            return Err(io::Error::other("the written data reads back differently"));
        }
        Ok(SyncedDraft(self))
    }

    /// The hash of what is on the disk, since the page cache says nothing about the disk.
    fn read_back(&self) -> io::Result<blake3::Hash> {
        if self.length >= LONG
            && let Ok(direct) = open_with(&self.path, OFlags::DIRECT)
            && let Ok(hash) = hash(&direct)
        {
            return Ok(hash);
        }
        // A file system that cannot drop the pages is read from memory, which still shows lost
        // writes.
        self.drop_page_cache();
        hash(&self.file)
    }

    /// Renames the draft without syncing content or name.
    pub(crate) fn publish_unsynced(mut self, to: &Path) -> io::Result<()> {
        rustix::fs::rename(&self.path, to)?;
        self.published = true;
        Ok(())
    }
}

/// A draft that is durable and was read back.
#[derive(Debug)]
pub(crate) struct SyncedDraft(Draft);

impl SyncedDraft {
    /// Renames the draft. The name is durable once the folder is synced. Returns the length.
    pub(crate) fn publish(self, to: &Path) -> io::Result<u64> {
        let length = self.0.length;
        self.0.publish_unsynced(to)?;
        Ok(length)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.published {
            let _ = remove(&self.path);
        }
    }
}

/// The hash of a file's content.
fn hash(file: &File) -> io::Result<blake3::Hash> {
    const ROOM: usize = 512 * 1024;
    // `O_DIRECT` needs page-aligned buffers.
    const PAGE: usize = 4096;
    let mut room = vec![0; ROOM + PAGE];
    let from = room.as_ptr().align_offset(PAGE).min(PAGE);
    let buffer = &mut room[from..from + ROOM];
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    loop {
        match file.read_at(buffer, at) {
            Ok(0) => return Ok(hasher.finalize()),
            Ok(read) => {
                hasher.update(&buffer[..read]);
                at += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The device of `folder`, if every write to a file there changes its ctime, even right after a
/// stat.
pub(crate) fn device_with_exact_stamps(folder: &Path) -> io::Result<Option<u64>> {
    const TIMES: usize = 4;
    let mut draft = Draft::new(folder)?.unverified();
    for _ in 0..TIMES {
        let before = Facts::of(&draft.file)?;
        draft.write(b"once more")?;
        if Facts::of(&draft.file)?.changed == before.changed {
            return Ok(None);
        }
    }
    Ok(Some(Facts::of(&draft.file)?.device))
}

/// Removes drafts whose writer is gone: its process ended, and no process holds the lock.
pub(crate) fn remove_stale_drafts(folder: &Path) -> io::Result<()> {
    for name in names(folder)? {
        let Some(pid) = writer_of(&name) else {
            continue;
        };
        let path = folder.join(name);
        if rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH) {
            continue;
        }
        let Ok(file) = open(&path) else { continue };
        // A process of another pid namespace looks dead from here, but its lock is visible.
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove(&path)?;
        }
    }
    Ok(())
}

fn writer_of(name: &OsString) -> Option<Pid> {
    let pid = name.to_str()?.strip_prefix("tmp.")?.split('.').next()?;
    Pid::from_raw(pid.parse().ok()?)
}

/// The total size of all files in a folder.
pub(crate) fn total_size(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for name in names(folder)? {
        // A file that vanished in the meantime counts as zero.
        bytes += std::fs::symlink_metadata(folder.join(name)).map_or(0, |file| file.len());
    }
    Ok(bytes)
}
