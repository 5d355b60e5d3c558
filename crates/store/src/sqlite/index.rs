//! The index of sessions: a cache that finds the sessions of a list without opening every database.
//!
//! The file `index` has for each session its status, its workspace, and the state of its database's
//! files when these were read. It may lag behind, be deleted or be damaged at any time: its checksum
//! tells. Who lists sessions also updates it; nobody waits for anybody, and the last one wins. What
//! is listed is true anyway, because every session that is returned is read from its own database:
//!
//! - New and vanished sessions are noticed by the time at which their folder changed.
//! - A session that was not over when the index was written is compared with the state of its files,
//!   and read again if they changed.
//! - A session that is over changes its workspace only with [`Index::forget`].

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use segno_core::digest::Digest;
use segno_core::id::SessionId;
use segno_core::ports::Access;
use segno_core::session::Status;
use segno_core::store::{Error, Filter, Summary};
use segno_core::time::Timestamp;

use super::names::Names;
use crate::home::Home;

/// The beginning of the file; the number is that of its format.
const MAGIC: &[u8; 16] = b"segno index v01\n";

/// The longest index that is read: about two million sessions.
const MAX_BYTES: u64 = 100 << 20;

/// Files that changed less than this before they were looked at may change again without a new time.
const TICK: Duration = Duration::from_millis(100);

/// How the truth about a session is read.
pub(super) type ReadSummary<'a> = &'a dyn Fn(SessionId) -> Result<Summary, Error>;

pub(super) struct Index {
    home: Home,
    drafts: AtomicU64,
}

/// The content of the index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Content {
    /// When the folders `sessions` and `heads` changed last, if the entries have all of them.
    folders: [Short; 2],
    entries: BTreeMap<SessionId, Entry>,
}

/// A digest that tells whether something changed; all zeros say nothing.
type Short = [u8; 8];

const UNKNOWN: Short = [0; 8];

/// What the index knows about a session; nothing, by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Entry {
    status: Option<Status>,
    workspace: Short,
    files: Short,
}

impl Entry {
    const BYTES: usize = 16 + 1 + 8 + 8;

    /// Whether status and workspace are those in the session's database.
    fn is_current(&self, files: impl FnOnce() -> Short) -> bool {
        self.status.is_some_and(|status| {
            status.is_final() || (self.files != UNKNOWN && self.files == files())
        })
    }

    /// Whether the session may pass a filter for status and workspace.
    fn may_pass(&self, filter: &Filter) -> bool {
        let Some(status) = self.status else {
            return true;
        };
        let statuses = filter.statuses.as_ref();
        let workspace = filter.workspace.as_ref();
        statuses.is_none_or(|statuses| statuses.contains(&status))
            && workspace.is_none_or(|workspace| short(workspace.as_bytes()) == self.workspace)
    }
}

impl Index {
    pub(super) fn new(home: Home) -> Self {
        Self {
            home,
            drafts: AtomicU64::new(0),
        }
    }

    /// The sessions that pass the filter, newest first, except those in the trash.
    pub(super) fn list(
        &self,
        filter: &Filter,
        trashed: &BTreeSet<SessionId>,
        now: Timestamp,
        read: ReadSummary<'_>,
    ) -> Vec<Result<Summary, Error>> {
        let before = self.load();
        let mut content = before.clone();
        self.compare_folders(&mut content, now);
        let named = filter.prefix.as_ref().map(|prefix| self.named(prefix));
        let mut missing = filter.limit.unwrap_or(usize::MAX);
        let mut listed = Vec::new();
        for (id, entry) in content.entries.iter_mut().rev() {
            if missing == 0 {
                break;
            }
            let is_meant = !trashed.contains(id)
                && filter.before.is_none_or(|before| *id < before)
                && named.as_ref().is_none_or(|named| named.matches(*id));
            if !is_meant {
                continue;
            }
            // Before the database is read: a change in between must not be missed.
            let files = files(&self.home.journal(*id), now);
            if entry.is_current(|| files) && !entry.may_pass(filter) {
                continue;
            }
            let found = read(*id);
            *entry = match &found {
                Ok(summary) => Entry {
                    status: Some(summary.status),
                    workspace: short(summary.workspace.as_bytes()),
                    files,
                },
                Err(_) => Entry::default(),
            };
            match found {
                Ok(summary) if filter.accepts(&summary) => {
                    missing -= 1;
                    listed.push(Ok(summary));
                }
                // Without a session: its folder belongs to one that is being created.
                Ok(_) | Err(Error::NoSession(_)) => {}
                Err(error) => listed.push(Err(error)),
            }
        }
        if content != before {
            self.store(&content);
        }
        listed
    }

