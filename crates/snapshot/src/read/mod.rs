//! Reads a file so that the stored content existed at some instant, or marks it as unstable.
//!
//! Each attempt does stat, read, stat. If the file changed in between, it is read again, a few
//! times, with increasing pauses. A file that only grows is stored as it was at the first attempt,
//! if later ones find the same content. A file that keeps changing is stored as it was read last,
//! and marked.

mod database;
mod stamps;

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use std::os::fd::AsFd;

use rustix::io::Errno;
use segno_core::digest::Digest;

use crate::chunk::{self, LONGEST, WHOLE};
use crate::entry::{Chunk, FileTime, Why};
use crate::error::Error;
use crate::index::has_trusted_stamp;
use crate::machine::{sleep, stamp_clock};
use crate::openat::{self, Facts, ParentCache};
use crate::pack::Packer;

pub(crate) use database::database_of;
pub(crate) use stamps::Stamps;

const PAUSES: [u64; 4] = [1, 5, 25, 125];
/// How long to wait before a file that was just written is read again: more than a tick of the
/// slowest clock that stamps files, so that a continuing writer leaves a trace.
const COMPARE_WAIT: Duration = Duration::from_millis(12);
/// How often to wait for a file that was just written before it is read at all, and how long each
/// time.
const STAT_RETRIES: usize = 10;
const STAT_WAIT: Duration = Duration::from_millis(1);
/// How often a file must be seen to have only grown.
const SEEN_GROWING: usize = 3;

/// The result of an attempt to read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The file was as it was read.
    Unchanged,
    /// The file got longer, and what was read has not changed.
    Growing,
    /// The file changed.
    Changing,
}

#[derive(Debug)]
pub(crate) enum Reading {
    /// The file was stored.
    Stored(StoredFile),
    /// The file is excluded.
    Excluded(Why),
}

/// A stored file.
#[derive(Debug, Clone)]
pub(crate) struct StoredFile {
    /// Its stat data; the size is that of the content.
    pub(crate) facts: Facts,
    pub(crate) attributes: Vec<(OsString, Vec<u8>)>,
    pub(crate) content: Vec<Chunk>,
    /// It changed during every attempt.
    pub(crate) unstable: bool,
    /// It did not change, and its timestamps can be trusted later.
    pub(crate) trusted: bool,
    /// It begins like a database that may have logs.
    pub(crate) is_database: bool,
}

/// A file that was read once, with its stat data before and after.
struct Attempt {
    file: File,
    before: Facts,
    after: Facts,
    /// No process wrote to it in between.
    is_unchanged: bool,
    stored: StoredFile,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Store,
    Compare,
}

/// Returns the chunks of a file in the previous snapshot.
pub(crate) type Earlier<'a> = &'a dyn Fn(&Path) -> Vec<Chunk>;

/// One thread's reader, with a buffer that is reused.
pub(crate) struct Reader<'a, 'p> {
    root: &'a OwnedFd,
    packer: &'a mut Packer<'p>,
    earlier: Earlier<'a>,
    /// The file that is being read, and whether it begins like a database.
    path: &'a Path,
    is_database: bool,
    parent_cache: ParentCache<'a>,
    buffer: Vec<u8>,
    stamps: &'a Stamps<'a>,
}

impl<'a, 'p> Reader<'a, 'p> {
    pub(crate) fn new(
        root: &'a OwnedFd,
        stamps: &'a Stamps<'a>,
        packer: &'a mut Packer<'p>,
        earlier: Earlier<'a>,
    ) -> Self {
        Self {
            root,
            packer,
            earlier,
            path: Path::new(""),
            is_database: false,
            parent_cache: ParentCache::default(),
            buffer: Vec::new(),
            stamps,
        }
    }

    /// Whether the earlier chunks of the next files lie in one block.
    pub(crate) fn expect_neighbours(&mut self, neighbours: bool) {
        self.packer.expect_neighbours(neighbours);
    }

    /// Reads and stores the file at `path`. If it turns out to be a database, it was read only
    /// once, and the result does not say whether it was stable.
    fn read(&mut self, path: &'a Path) -> Result<Reading, Error> {
        (self.path, self.is_database) = (path, false);
        let mut pauses = PAUSES.iter();
        let mut growing: Vec<StoredFile> = Vec::new();
        loop {
            let (stored, verdict) = match self.attempt(path)? {
                Ok(attempt) => attempt,
                Err(why) => return Ok(Reading::Excluded(why)),
            };
            let stored = match verdict {
                _ if stored.is_database => return Ok(Reading::Stored(stored)),
                Verdict::Unchanged => return Ok(Reading::Stored(stored)),
                Verdict::Changing => {
                    growing.clear();
                    stored
                }
                Verdict::Growing => {
                    growing.push(stored);
                    if let Some(growing_result) = self.growing_result(path, &mut growing)? {
                        return Ok(Reading::Stored(growing_result));
                    }
                    let Some(stored) = growing.pop() else {
                        continue;
                    };
                    growing.push(stored.clone());
                    stored
                }
            };
            let Some(&millis) = pauses.next() else {
                return Ok(Reading::Stored(StoredFile {
                    unstable: true,
                    ..stored
                }));
            };
            sleep(Duration::from_millis(millis));
        }
    }

