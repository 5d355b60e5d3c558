//! The vault's own files: private, durable, and under their names only when they are whole and were
//! read back from the disk.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};
use rustix::process::Pid;

use crate::beneath::Facts;
use crate::machine::chance;

/// From how many bytes on a file is read back past the kernel's memory: it costs another open, and
/// saves a copy.
const LONG: u64 = 1024 * 1024;

/// How many bytes wait in memory before the disk is asked to take them.
const HANDFUL: u64 = 8 * 1024 * 1024;

/// Opens a regular file to read it; never a link, never waiting for a FIFO.
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

/// Makes a new file that only its owner may use; never through a link.
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

/// How long a file is, and its last bytes, if it has so many.
pub(crate) fn end<const N: usize>(path: &Path) -> io::Result<(u64, Option<[u8; N]>)> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    let Some(from) = length.checked_sub(N as u64) else {
        return Ok((length, None));
    };
    let mut end = [0; N];
    file.read_exact_at(&mut end, from)?;
    Ok((length, Some(end)))
}

/// Makes a folder that only its owner may use, and its missing parents.
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

/// Removes a file; one that is not there is no error.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match rustix::fs::unlink(path) {
        Err(rustix::io::Errno::NOENT) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A file that is being written. It gets its name when it is whole, or goes.
#[derive(Debug)]
pub(crate) struct Draft {
    file: File,
    path: PathBuf,
    /// Of everything that was handed to the disk; none if it is not read back.
    hasher: Option<blake3::Hasher>,
    length: u64,
    /// How much of it the disk was asked to take.
    handed: u64,
    published: bool,
}

impl Draft {
    /// Begins a draft in `folder`. Its name says whose it is; its lock says that it is still wanted.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        let chance = u128::from_le_bytes(chance()?);
        let path = folder.join(format!("tmp.{}.{chance:032x}", std::process::id()));
        let file = create(&path)?;
        let draft = Self {
            file,
            path,
            hasher: Some(blake3::Hasher::new()),
            length: 0,
            handed: 0,
            published: false,
        };
        rustix::fs::flock(&draft.file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(draft)
    }

    /// The same, of something that can be lost.
    pub(crate) fn passing(mut self) -> Self {
        self.hasher = None;
        self
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
        self.length += bytes.len() as u64;
        self.file.write_all(bytes)?;
        if self.length - self.handed >= HANDFUL {
            self.handed = self.length;
            self.let_go();
        }
        Ok(())
    }

    /// Lets the kernel forget what it has of the file, which makes it write what is new to the disk
    /// and not wait for that.
    fn let_go(&self) {
        let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
    }

    /// Makes the content durable, and reads it back.
    pub(crate) fn settle(self) -> io::Result<Settled> {
        self.file.sync_all()?;
        let written = self.hasher.as_ref().map(blake3::Hasher::finalize);
        if written != Some(self.read_back()?) {
            return Err(io::Error::other(
                "what was written to the disk reads back as something else",
            ));
        }
        Ok(Settled(self))
    }

    /// The hash of what the disk has. What the kernel remembers of the writing says nothing about
    /// the disk.
    fn read_back(&self) -> io::Result<blake3::Hash> {
        if self.length >= LONG
            && let Ok(direct) = open_with(&self.path, OFlags::DIRECT)
            && let Ok(hash) = hash(&direct)
        {
            return Ok(hash);
        }
        // A file system that cannot forget it is read from memory, which still shows writes that
        // were lost on the way.
        self.let_go();
        hash(&self.file)
    }

    /// Gives the content its name, and leaves it to the system when both reach the disk.
    pub(crate) fn publish_unsynced(mut self, to: &Path) -> io::Result<()> {
        rustix::fs::rename(&self.path, to)?;
        self.published = true;
        Ok(())
    }
}

/// A draft that the disk has as it was written.
#[derive(Debug)]
pub(crate) struct Settled(Draft);

impl Settled {
    /// Gives it its name, which is durable once the folder is. Returns how long it is.
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

/// The hash of all that is in a file.
fn hash(file: &File) -> io::Result<blake3::Hash> {
    const ROOM: usize = 512 * 1024;
    // Reading past the kernel's memory is for whole pages of ours.
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

/// The device of `folder`, if each write to a file there that follows a look at it is stamped later than
/// what was seen.
pub(crate) fn exactly_stamped(folder: &Path) -> io::Result<Option<u64>> {
    const TIMES: usize = 4;
    let mut draft = Draft::new(folder)?.passing();
    for _ in 0..TIMES {
        let before = Facts::of(&draft.file)?;
        draft.write(b"once more")?;
        if Facts::of(&draft.file)?.changed == before.changed {
            return Ok(None);
        }
    }
    Ok(Some(Facts::of(&draft.file)?.device))
}

/// Removes drafts whose writer is gone: its process ended, and nobody holds the lock.
pub(crate) fn sweep_drafts(folder: &Path) -> io::Result<()> {
    for name in names(folder)? {
        let Some(pid) = writer_of(&name) else {
            continue;
        };
        let path = folder.join(name);
        if rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH) {
            continue;
        }
        let Ok(file) = open(&path) else { continue };
        // A process of another namespace looks dead from here; its lock does not.
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

/// How long all files in a folder are, together.
pub(crate) fn lengths(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for name in names(folder)? {
        // One that went away in the meantime takes nothing.
        bytes += std::fs::symlink_metadata(folder.join(name)).map_or(0, |file| file.len());
    }
    Ok(bytes)
}