    /// Makes the next list read a session again.
    pub(super) fn forget(&self, session: SessionId) {
        let mut content = self.load();
        if content.entries.insert(session, Entry::default()).is_some() {
            self.store(&content);
        }
    }

    /// The sessions whose name or id begins like this.
    fn named(&self, prefix: &str) -> Prefixed {
        Prefixed {
            id: prefix.to_ascii_uppercase(),
            names: Names::new(&self.home).with_prefix(prefix),
        }
    }

    /// Adds the sessions that the index does not know, and removes those that are gone.
    fn compare_folders(&self, content: &mut Content, now: Timestamp) {
        let folders = [self.home.sessions(), self.home.heads()];
        let states = folders.each_ref().map(|folder| changed(folder, now));
        if states == content.folders && !states.contains(&UNKNOWN) {
            return;
        }
        let mut present = BTreeSet::new();
        for folder in &folders {
            for entry in self.home.disk().list(folder).unwrap_or_default() {
                let name = entry.file_name().and_then(|name| name.to_str());
                present.extend(name.and_then(|name| name.parse::<SessionId>().ok()));
            }
        }
        content.entries.retain(|id, _| present.contains(id));
        for id in present {
            content.entries.entry(id).or_default();
        }
        content.folders = states;
    }

    /// The content; empty if there is none that is intact.
    fn load(&self) -> Content {
        let bytes = self.home.disk().read(&self.home.index(), MAX_BYTES);
        bytes
            .ok()
            .and_then(|bytes| decode(&bytes))
            .unwrap_or_default()
    }

    /// Replaces the index. Not synced: after a power cut, the checksum tells.
    fn store(&self, content: &Content) {
        let number = self.drafts.fetch_add(1, Ordering::Relaxed);
        let draft = format!("index.draft-{}-{number}", std::process::id());
        let draft = self.home.root().join(draft);
        let disk = self.home.disk();
        let _ = disk.remove(&draft);
        let written = disk
            .create(&draft, &encode(content), Access::Private)
            .and_then(|()| disk.rename(&draft, &self.home.index()));
        // A full or read-only disk has no index, and lists all the same.
        if written.is_err() {
            let _ = disk.remove(&draft);
        }
    }
}

struct Prefixed {
    id: String,
    names: BTreeSet<SessionId>,
}

impl Prefixed {
    fn matches(&self, session: SessionId) -> bool {
        self.names.contains(&session) || session.to_string().starts_with(&self.id)
    }
}

fn short(bytes: &[u8]) -> Short {
    let digest = Digest::of(bytes);
    let mut short = UNKNOWN;
    short.copy_from_slice(&digest.as_bytes()[..8]);
    short
}

/// When the entries of a folder changed last.
fn changed(folder: &Path, now: Timestamp) -> Short {
    match std::fs::metadata(folder) {
        Ok(found) if is_settled(&found, now) => {
            let (seconds, rest, inode) = (found.mtime(), found.mtime_nsec(), found.ino());
            short(format!("{seconds}.{rest} {inode}").as_bytes())
        }
        _ => UNKNOWN,
    }
}

