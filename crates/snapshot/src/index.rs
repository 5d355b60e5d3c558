//! What files looked like when they were last read, so that they need not be read again.
//!
//! A file is taken to be unchanged if its size, times (to the nanosecond), mode and inode are what
//! they were. Files that were young when they were looked at are not in the index: a write in the
//! same tick of the clock would leave no trace. A miss costs a read, never a wrong answer. A
//! damaged index is noticed by its checksum, and costs a full read.
//!
//! Folders and links are in it, too: where everything is as it was, the snapshot is the one that the
//! index was written with.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;

use crate::beneath::Facts;
use crate::entry::{Chunk, Entry, Moment};
use crate::manifest::{
    bytes, path, read_attributes, read_content, write_attributes, write_content,
};
use crate::safe::Safe;
use crate::wire::{Broken, Reader, Writer};

const MAGIC: &[u8; 8] = b"SEGNOIX2";
/// The longest index that is read, whatever its file is (P10).
const LONGEST: u64 = 4 * 1024 * 1024 * 1024;
/// How long a stamp is.
const STAMP: usize = 1 + 8 + 4 + 8 + 12 + 12;
/// A stamp this close to the beginning of the look is not trusted.
pub(crate) const YOUNG: u32 = 20_000_000;

/// Where the index of a workspace is: one for each path and device.
pub(crate) fn place(folder: &Path, workspace: &Path, device: u64) -> PathBuf {
    let digest = Digest::of_fields(&[bytes(workspace), &device.to_le_bytes()]);
    let mut name = digest.to_string();
    name.truncate(32);
    let _ = write!(name, ".index");
    folder.join(name)
}

/// Whether stamps are old enough that a later write must change them, whatever clock stamped them.
pub(crate) fn is_settled(facts: &Facts, began: Moment) -> bool {
    is_older(facts, began, YOUNG)
}

/// Whether stamps are older than so many nanoseconds, fewer than a second, before a moment.
pub(crate) fn is_older(facts: &Facts, began: Moment, nanos: u32) -> bool {
    let stamp = facts.modified.max(facts.changed);
    let limit = if began.nanos >= nanos {
        Moment {
            seconds: began.seconds,
            nanos: began.nanos - nanos,
        }
    } else {
        Moment {
            seconds: began.seconds - 1,
            nanos: began.nanos + 1_000_000_000 - nanos,
        }
    };
    stamp < limit
}

/// An index that was read.
#[derive(Debug, Default)]
pub(crate) struct Index {
    content: Vec<u8>,
    folders: HashMap<Vec<u8>, (usize, usize)>,
    /// The snapshot that was taken when it was written.
    pub(crate) snapshot: Option<Digest>,
    /// What that has.
    pub(crate) summary: Summary,
}

/// What a snapshot has, in short.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) files: u64,
    pub(crate) folders: u64,
    pub(crate) links: u64,
    pub(crate) bytes: u64,
    pub(crate) repositories: Vec<PathBuf>,
    /// Of everything that was left out.
    pub(crate) skipped: Option<Digest>,
}

impl Summary {
    fn write(&self, writer: &mut Writer) {
        for number in [self.files, self.folders, self.links, self.bytes] {
            writer.number(number);
        }
        writer.size(self.repositories.len());
        for path in &self.repositories {
            writer.bytes(bytes(path));
        }
        let skipped = self
            .skipped
            .as_ref()
            .map_or(&[][..], |digest| digest.as_bytes());
        writer.bytes(skipped);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Broken> {
        let mut summary = Self {
            files: reader.number()?,
            folders: reader.number()?,
            links: reader.number()?,
            bytes: reader.number()?,
            ..Self::default()
        };
        for _ in 0..reader.count(1)? {
            summary.repositories.push(path(reader.bytes()?));
        }
        summary.skipped = Digest::from_bytes(reader.bytes()?);
        Ok(summary)
    }
}

/// What is known of a file that has not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) attributes: Vec<(OsString, Vec<u8>)>,
    pub(crate) content: Vec<Chunk>,
}

impl Index {
    /// Reads an index; an empty one if there is none that can be used.
    pub(crate) fn read(safe: &Safe, path: &Path) -> Self {
        safe.read(path, LONGEST)
            .map_or_else(|_| Self::default(), Self::from_bytes)
    }

    /// An index from the bytes of its file; an empty one if they cannot be used.
    pub(crate) fn from_bytes(mut content: Vec<u8>) -> Self {
        let Some(length) = content.len().checked_sub(32) else {
            return Self::default();
        };
        if Digest::of(&content[..length]).as_bytes() != &content[length..] {
            return Self::default();
        }
        content.truncate(length);
        Self::scan(content).unwrap_or_default()
    }

    fn scan(content: Vec<u8>) -> Result<Self, Broken> {
        let mut reader = Reader(&content);
        if reader.take(8)? != MAGIC {
            return Err(Broken("it is not an index"));
        }
        let snapshot = Some(reader.digest()?);
        let summary = Summary::read(&mut reader)?;
        let mut folders = HashMap::new();
        while !reader.0.is_empty() {
            let path = reader.bytes()?.to_vec();
            let section = reader.bytes()?;
            let end = content.len() - reader.0.len();
            folders.insert(path, (end - section.len(), end));
        }
        Ok(Self {
            content,
            folders,
            snapshot,
            summary,
        })
    }

