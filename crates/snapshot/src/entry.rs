//! What a snapshot says about each thing in the folder.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use segno_core::digest::Digest;

/// A time as the file system keeps it: seconds since 1970 UTC, and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment {
    /// Seconds since 1970 UTC; negative before.
    pub seconds: i64,
    /// Nanoseconds after that.
    pub nanos: u32,
}

/// A file, folder or link of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it is, below the folder that was captured; empty for that folder itself.
    pub path: PathBuf,
    /// The permission bits, setuid, setgid and sticky included.
    pub mode: u32,
    /// When it was last changed.
    pub modified: Moment,
    /// Extended attributes (`user.*`), sorted by name.
    pub attributes: Vec<(OsString, Vec<u8>)>,
    /// What it is.
    pub kind: Kind,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A folder; an empty one, too.
    Folder,
    /// A regular file.
    File {
        /// How long it is.
        size: u64,
        /// Its content, in order.
        content: Vec<Chunk>,
        /// It changed while it was read, every time: its content may never have existed as such.
        unstable: bool,
    },
    /// A symbolic link.
    Link {
        /// What it says.
        target: PathBuf,
    },
    /// Another name of the same file (a hard link).
    Twin {
        /// The name under which the file is described; it comes earlier.
        of: PathBuf,
    },
}

/// A piece of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chunk {
    /// The BLAKE3 hash of its bytes.
    pub digest: Digest,
    /// How many bytes it has.
    pub length: u32,
}

/// Something that is not in the snapshot though it was in the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Where it was.
    pub path: PathBuf,
    /// Why it was left out.
    pub why: Why,
}

/// Why something was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// A rule of the scope says so.
    Rule(String),
    /// It is a FIFO, a socket or a device.
    Special(String),
    /// It could not be read.
    Unreadable(String),
    /// It went away while it was being captured.
    Vanished,
    /// It lies on another file system.
    OtherFileSystem,
    /// It is the vault itself.
    Vault,
    /// The budget of files, bytes or time was used up.
    Budget(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Rule(rule) => write!(f, "left out by the rule {rule}"),
            Why::Special(what) => write!(f, "it is a {what}"),
            Why::Unreadable(reason) => write!(f, "it cannot be read: {reason}"),
            Why::Vanished => f.write_str("it went away in the meantime"),
            Why::OtherFileSystem => f.write_str("it lies on another file system"),
            Why::Vault => f.write_str("snapshots are kept there"),
            Why::Budget(what) => write!(f, "no {what} left for it"),
        }
    }
}

impl Entry {
    /// An entry with nothing special about it.
    #[cfg(test)]
    pub(crate) fn plain(path: &str, kind: Kind) -> Self {
        Self {
            path: path.into(),
            mode: 0o644,
            modified: Moment::default(),
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

    /// The pieces of a file's content; none for everything else.
    pub fn content(&self) -> &[Chunk] {
        match &self.kind {
            Kind::File { content, .. } => content,
            _ => &[],
        }
    }
}

impl Chunk {
    /// These bytes as a piece.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self {
            digest: Digest::of(bytes),
            length: u32::try_from(bytes.len()).expect("a piece has at most 1 MiB"),
        }
    }
}
