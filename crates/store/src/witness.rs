//! What was acknowledged, kept outside the database.
//!
//! SQLite drops the tail of its write-ahead log at the first bad checksum, which is right after a
//! power cut and wrong after a flipped bit: acknowledged entries would vanish without a word. So
//! after every commit the end of the session's journal is noted in a small file. The note is
//! written after the commit is durable and is itself not synced, hence never ahead of the database
//! unless the database lost something or was replaced by an older copy (P2, P9).

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::OFlags;
use segno_core::digest::Digest;
use segno_core::id::SessionId;
use segno_core::journal::{Head, Seq};
use segno_core::ports::Disk;

use crate::home::Home;

/// How often a note that changes under the reader is looked at.
const LOOKS: usize = 8;

/// Open files are kept for this many sessions.
const MOST_OPEN: usize = 256;

/// Reads the notes.
#[derive(Clone)]
pub(crate) struct Witness {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
}

/// What a note says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note {
    /// Nothing: there is none.
    Absent,
    /// It cannot be read, so it says nothing.
    Unreadable,
    /// The journal was acknowledged up to here.
    Acknowledged(Head),
}

impl Witness {
    pub(crate) fn new(home: &Home) -> Self {
        Self {
            folder: home.heads(),
            disk: Arc::clone(home.disk()),
        }
    }

    fn path(&self, session: SessionId) -> PathBuf {
        self.folder.join(session.to_string())
    }

    pub(crate) fn read(&self, session: SessionId) -> Note {
        let mut seen = None;
        for _ in 0..LOOKS {
            match self.disk.read(&self.path(session), 4096) {
                // Made by a run that was killed before it wrote its first note.
                Ok(bytes) if bytes.is_empty() => return Note::Absent,
                Ok(bytes) => match decode(session, &bytes) {
                    Some(head) => return Note::Acknowledged(head),
                    // A note that is just being written may be seen half. Seen twice, it is damaged.
                    None if seen.as_ref() == Some(&bytes) => return Note::Unreadable,
                    None => seen = Some(bytes),
                },
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Note::Absent,
                Err(_) => return Note::Unreadable,
            }
        }
        Note::Unreadable
    }

    /// Every session that has a note, and files that are none.
    pub(crate) fn list(&self) -> (Vec<SessionId>, Vec<PathBuf>) {
        let (mut sessions, mut strangers) = (Vec::new(), Vec::new());
        for path in self.disk.list(&self.folder).unwrap_or_default() {
            match path
                .file_name()
                .and_then(|name| name.to_str()?.parse().ok())
            {
                Some(session) if self.path(session) == path => sessions.push(session),
                _ => strangers.push(path),
            }
        }
        (sessions, strangers)
    }

    pub(crate) fn remove(&self, session: SessionId) -> io::Result<()> {
        self.disk.remove(&self.path(session))?;
        self.disk.sync_folder(&self.folder)
    }
}

/// Writes the notes; belongs to the thread that commits.
pub(crate) struct Notary {
    witness: Witness,
    open: HashMap<SessionId, File>,
}

impl Notary {
    pub(crate) fn new(witness: Witness) -> Self {
        Self {
            witness,
            open: HashMap::new(),
        }
    }

    /// Notes the end of a journal. A note that cannot be written is left out: the database has
    /// what matters, and a missing note only means less to compare with.
    pub(crate) fn note(&mut self, session: SessionId, head: Head) {
        if self.open.len() >= MOST_OPEN && !self.open.contains_key(&session) {
            self.open.clear();
        }
        let file = match self.open.entry(session) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let opened = OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .mode(0o600)
                    .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
                    .open(self.witness.path(session));
                match opened {
                    Ok(file) => entry.insert(file),
                    Err(_) => return,
                }
            }
        };
        // One write of fixed length within one page: a kill leaves the old note or the new one, and
        // none or an empty one before the first.
        let _ = file.write_all_at(encode(session, head).as_bytes(), 0);
    }

    pub(crate) fn forget(&mut self, session: SessionId) {
        self.open.remove(&session);
    }
}

fn encode(session: SessionId, head: Head) -> String {
    let check = check(session, head);
    format!("{:020} {} {check}\n", head.seq, head.hash)
}

fn decode(session: SessionId, bytes: &[u8]) -> Option<Head> {
    let line = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let mut words = line.split(' ');
    let (seq, hash) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let head = Head {
        seq: Seq(seq),
        hash,
    };
    // Comparing the whole text also refuses other spellings of the same numbers.
    (encode(session, head).as_bytes() == bytes).then_some(head)
}

fn check(session: SessionId, head: Head) -> String {
    let fields = [
        session.to_string(),
        head.seq.to_string(),
        head.hash.to_string(),
    ];
    Digest::of_fields(&fields.each_ref().map(String::as_bytes)).short()
}