    /// What is known of a folder.
    pub(crate) fn folder(&self, path: &Path) -> Section<'_> {
        let range = self.folders.get(bytes(path));
        let section = range.map_or(&[][..], |&(from, to)| &self.content[from..to]);
        let mut reader = Reader(section);
        Section {
            stamp: reader.bytes().unwrap_or_default(),
            reader,
            next: None,
        }
    }
}

/// What is known of one folder, asked for in the order of its names.
pub(crate) struct Section<'a> {
    stamp: &'a [u8],
    reader: Reader<'a>,
    next: Option<Record<'a>>,
}

struct Record<'a> {
    name: &'a [u8],
    stamp: &'a [u8],
    /// Empty for a link.
    memory: &'a [u8],
}

impl<'a> Section<'a> {
    /// Whether the folder itself looks as it did: then nothing in it came or went.
    pub(crate) fn is_same(&self, facts: &Facts) -> bool {
        self.stamp == stamp(facts)
    }

    /// What is known of the file `name`, if it still looks as it did.
    pub(crate) fn find(&mut self, name: &[u8], facts: &Facts) -> Option<Memory> {
        let memory = self.seek(name, facts)?;
        (!memory.is_empty()).then(|| remember(memory).ok())?
    }

    /// Whether the link `name` looks as it did.
    pub(crate) fn has_link(&mut self, name: &[u8], facts: &Facts) -> bool {
        self.seek(name, facts).is_some_and(<[u8]>::is_empty)
    }

    fn seek(&mut self, name: &[u8], facts: &Facts) -> Option<&'a [u8]> {
        loop {
            if self.next.is_none() {
                self.next = self.record().ok();
            }
            let record = self.next.as_ref()?;
            match record.name.cmp(name) {
                Ordering::Less => self.next = None,
                Ordering::Equal if record.stamp == stamp(facts) => return Some(record.memory),
                Ordering::Equal | Ordering::Greater => return None,
            }
        }
    }

    fn record(&mut self) -> Result<Record<'a>, Broken> {
        Ok(Record {
            name: self.reader.bytes()?,
            stamp: self.reader.bytes()?,
            memory: self.reader.bytes()?,
        })
    }
}

fn remember(memory: &[u8]) -> Result<Memory, Broken> {
    let mut reader = Reader(memory);
    Ok(Memory {
        attributes: read_attributes(&mut reader)?,
        content: read_content(&mut reader)?,
    })
}

/// What must be the same for something to be taken as unchanged.
fn stamp(facts: &Facts) -> [u8; STAMP] {
    let mut stamp = [0; STAMP];
    stamp[0] = u8::from(facts.is_file()) | u8::from(facts.is_link()) << 1;
    stamp[1..9].copy_from_slice(&facts.inode.to_le_bytes());
    stamp[9..13].copy_from_slice(&facts.mode.to_le_bytes());
    stamp[13..21].copy_from_slice(&facts.size.to_le_bytes());
    for (at, moment) in [(21, facts.modified), (33, facts.changed)] {
        stamp[at..at + 8].copy_from_slice(&moment.seconds.to_le_bytes());
        stamp[at + 8..at + 12].copy_from_slice(&moment.nanos.to_le_bytes());
    }
    stamp
}

/// An index that is being written, in the order of entries.
pub(crate) struct Scribe {
    content: Writer,
    // Folders that are not done: those above the one that is being written.
    open: Vec<(PathBuf, Writer)>,
}

impl Scribe {
    /// The index of a folder that looks so itself; one that is young has no facts.
    pub(crate) fn new(snapshot: Digest, summary: &Summary, facts: Option<&Facts>) -> Self {
        let mut content = Writer(MAGIC.to_vec());
        content.digest(&snapshot);
        summary.write(&mut content);
        Self {
            content,
            open: vec![(PathBuf::new(), begun(facts))],
        }
    }

    /// Begins a folder. What was young when it was looked at has no facts.
    pub(crate) fn folder(&mut self, path: &Path, facts: Option<&Facts>) {
        self.back_to(path.parent());
        self.open.push((path.to_owned(), begun(facts)));
    }

    /// Writes down a file or a link that is settled.
    pub(crate) fn add(&mut self, entry: &Entry, facts: &Facts) {
        self.back_to(entry.path.parent());
        let Some((_, section)) = self.open.last_mut() else {
            return;
        };
        let name = entry.path.file_name().unwrap_or_default();
        section.bytes(name.as_bytes());
        section.bytes(&stamp(facts));
        let mut memory = Writer::default();
        if !facts.is_link() {
            write_attributes(&mut memory, &entry.attributes);
            write_content(&mut memory, entry.content());
        }
        section.bytes(&memory.0);
    }

    /// Ends the folders below `parent`.
    fn back_to(&mut self, parent: Option<&Path>) {
        let parent = parent.unwrap_or(Path::new(""));
        while self.open.last().is_some_and(|(folder, _)| folder != parent) {
            self.close();
        }
    }

    fn close(&mut self) {
        if let Some((folder, section)) = self.open.pop() {
            self.content.bytes(bytes(&folder));
            self.content.bytes(&section.0);
        }
    }

    /// The bytes of its file.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        while !self.open.is_empty() {
            self.close();
        }
        let check = Digest::of(&self.content.0);
        self.content.digest(&check);
        self.content.0
    }
}

/// A section, which begins with how its folder looks.
fn begun(facts: Option<&Facts>) -> Writer {
    let mut section = Writer::default();
    section.bytes(facts.map(stamp).as_ref().map_or(&[], |stamp| stamp));
    section
}