/// The state of a database and of its log.
fn files(database: &Path, now: Timestamp) -> Short {
    use std::fmt::Write;
    let mut log = database.to_owned().into_os_string();
    log.push("-wal");
    let mut state = String::new();
    for path in [database, Path::new(&log)] {
        match std::fs::symlink_metadata(path) {
            Ok(found) if is_settled(&found, now) => {
                let (seconds, rest) = (found.mtime(), found.mtime_nsec());
                let (length, inode) = (found.len(), found.ino());
                let _ = write!(state, "{seconds}.{rest} {length} {inode}; ");
            }
            Ok(_) => return UNKNOWN,
            Err(_) => state.push_str("absent; "),
        }
    }
    short(state.as_bytes())
}

/// Whether the file cannot change any more without getting a new time. A wall clock that is behind
/// the file says no (P15).
fn is_settled(found: &std::fs::Metadata, now: Timestamp) -> bool {
    let tick = i64::try_from(TICK.as_millis()).unwrap_or(i64::MAX);
    let changed = found.mtime().saturating_mul(1000);
    let changed = changed.saturating_add(found.mtime_nsec() / 1_000_000);
    changed.saturating_add(tick) < now.0
}

fn encode(content: &Content) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(content.folders.as_flattened());
    for (id, entry) in &content.entries {
        bytes.extend(id.to_bytes());
        let status = entry.status.and_then(position);
        bytes.push(status.unwrap_or(u8::MAX));
        bytes.extend(entry.workspace);
        bytes.extend(entry.files);
    }
    let digest = Digest::of(&bytes);
    bytes.extend(digest.as_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<Content> {
    let (content, digest) = bytes.split_last_chunk::<32>()?;
    if Digest::of(content).as_bytes() != digest {
        return None;
    }
    let rest = content.strip_prefix(MAGIC)?;
    let (sessions, rest) = rest.split_first_chunk::<8>()?;
    let (heads, rest) = rest.split_first_chunk::<8>()?;
    let mut entries = Vec::with_capacity(rest.len() / Entry::BYTES);
    for bytes in rest.chunks(Entry::BYTES) {
        let (id, rest) = bytes.split_first_chunk::<16>()?;
        let (status, rest) = rest.split_first()?;
        let (workspace, files) = rest.split_first_chunk::<8>()?;
        let entry = Entry {
            status: Status::ALL.get(usize::from(*status)).copied(),
            workspace: *workspace,
            files: files.try_into().ok()?,
        };
        entries.push((SessionId::from_bytes(*id), entry));
    }
    Some(Content {
        folders: [*sessions, *heads],
        entries: entries.into_iter().collect(),
    })
}

fn position(status: Status) -> Option<u8> {
    let position = Status::ALL.iter().position(|known| *known == status)?;
    u8::try_from(position).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content() -> Content {
        let id = |n: u8| SessionId::new(Timestamp(1_794_738_089_000), [n; 10]);
        let entry = |status| Entry {
            status,
            workspace: [3; 8],
            files: [4; 8],
        };
        let statuses = Status::ALL.iter().map(|status| Some(*status));
        let statuses = statuses.chain([None]);
        Content {
            folders: [[1; 8], [2; 8]],
            entries: (1..).map(id).zip(statuses.map(entry)).collect(),
        }
    }

    #[test]
    fn index_reads_back() {
        let bytes = encode(&content());
        assert_eq!(bytes.len(), 16 + 16 + 10 * Entry::BYTES + 32);
        assert_eq!(decode(&bytes), Some(content()));
        assert_eq!(
            decode(&encode(&Content::default())),
            Some(Content::default())
        );
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = encode(&content());
        for position in 0..bytes.len() {
            assert_eq!(decode(&bytes[..position]), None);
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[position] ^= 1 << bit;
                assert_eq!(decode(&bytes), None);
            }
        }
    }
}
