//! Notices that are not delivered yet, as files below the home: they survive a kill.
//!
//! ```text
//! notices/outbox/SESSION-SEQ-KIND.json   a notice and its targets
//! notices/state.json                     rate limits and last errors, by target
//! notices/dropped                        one byte per notice that was dropped
//! notices/lock                           held while notices are delivered
//! ```
//!
//! A file appears complete. Its name is the id of the notice, so a notice is queued once. Only the
//! process that holds the lock changes and removes files; any process adds them.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, flock};
use segno_core::ports::{Access, Disk, replace_file};
use segno_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::notice::Notice;
use super::rate::Bucket;

/// How many undelivered notices are stored. A new one replaces that of the oldest session.
const MAX_ENTRIES: usize = 1000;

/// A file of a notice is much smaller.
const MAX_BYTES: u64 = 256 << 10;

/// Numbers the drafts of this process.
static DRAFTS: AtomicU64 = AtomicU64::new(0);

/// An undelivered notice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    v: u32,
    pub notice: Notice,
    /// The targets that have not got it.
    pub targets: BTreeMap<String, Delivery>,
}

/// The delivery of a notice to one target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    pub attempts: u32,
    /// When the next attempt is due, in milliseconds since 1970.
    #[serde(default)]
    pub(super) next_at_ms: i64,
    /// Whether an attempt has begun and its outcome is not stored.
    #[serde(default)]
    pub(super) is_in_flight: bool,
    /// Whether an earlier attempt may have arrived.
    #[serde(default)]
    pub(super) may_have_arrived: bool,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What is stored about the targets between processes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct TargetStates(pub(super) BTreeMap<String, TargetState>);

/// What is stored about one target.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TargetState {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bucket: Option<Bucket>,
    /// The last error, until a notice is delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How many notices were given up.
    #[serde(default)]
    pub given_up: u64,
}

#[derive(Clone)]
pub(super) struct Outbox {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
}

impl Outbox {
    pub(super) fn new(folder: PathBuf, disk: Arc<dyn Disk>) -> Self {
        Self { folder, disk }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn entries_folder(&self) -> PathBuf {
        self.folder.join("outbox")
    }

    fn file(&self, id: &str) -> PathBuf {
        self.entries_folder().join(format!("{id}.json"))
    }

    fn draft(&self) -> PathBuf {
        let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}.draft", std::process::id());
        self.folder.join(name)
    }

    /// Queues a notice for these targets, durably. A notice that is queued already stays as it is.
    pub(super) fn put(&self, notice: &Notice, targets: Vec<String>) -> io::Result<()> {
        let folder = self.entries_folder();
        self.disk.create_folder(&folder, Access::Private)?;
        let queued = self.disk.list(&folder)?;
        let excess = (queued.len() + 1).saturating_sub(MAX_ENTRIES);
        for oldest in &queued[..excess] {
            self.disk.remove(oldest)?;
            self.count_dropped();
        }
        let entry = Entry {
            v: 1,
            notice: notice.clone(),
            targets: targets
                .into_iter()
                .map(|name| (name, Delivery::default()))
                .collect(),
        };
        let body = serde_json::to_vec(&entry)?;
        let draft = self.draft();
        self.disk.create(&draft, &body, Access::Private)?;
        match self.disk.publish(&draft, &self.file(&notice.id())) {
            Ok(()) => self.disk.sync_folder(&folder),
            Err(error) => {
                let _ = self.disk.remove(&draft);
                match error.kind() {
                    io::ErrorKind::AlreadyExists => Ok(()),
                    _ => Err(error),
                }
            }
        }
    }

    /// All undelivered notices, in the order of each session's events. Files that cannot be
    /// understood are skipped: they are of a newer version.
    pub(super) fn list(&self) -> io::Result<Vec<Entry>> {
        let paths = self.disk.list(&self.entries_folder())?;
        let mut entries = Vec::new();
        for path in paths {
            match self.disk.read(&path, MAX_BYTES) {
                Ok(body) => entries.extend(serde_json::from_slice::<Entry>(&body).ok()),
                // Another process delivered it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(entries)
    }

    pub(super) fn is_empty(&self) -> bool {
        let listed = self.disk.list(&self.entries_folder());
        listed.is_ok_and(|paths| paths.is_empty())
    }

    /// Stores a changed entry, or removes it if no target is left.
    pub(super) fn update(&self, entry: &Entry) -> io::Result<()> {
        let path = self.file(&entry.notice.id());
        if entry.targets.is_empty() {
            return self.disk.remove(&path);
        }
        self.replace(&path, &serde_json::to_vec(entry)?)
    }

    fn replace(&self, path: &Path, body: &[u8]) -> io::Result<()> {
        let draft = path.with_extension("draft");
        // The draft is beside the folder of the entries, which has complete files only.
        let draft = self.folder.join(draft.file_name().unwrap_or_default());
        replace_file(&*self.disk, &draft, path, body, Access::Private, |_| {})
    }

    fn states_file(&self) -> PathBuf {
        self.folder.join("state.json")
    }

    /// What is stored about the targets. A file that cannot be read is replaced: it only limits
    /// rates.
    pub(super) fn states(&self) -> TargetStates {
        let read = self.disk.read(&self.states_file(), MAX_BYTES);
        read.ok()
            .and_then(|body| serde_json::from_slice(&body).ok())
            .unwrap_or_default()
    }

    pub(super) fn store_states(&self, states: &TargetStates) -> io::Result<()> {
        self.replace(&self.states_file(), &serde_json::to_vec(states)?)
    }

    /// Counts a notice that was dropped because there were too many, or because it was too old.
    pub(super) fn count_dropped(&self) {
        let _ = self
            .disk
            .append(&self.folder.join("dropped"), b".", Access::Private);
    }

    pub(super) fn dropped(&self) -> usize {
        let read = self.disk.read(&self.folder.join("dropped"), MAX_BYTES);
        read.map_or(0, |body| body.len())
    }

    /// The right to deliver, until the file is closed; `None` if another process has it. Also
    /// removes the drafts that killed processes left.
    pub(super) fn lock(&self) -> io::Result<Option<File>> {
        self.disk.create_folder(&self.folder, Access::Private)?;
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.folder.join("lock"))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                self.remove_drafts()?;
                Ok(Some(lock))
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn remove_drafts(&self) -> io::Result<()> {
        for path in self.disk.list(&self.folder)? {
            if path
                .extension()
                .is_some_and(|extension| extension == "draft")
                && !is_of_living_process(&path)
            {
                self.disk.remove(&path)?;
            }
        }
        Ok(())
    }
}

/// Whether a draft of a new notice is being written now. Other drafts are written under the lock.
fn is_of_living_process(draft: &Path) -> bool {
    let name = draft.file_name().unwrap_or_default().to_string_lossy();
    let pid = name.split('-').next().unwrap_or_default();
    !pid.is_empty()
        && pid.chars().all(|c| c.is_ascii_digit())
        && Path::new("/proc").join(pid).exists()
}

/// The time of an attempt, as it is stored.
pub(super) fn is_due(delivery: &Delivery, now: Timestamp, longest: i64) -> bool {
    // A clock that was set back does not block for longer than the longest wait.
    delivery.next_at_ms <= now.0 || delivery.next_at_ms > now.0.saturating_add(longest)
}