    /// For a file that was seen growing a few times and still begins with the same content: its
    /// first version.
    fn growing_result(
        &mut self,
        path: &Path,
        growing: &mut Vec<StoredFile>,
    ) -> Result<Option<StoredFile>, Error> {
        let sizes = growing.iter().map(|stored| stored.facts.size);
        if growing.len() < SEEN_GROWING || growing[0].facts.size == 0 || !sizes.is_sorted() {
            return Ok(None);
        }
        let first = growing.swap_remove(0);
        let same = match openat::file(self.root.as_fd(), path) {
            Ok(fd) => self.is_same(&mut File::from(fd), first.facts.size, &first.content)?,
            Err(_) => false,
        };
        growing.clear();
        Ok(same.then_some(first))
    }

    /// One stat, read and stat, and the result.
    fn attempt(&mut self, path: &'a Path) -> Result<Result<(StoredFile, Verdict), Why>, Error> {
        let mut attempt = match self.read_once(path)? {
            Ok(attempt) => attempt,
            Err(why) => return Ok(Err(why)),
        };
        let verdict = if attempt.is_unchanged {
            Verdict::Unchanged
        } else if attempt.stored.facts == attempt.before {
            self.compare_again(&mut attempt)?
        } else {
            Verdict::Changing
        };
        Ok(Ok((attempt.stored, verdict)))
    }

    /// Opens a file, relative to the previous file's folder if it is in the same one.
    fn open(&mut self, path: &'a Path) -> rustix::io::Result<OwnedFd> {
        let root = self.root.as_fd();
        let beside = self.parent_cache.parent(root, path);
        match beside.and_then(|(folder, name)| openat::file(folder, Path::new(name))) {
            // The folder may have been replaced since it was opened.
            Err(Errno::NOENT) => openat::file(root, path),
            opened => opened,
        }
    }

    /// Stats an open file. If it was just written, waits until a further write would leave a trace,
    /// but not for long.
    fn stat_when_old(&self, fd: &OwnedFd) -> rustix::io::Result<(FileTime, Facts)> {
        for _ in 0..STAT_RETRIES {
            let (began, facts) = (stamp_clock(), Facts::of(fd)?);
            if self.stamps.show_writes(&facts, began) {
                return Ok((began, facts));
            }
            sleep(STAT_WAIT);
        }
        Ok((stamp_clock(), Facts::of(fd)?))
    }

