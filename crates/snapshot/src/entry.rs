//! The entries of a snapshot: files, folders and links.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use rustix::io::Errno;
use segno_core::digest::Digest;

/// A file system timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileTime {
    /// Seconds since 1970 UTC; negative before.
    pub seconds: i64,
    pub nanos: u32,
}

/// A file, folder or link of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the captured folder; empty for that folder itself.
    pub path: PathBuf,
    /// The permission bits, including setuid, setgid and sticky.
    pub mode: u32,
    pub modified: FileTime,
    /// Extended attributes (`user.*`), sorted by name.
    pub attributes: Vec<(OsString, Vec<u8>)>,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A folder, possibly empty.
    Folder,
    File {
        size: u64,
        /// The chunks of the content, in order.
        content: Vec<Chunk>,
        /// The file changed during every attempt to read it: its content may never have existed as
        /// such.
        unstable: bool,
    },
    /// A symbolic link.
    Link { target: PathBuf },
    /// Another name of a file (a hard link).
    HardLink {
        /// The first name of the file, whose entry describes it and comes earlier.
        of: PathBuf,
    },
}

/// The type of an entry, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryType {
    Folder,
    File,
    Link,
    HardLink,
}

impl EntryType {
    pub(crate) fn of(entry: &Entry) -> Self {
        match entry.kind {
            Kind::Folder => EntryType::Folder,
            Kind::File { .. } => EntryType::File,
            Kind::Link { .. } => EntryType::Link,
            Kind::HardLink { .. } => EntryType::HardLink,
        }
    }
}

/// A piece of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chunk {
    /// The BLAKE3 hash of its bytes.
    pub digest: Digest,
    pub length: u32,
}

/// Something that was in the folder and is excluded from the snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub path: PathBuf,
    pub why: Why,
}

/// Why a path is excluded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// A rule of the scope excludes it.
    Rule(String),
    /// It is a FIFO, a socket or a device.
    Special(String),
    Unreadable(String),
    /// It vanished during the capture.
    Vanished,
    OtherFileSystem,
    /// It is Segno's home or the snapshot store itself.
    Store,
    /// The budget of files, bytes or time was exhausted.
    Budget(String),
}

impl Why {
    /// Why something could not be read.
    pub(crate) fn of(error: Errno) -> Self {
        match error {
            Errno::NOENT => Why::Vanished,
            Errno::LOOP | Errno::NOTDIR => {
                Why::Unreadable("its type changed during the capture".into())
            }
            error => Why::Unreadable(std::io::Error::from(error).to_string()),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Rule(rule) => write!(f, "excluded by rule: {rule}"),
            Why::Special(what) => write!(f, "it is a {what}"),
            Why::Unreadable(reason) => write!(f, "it cannot be read: {reason}"),
            Why::Vanished => f.write_str("it vanished during the capture"),
            Why::OtherFileSystem => f.write_str("it is on another file system"),
            Why::Store => f.write_str("it belongs to Segno itself"),
            Why::Budget(what) => write!(f, "the limit of {what} is reached"),
        }
    }
}

impl Entry {
    /// An entry with default metadata.
    #[cfg(test)]
    pub(crate) fn plain(path: &str, kind: Kind) -> Self {
        Self {
            path: path.into(),
            mode: 0o644,
            modified: FileTime::default(),
            attributes: Vec::new(),
            kind,
        }
    }

    /// The length of a file's content; 0 for everything else.
    pub fn size(&self) -> u64 {
        match self.kind {
            Kind::File { size, .. } => size,
            _ => 0,
        }
    }

    /// The chunks of a file's content; none for everything else.
    pub fn content(&self) -> &[Chunk] {
        match &self.kind {
            Kind::File { content, .. } => content,
            _ => &[],
        }
    }
}

impl Chunk {
    /// The chunk with these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self {
            digest: Digest::of(bytes),
            length: u32::try_from(bytes.len()).expect("a chunk has at most 1 MiB"),
        }
    }
}
