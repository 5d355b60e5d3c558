//! Reads a file so that what is kept was its content at some moment, or is marked as doubtful.
//!
//! Look, read, look again. A file that changed in between is read again, a few times, with longer
//! and longer pauses. One that only grows keeps what it had at the first look, if later readings
//! find the same. One that never stands still is kept as it was last read, and marked.

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

use crate::beneath::{self, Facts, Nearby};
use crate::chunk::{self, LONGEST, WHOLE};
use crate::entry::{Chunk, Moment, Why};
use crate::error::Error;
use crate::index::is_settled;
use crate::machine::{pause, stamp_clock};
use crate::pack::Packer;
use crate::walk::why;

pub(crate) use database::database_of;
pub(crate) use stamps::Stamps;

const PAUSES: [u64; 4] = [1, 5, 25, 125];
/// How long a file that was written a moment ago is left alone before it is read again: more than
/// a tick of the slowest clock that stamps files, so that a writer who goes on leaves a trace.
const PAUSE: Duration = Duration::from_millis(12);
/// How often, and how long each time, a file that was written a moment ago is left alone before it
/// is read at all.
const RESTS: usize = 10;
const REST: Duration = Duration::from_millis(1);
/// How often a file must be seen to have grown, and nothing else.
const SEEN_GROWING: usize = 3;

/// What looks and readings say about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It was as it was read.
    Still,
    /// It got longer, and nothing that was read has changed.
    Growing,
    /// It changed.
    Moving,
}

/// What became of a file.
#[derive(Debug)]
pub(crate) enum Reading {
    /// It was kept.
    Kept(Kept),
    /// It was left out.
    Left(Why),
}

/// A file as it was kept.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    /// How it looked; its size is that of the content.
    pub(crate) facts: Facts,
    pub(crate) attributes: Vec<(OsString, Vec<u8>)>,
    pub(crate) content: Vec<Chunk>,
    /// It never stood still.
    pub(crate) unstable: bool,
    /// It stood still, and its stamps can be trusted later.
    pub(crate) settled: bool,
    /// It begins as databases do that may have logs.
    pub(crate) is_database: bool,
}

/// A file as it was read once, and how it looked before and after.
struct Glance {
    file: File,
    before: Facts,
    after: Facts,
    /// Nobody wrote to it in between.
    is_calm: bool,
    kept: Kept,
}

/// What a file is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Keep,
    Compare,
}

/// Tells what an earlier snapshot has of a file.
pub(crate) type Earlier<'a> = &'a dyn Fn(&Path) -> Vec<Chunk>;