    /// One stat, read and stat.
    fn read_once(&mut self, path: &'a Path) -> Result<Result<Attempt, Why>, Error> {
        let opened = self
            .open(path)
            .and_then(|fd| Ok((self.stat_when_old(&fd)?, fd)));
        let ((began, before), fd) = match opened {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(Why::of(error))),
        };
        if !before.is_file() {
            return Ok(Err(Why::Unreadable(
                "its type changed during the capture".into(),
            )));
        }
        let attributes = openat::attributes(&fd);
        let mut file = File::from(fd);
        let (content, length) = match self.read_content(&mut file, before.size, Purpose::Store)? {
            Ok(taken) => taken,
            Err(error) => return Ok(Err(Why::Unreadable(error.to_string()))),
        };
        let after = Facts::of(&file).unwrap_or(before);
        let same = after == before && length == before.size;
        let stored = StoredFile {
            facts: Facts {
                size: length,
                ..before
            },
            attributes,
            content,
            unstable: false,
            trusted: same && has_trusted_stamp(&before, began),
            is_database: self.is_database,
        };
        Ok(Ok(Attempt {
            file,
            before,
            after,
            is_unchanged: same && self.stamps.show_writes(&before, began),
            stored,
        }))
    }

    /// Compares the content again. A write in the same clock tick as the one before leaves no trace
    /// in the timestamps of a recently changed file, so stat alone proves nothing. Few files pay
    /// for the pause: after some pauses, the others are no longer recent.
    fn compare_again(&mut self, attempt: &mut Attempt) -> Result<Verdict, Error> {
        let Attempt {
            file,
            before,
            after,
            stored,
            ..
        } = attempt;
        if before == after {
            sleep(COMPARE_WAIT);
        }
        let same = self.is_same(file, before.size, &stored.content)?;
        let last = Facts::of(&*file).unwrap_or(*before);
        Ok(match () {
            () if same && last == *before => Verdict::Unchanged,
            () if same && last.size > before.size => Verdict::Growing,
            () => Verdict::Changing,
        })
    }

    /// Whether the first `size` bytes are still the same.
    fn is_same(&mut self, file: &mut File, size: u64, content: &[Chunk]) -> Result<bool, Error> {
        if file.rewind().is_err() {
            return Ok(false);
        }
        let again = self.read_content(file, size, Purpose::Compare)?;
        Ok(again.is_ok_and(|(again, _)| again == content))
    }

    /// Reads up to `size` bytes. The outer error is the store's, the inner one the file's.
    fn read_content(
        &mut self,
        file: &mut File,
        size: u64,
        purpose: Purpose,
    ) -> Result<io::Result<(Vec<Chunk>, u64)>, Error> {
        let whole = usize::try_from(size).ok().filter(|_| size < WHOLE);
        if let Some(size) = whole.filter(|_| purpose == Purpose::Store) {
            return self.read_single_chunk(file, size);
        }
        let mut content = Vec::new();
        let before = OnceCell::new();
        let (mut held, mut length, mut done) = (0, 0_u64, 0_u64);
        let room = whole.unwrap_or(4 * LONGEST);
        // The buffer is kept from file to file, so that it is cleared once.
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        loop {
            let left = usize::try_from(size - length).unwrap_or(usize::MAX);
            let wanted = left.min(room - held);
            let read = match fill(file, &mut self.buffer[held..held + wanted]) {
                Ok(read) => read,
                Err(error) => return Ok(Err(error)),
            };
            held += read;
            length += read as u64;
            let ended = read < wanted || length == size;
            let mut at = 0;
            while at < held && (ended || held - at >= LONGEST) {
                let left = &self.buffer[at..held];
                if done == 0 {
                    self.is_database = left.starts_with(database::MAGIC);
                }
                let cut = if size < WHOLE {
                    left.len()
                } else {
                    chunk::cut(left)
                };
                let (earlier, path) = (self.earlier, self.path);
                let before = || before.get_or_init(|| earlier(path));
                let base = || base_chunk(before(), done + cut as u64 / 2);
                content.push(match purpose {
                    Purpose::Store => self.packer.put(&left[..cut], base)?,
                    Purpose::Compare => Chunk::of(&left[..cut]),
                });
                at += cut;
                done += cut as u64;
            }
            self.buffer.copy_within(at..held, 0);
            held -= at;
            if ended {
                return Ok(Ok((content, length)));
            }
        }
    }

    /// Does the same for a file that is one chunk, which is read directly into the packer's buffer.
    fn read_single_chunk(
        &mut self,
        file: &mut File,
        size: usize,
    ) -> Result<io::Result<(Vec<Chunk>, u64)>, Error> {
        let buffer = self.packer.buffer(size)?;
        let length = match fill(file, buffer) {
            Ok(length) => length,
            Err(error) => return Ok(Err(error)),
        };
        self.is_database = buffer[..length].starts_with(database::MAGIC);
        if length == 0 {
            return Ok(Ok((Vec::new(), 0)));
        }
        let (earlier, path) = (self.earlier, self.path);
        let base = || base_chunk(&earlier(path), length as u64 / 2);
        let piece = self.packer.put_buffered(length, base)?;
        Ok(Ok((vec![piece], length as u64)))
    }
}

/// Reads until the buffer is full or the file ends. Returns the number of bytes.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The chunk of an earlier version at the same offset, or the nearest one.
fn base_chunk(before: &[Chunk], middle: u64) -> Option<Chunk> {
    let mut end = 0;
    let mut reaches = before.iter().filter(|chunk| {
        end += u64::from(chunk.length);
        end > middle
    });
    reaches.next().or(before.last()).copied()
}

/// Whether a file has exactly this content.
pub(crate) fn has_same_content(root: &OwnedFd, path: &Path, content: &[Chunk]) -> bool {
    let compare = || -> io::Result<bool> {
        let mut file = File::from(openat::file(root.as_fd(), path)?);
        let mut buffer = Vec::new();
        for chunk in content {
            buffer.resize(chunk.length as usize, 0);
            file.read_exact(&mut buffer)?;
            if Digest::of(&buffer) != chunk.digest {
                return Ok(false);
            }
        }
        Ok(file.read(&mut [0])? == 0)
    };
    compare().unwrap_or(false)
}
