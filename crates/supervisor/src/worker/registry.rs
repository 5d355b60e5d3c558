//! The workers of a home, each with a file that says who it is and what it runs.
//!
//! The file is for people and pages. It decides nothing: which session runs where is decided by
//! leases. A worker that was killed leaves its file; readers see that its process is gone, and the
//! next worker removes it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use segno_core::id::SessionId;
use segno_core::lease::{Liveness, Owner, Processes};
use segno_core::ports::{Access, Disk, replace_file};
use segno_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// A file with 200 runs is much smaller.
const MAX_BYTES: u64 = 256 << 10;

/// What a worker says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRecord {
    v: u32,
    pub owner: Owner,
    pub since: Timestamp,
    /// How many runs may be active at once.
    pub max_runs: usize,
    /// The sessions that it runs.
    pub sessions: Vec<SessionId>,
}

impl WorkerRecord {
    pub(super) fn new(owner: Owner, since: Timestamp, max_runs: usize) -> Self {
        Self {
            v: 1,
            owner,
            since,
            max_runs,
            sessions: Vec::new(),
        }
    }
}

/// The file of this worker. Removed when the worker ends.
pub(super) struct Registration {
    path: PathBuf,
    draft: PathBuf,
    disk: Arc<dyn Disk>,
}

impl Registration {
    pub(super) fn new(folder: &Path, disk: Arc<dyn Disk>, owner: &Owner) -> io::Result<Self> {
        disk.create_folder(folder, Access::Private)?;
        let name = format!("{}-{}", owner.pid, owner.started);
        Ok(Self {
            path: folder.join(format!("{name}.json")),
            draft: folder.join(format!("{name}.draft")),
            disk,
        })
    }

    /// Publishes what the worker does. With a full disk there is no list of workers, but
    /// they work.
    pub(super) fn publish(&self, record: &WorkerRecord) {
        let body = serde_json::to_vec(record).expect("a record of plain values");
        let _ = replace_file(
            &*self.disk,
            &self.draft,
            &self.path,
            &body,
            Access::Private,
            |_| {},
        );
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let _ = self.disk.remove(&self.path);
    }
}

/// The workers that live, oldest first. Another machine's worker is believed.
pub fn workers(folder: &Path, disk: &dyn Disk, processes: &dyn Processes) -> Vec<WorkerRecord> {
    let mut found: Vec<WorkerRecord> = records(folder, disk)
        .filter_map(|(_, record)| record)
        .filter(|record| processes.liveness(&record.owner) != Liveness::Gone)
        .collect();
    found.sort_by_key(|record| (record.since, record.owner.pid));
    found
}

/// Removes the files of workers that are gone.
pub(super) fn remove_gone(folder: &Path, disk: &dyn Disk, processes: &dyn Processes) {
    for (path, record) in records(folder, disk) {
        let is_gone = |record: &WorkerRecord| processes.liveness(&record.owner) == Liveness::Gone;
        if record.as_ref().is_some_and(is_gone) {
            let _ = disk.remove(&path);
        }
    }
}

fn records<'a>(
    folder: &Path,
    disk: &'a dyn Disk,
) -> impl Iterator<Item = (PathBuf, Option<WorkerRecord>)> + 'a {
    let entries = disk.list(folder).unwrap_or_default().into_iter();
    let entries = entries.filter(|path| path.extension().is_some_and(|it| it == "json"));
    entries.map(|path| {
        let body = disk.read(&path, MAX_BYTES).ok();
        let record = body.and_then(|body| serde_json::from_slice(&body).ok());
        (path, record)
    })
}