/// One thread's reading, with room that is used again.
pub(crate) struct Reader<'a, 'p> {
    root: &'a OwnedFd,
    packer: &'a mut Packer<'p>,
    earlier: Earlier<'a>,
    /// The file that is being read, and whether it begins as databases do.
    path: &'a Path,
    is_database: bool,
    nearby: Nearby<'a>,
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
            nearby: Nearby::default(),
            buffer: Vec::new(),
            stamps,
        }
    }

    /// Whether what an earlier snapshot has of the next files lies together.
    pub(crate) fn expect_neighbours(&mut self, neighbours: bool) {
        self.packer.expect_neighbours(neighbours);
    }

    /// Reads and keeps the file at `path`. One that turns out to be a database was read once, and
    /// nothing is said about whether it stood still.
    fn read(&mut self, path: &'a Path) -> Result<Reading, Error> {
        (self.path, self.is_database) = (path, false);
        let mut pauses = PAUSES.iter();
        let mut growing: Vec<Kept> = Vec::new();
        loop {
            let (kept, verdict) = match self.attempt(path)? {
                Ok(attempt) => attempt,
                Err(why) => return Ok(Reading::Left(why)),
            };
            let kept = match verdict {
                _ if kept.is_database => return Ok(Reading::Kept(kept)),
                Verdict::Still => return Ok(Reading::Kept(kept)),
                Verdict::Moving => {
                    growing.clear();
                    kept
                }
                Verdict::Growing => {
                    growing.push(kept);
                    if let Some(steady) = self.steady(path, &mut growing)? {
                        return Ok(Reading::Kept(steady));
                    }
                    let Some(kept) = growing.pop() else { continue };
                    growing.push(kept.clone());
                    kept
                }
            };
            let Some(&millis) = pauses.next() else {
                return Ok(Reading::Kept(Kept {
                    unstable: true,
                    ..kept
                }));
            };
            pause(Duration::from_millis(millis));
        }
    }

    /// Of a file that was seen growing a few times, and still begins as it did: how it was first.
    fn steady(&mut self, path: &Path, growing: &mut Vec<Kept>) -> Result<Option<Kept>, Error> {
        let sizes = growing.iter().map(|kept| kept.facts.size);
        if growing.len() < SEEN_GROWING || growing[0].facts.size == 0 || !sizes.is_sorted() {
            return Ok(None);
        }
        let first = growing.swap_remove(0);
        let same = match beneath::file(self.root.as_fd(), path) {
            Ok(fd) => self.is_same(&mut File::from(fd), first.facts.size, &first.content)?,
            Err(_) => false,
        };
        growing.clear();
        Ok(same.then_some(first))
    }

    /// One look, reading and second look, and what they say.
    fn attempt(&mut self, path: &'a Path) -> Result<Result<(Kept, Verdict), Why>, Error> {
        let mut glance = match self.glance(path)? {
            Ok(glance) => glance,
            Err(why) => return Ok(Err(why)),
        };
        let verdict = if glance.is_calm {
            Verdict::Still
        } else if glance.kept.facts == glance.before {
            self.judge(&mut glance)?
        } else {
            Verdict::Moving
        };
        Ok(Ok((glance.kept, verdict)))
    }

    /// Opens a file, beside the one before if it lies there.
    fn open(&mut self, path: &'a Path) -> rustix::io::Result<OwnedFd> {
        let root = self.root.as_fd();
        let beside = self.nearby.parent(root, path);
        match beside.and_then(|(folder, name)| beneath::file(folder, Path::new(name))) {
            // The folder may have been replaced since it was opened.
            Err(Errno::NOENT) => beneath::file(root, path),
            opened => opened,
        }
    }

    /// Looks at a file that is open; one that was written a moment ago is left alone until a write
    /// would leave a trace, but not for long.
    fn rest(&self, fd: &OwnedFd) -> rustix::io::Result<(Moment, Facts)> {
        for _ in 0..RESTS {
            let (began, facts) = (stamp_clock(), Facts::of(fd)?);
            if self.stamps.show_writes(&facts, began) {
                return Ok((began, facts));
            }
            pause(REST);
        }
        Ok((stamp_clock(), Facts::of(fd)?))
    }

    /// One look, reading and second look.
    fn glance(&mut self, path: &'a Path) -> Result<Result<Glance, Why>, Error> {
        let opened = self.open(path).and_then(|fd| Ok((self.rest(&fd)?, fd)));
        let ((began, before), fd) = match opened {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(why(error))),
        };
        if !before.is_file() {
            return Ok(Err(Why::Unreadable(
                "it became something else meanwhile".into(),
            )));
        }
        let attributes = beneath::attributes(&fd);
        let mut file = File::from(fd);
        let (content, length) = match self.take(&mut file, before.size, Purpose::Keep)? {
            Ok(taken) => taken,
            Err(error) => return Ok(Err(Why::Unreadable(error.to_string()))),
        };
        let after = Facts::of(&file).unwrap_or(before);
        let same = after == before && length == before.size;
        let kept = Kept {
            facts: Facts {
                size: length,
                ..before
            },
            attributes,
            content,
            unstable: false,
            settled: same && is_settled(&before, began),
            is_database: self.is_database,
        };
        Ok(Ok(Glance {
            file,
            before,
            after,
            is_calm: same && self.stamps.show_writes(&before, began),
            kept,
        }))
    }

    /// Looks and reads again. A write in the same tick as the one before leaves no trace in the
    /// stamps of a young file, so that its looks alone say nothing. The pause is paid by few: once
    /// it was made a few times, what was young is not.
    fn judge(&mut self, glance: &mut Glance) -> Result<Verdict, Error> {
        let Glance {
            file,
            before,
            after,
            kept,
            ..
        } = glance;
        if before == after {
            pause(PAUSE);
        }
        let same = self.is_same(file, before.size, &kept.content)?;
        let last = Facts::of(&*file).unwrap_or(*before);
        Ok(match () {
            () if same && last == *before => Verdict::Still,
            () if same && last.size > before.size => Verdict::Growing,
            () => Verdict::Moving,
        })
    }

    /// Whether the first `size` bytes are still the same.
    fn is_same(&mut self, file: &mut File, size: u64, content: &[Chunk]) -> Result<bool, Error> {
        if file.rewind().is_err() {
            return Ok(false);
        }
        let again = self.take(file, size, Purpose::Compare)?;
        Ok(again.is_ok_and(|(again, _)| again == content))
    }

    /// Reads up to `size` bytes. The outer error is the vault's, the inner the file's.
    fn take(
        &mut self,
        file: &mut File,
        size: u64,
        purpose: Purpose,
    ) -> Result<io::Result<(Vec<Chunk>, u64)>, Error> {
        let whole = usize::try_from(size).ok().filter(|_| size < WHOLE);
        if let Some(size) = whole.filter(|_| purpose == Purpose::Keep) {
            return self.take_whole(file, size);
        }
        let mut content = Vec::new();
        let before = OnceCell::new();
        let (mut held, mut length, mut done) = (0, 0_u64, 0_u64);
        let room = whole.unwrap_or(4 * LONGEST);
        // The room stays from file to file, so that it is cleared once.
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
                let base = || counterpart(before(), done + cut as u64 / 2);
                content.push(match purpose {
                    Purpose::Keep => self.packer.put(&left[..cut], base)?,
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

    /// The same for a file that is one piece, which is read to where it is kept.
    fn take_whole(
        &mut self,
        file: &mut File,
        size: usize,
    ) -> Result<io::Result<(Vec<Chunk>, u64)>, Error> {
        let room = self.packer.room(size)?;
        let length = match fill(file, room) {
            Ok(length) => length,
            Err(error) => return Ok(Err(error)),
        };
        self.is_database = room[..length].starts_with(database::MAGIC);
        if length == 0 {
            return Ok(Ok((Vec::new(), 0)));
        }
        let (earlier, path) = (self.earlier, self.path);
        let base = || counterpart(&earlier(path), length as u64 / 2);
        let piece = self.packer.put_room(length, base)?;
        Ok(Ok((vec![piece], length as u64)))
    }
}

/// Reads until the buffer is full or the file ends. Returns how much that was.
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

/// The piece of an earlier content that lies at the same place in the file, or nearest to it.
fn counterpart(before: &[Chunk], middle: u64) -> Option<Chunk> {
    let mut end = 0;
    let mut reaches = before.iter().filter(|chunk| {
        end += u64::from(chunk.length);
        end > middle
    });
    reaches.next().or(before.last()).copied()
}

/// Whether a file has exactly this content.
pub(crate) fn is_still(root: &OwnedFd, path: &Path, content: &[Chunk]) -> bool {
    let compare = || -> io::Result<bool> {
        let mut file = File::from(beneath::file(root.as_fd(), path)?);
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
