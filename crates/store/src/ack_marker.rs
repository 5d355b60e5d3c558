//! Acknowledgement markers: the end of each journal, stored outside the database.
//!
//! SQLite drops the tail of its write-ahead log at the first bad checksum. That is right after a
//! power cut and wrong after a flipped bit: acknowledged events would vanish silently. So after
//! every commit, the end of the session's journal is written to a small file. The marker is written
//! after the commit is durable and is itself not synced. Hence it is never ahead of the database
//! unless the database lost something or was replaced by an older copy (P2, P9).

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

/// How often a marker that changes while it is read is read again.
const READ_ATTEMPTS: usize = 8;

/// Reads the markers.
#[derive(Clone)]
pub(crate) struct AckMarkers {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AckMarker {
    /// There is no marker.
    Absent,
    /// The marker cannot be read, so it proves nothing.
    Unreadable,
    /// The journal was acknowledged up to this head.
    Acknowledged(Head),
}

impl AckMarkers {
    pub(crate) fn new(home: &Home) -> Self {
        Self {
            folder: home.heads(),
            disk: Arc::clone(home.disk()),
        }
    }

    fn path(&self, session: SessionId) -> PathBuf {
        self.folder.join(session.to_string())
    }

    pub(crate) fn read(&self, session: SessionId) -> AckMarker {
        let mut previous = None;
        for _ in 0..READ_ATTEMPTS {
            match self.disk.read(&self.path(session), 4096) {
                // Created by a run that was killed before it wrote its first marker.
                Ok(bytes) if bytes.is_empty() => return AckMarker::Absent,
                Ok(bytes) => match decode(session, &bytes) {
                    Some(head) => return AckMarker::Acknowledged(head),
                    // A marker that is just being written may be read half. If it reads the same
                    // twice, it is damaged.
                    None if previous.as_ref() == Some(&bytes) => return AckMarker::Unreadable,
                    None => previous = Some(bytes),
                },
                Err(error) if error.kind() == io::ErrorKind::NotFound => return AckMarker::Absent,
                Err(_) => return AckMarker::Unreadable,
            }
        }
        AckMarker::Unreadable
    }

    /// Every session that has a marker, and files that are not markers.
    pub(crate) fn list(&self) -> (Vec<SessionId>, Vec<PathBuf>) {
        let (mut sessions, mut others) = (Vec::new(), Vec::new());
        for path in self.disk.list(&self.folder).unwrap_or_default() {
            match path
                .file_name()
                .and_then(|name| name.to_str()?.parse().ok())
            {
                Some(session) if self.path(session) == path => sessions.push(session),
                _ => others.push(path),
            }
        }
        (sessions, others)
    }

    pub(crate) fn remove(&self, session: SessionId) -> io::Result<()> {
        self.disk.remove(&self.path(session))?;
        self.disk.sync_folder(&self.folder)
    }
}

/// What a write does to the marker of its session, once it is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkerChange {
    Unchanged,
    /// Writes the new end of the journal.
    Write(Head),
}

impl MarkerChange {
    /// The end of the journal to write, if any.
    pub(crate) fn head(self) -> Option<Head> {
        match self {
            Self::Write(head) => Some(head),
            Self::Unchanged => None,
        }
    }
}

/// Writes the marker of one session; belongs to the connection that writes.
pub(crate) struct AckWriter {
    ack_markers: AckMarkers,
    session: SessionId,
    file: Option<File>,
}

impl AckWriter {
    pub(crate) fn new(ack_markers: AckMarkers, session: SessionId) -> Self {
        Self {
            ack_markers,
            session,
            file: None,
        }
    }

    /// Writes the marker. Errors are ignored: the database has what matters, and a missing marker
    /// only means that less can be checked.
    pub(crate) fn write(&mut self, head: Head) {
        if self.file.is_none() {
            let opened = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
                .open(self.ack_markers.path(self.session));
            self.file = opened.ok();
        }
        if let Some(file) = &self.file {
            // One write of fixed length within one page: a kill leaves the old marker or the new
            // one; before the first, none or an empty one.
            let _ = file.write_all_at(encode(self.session, head).as_bytes(), 0);
        }
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
    // Comparing the whole text also rejects other spellings of the same numbers.
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

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests damage files and plant others"
)]
mod tests {
    use std::fs;

    use segno_core::time::Timestamp;
    use tempfile::TempDir;

    use super::*;
    use crate::LocalDisk;

    fn markers() -> (TempDir, AckMarkers) {
        let folder = TempDir::new().unwrap();
        let home = Home::open(folder.path().join("home"), Arc::new(LocalDisk)).unwrap();
        let markers = AckMarkers::new(&home);
        (folder, markers)
    }

    fn session(number: u16) -> SessionId {
        let [high, low] = number.to_be_bytes();
        SessionId::new(Timestamp(1), [high, low, 7, 7, 7, 7, 7, 7, 7, 7])
    }

    fn head(seq: u64) -> Head {
        let hash = Digest::of(&seq.to_le_bytes());
        Head {
            seq: Seq(seq),
            hash,
        }
    }

    #[test]
    fn newest_marker_is_read_back() {
        let (_folder, markers) = markers();
        let mut writer = AckWriter::new(markers.clone(), session(1));
        assert_eq!(markers.read(session(1)), AckMarker::Absent);
        for seq in [9, 10, 11] {
            writer.write(head(seq));
            assert_eq!(markers.read(session(1)), AckMarker::Acknowledged(head(seq)));
        }
        assert_eq!(markers.list(), (vec![session(1)], Vec::new()));
        markers.remove(session(1)).unwrap();
        assert_eq!(markers.read(session(1)), AckMarker::Absent);
        // Another writer makes the file anew.
        AckWriter::new(markers.clone(), session(1)).write(head(12));
        assert_eq!(markers.read(session(1)), AckMarker::Acknowledged(head(12)));
    }

    #[test]
    fn altered_marker_proves_nothing() {
        let (_folder, markers) = markers();
        let path = markers.path(session(1));
        fs::write(&path, b"").unwrap();
        assert_eq!(markers.read(session(1)), AckMarker::Absent, "never written");
        let text = encode(session(1), head(9)).into_bytes();
        for place in 0..text.len() {
            let mut altered = text.clone();
            altered[place] ^= 1;
            for content in [&altered, &text[..place]] {
                if !content.is_empty() {
                    fs::write(&path, content).unwrap();
                    assert_eq!(markers.read(session(1)), AckMarker::Unreadable, "{place}");
                }
            }
        }
        fs::write(&path, encode(session(2), head(9))).unwrap();
        assert_eq!(markers.read(session(1)), AckMarker::Unreadable, "another's");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(markers.read(session(1)), AckMarker::Unreadable);
    }

    #[test]
    fn files_that_are_no_markers_are_listed_apart() {
        let (_folder, markers) = markers();
        let other = markers.folder.join("notes.txt");
        let lower = markers.folder.join(session(1).to_string().to_lowercase());
        for file in [&other, &lower] {
            fs::write(file, b"x").unwrap();
        }
        let (sessions, mut others) = markers.list();
        others.sort();
        let mut expected = vec![other, lower];
        expected.sort();
        assert_eq!((sessions, others), (Vec::new(), expected));
    }
}
