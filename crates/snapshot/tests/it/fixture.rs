//! A snapshot store, a folder to capture, and pictures of folders to compare.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use segno_core::ports::{Boxed, Clock};
use segno_core::time::Timestamp;
use segno_secrets::cipher::Cipher;
use segno_snapshot::{CaptureReport, Request, Restore, RestoreReport, SnapshotStore};

/// A clock that advances by a fixed step each time it is read.
#[derive(Default)]
pub(crate) struct Ticks {
    pub(crate) step: u64,
    pub(crate) now: AtomicU64,
}

impl Clock for Ticks {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.now.fetch_add(self.step, Ordering::SeqCst))
    }

    fn sleep(&self, _: Duration) -> Boxed<'_, ()> {
        Box::pin(async {})
    }
}

pub(crate) static FROZEN_CLOCK: Ticks = Ticks {
    step: 0,
    now: AtomicU64::new(0),
};

/// The file with the key of the store, if it has one.
const KEY: &str = "key";

/// Opens the store of the fixture in a folder.
pub(crate) fn open(folder: &Path) -> SnapshotStore {
    let key = fs::read(folder.join(KEY)).ok();
    let cipher = key.map(|key| Cipher::new(&key.try_into().unwrap()));
    SnapshotStore::open_with(&folder.join("store"), cipher).unwrap()
}

/// Everything that a test needs, in a temporary folder.
pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: SnapshotStore,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        let store = open(folder.path());
        Self { folder, store }
    }

    /// A fixture with an encrypted store.
    pub(crate) fn sealed() -> Self {
        let Self { folder, .. } = Self::new();
        fs::write(folder.path().join(KEY), [7; 32]).unwrap();
        let store = open(folder.path());
        Self { folder, store }
    }

    /// A path in the captured folder.
    pub(crate) fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join("work").join(path)
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn target(&self) -> PathBuf {
        self.folder.path().join("target")
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Captures the folder without re-hashing unchanged-looking files.
    pub(crate) fn capture(&self) -> CaptureReport {
        let work = self.work();
        let mut request = Request::new(&work, &FROZEN_CLOCK);
        request.recheck_per_mille = 0;
        self.store.capture(&request, &|_| {}).unwrap()
    }

    /// Restores with `exact`.
    pub(crate) fn restore(
        &self,
        snapshot: segno_core::digest::Digest,
        into: &Path,
    ) -> RestoreReport {
        let options = Restore {
            exact: true,
            privileges: true,
            durable: false,
            ..Restore::default()
        };
        self.store
            .restore(snapshot, into, &options, &|_| {})
            .unwrap()
    }
}

/// Makes all files old enough for their timestamps to be trusted. The ctime cannot be set, so this
/// waits for the clock that stamps files.
pub(crate) fn wait_until_old(fixture: &Fixture) {
    let probe = fixture.folder.path().join("probe");
    let began = SystemTime::now();
    while began.elapsed().unwrap() < Duration::from_millis(60) {
        fs::write(&probe, b"").unwrap();
    }
}

/// What a restore should bring back of a file, folder or link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileState {
    mode: u32,
    modified: (i64, i64),
    pub(crate) content: Option<Vec<u8>>,
    target: Option<PathBuf>,
    /// The first name of the same file.
    first: Option<PathBuf>,
}

impl FileState {
    /// Drops the information that the file has other names.
    pub(crate) fn alone(&mut self) {
        self.first = None;
    }

    /// Truncates the time to seconds.
    pub(crate) fn whole_seconds(&mut self) {
        self.modified.1 = 0;
    }
}

/// Everything in a folder, including the folder itself.
pub(crate) fn tree_state(root: &Path) -> BTreeMap<PathBuf, FileState> {
    let mut states = BTreeMap::new();
    let mut names = HashMap::new();
    collect_states(root, Path::new(""), &mut states, &mut names);
    states
}

fn collect_states(
    root: &Path,
    path: &Path,
    states: &mut BTreeMap<PathBuf, FileState>,
    names: &mut HashMap<u64, PathBuf>,
) {
    let full = root.join(path);
    let metadata = fs::symlink_metadata(&full).unwrap();
    let kind = metadata.file_type();
    let first = (kind.is_file() && metadata.nlink() > 1).then(|| {
        names
            .entry(metadata.ino())
            .or_insert_with(|| path.to_owned())
            .clone()
    });
    states.insert(
        path.to_owned(),
        FileState {
            mode: metadata.permissions().mode(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            content: kind.is_file().then(|| fs::read(&full).unwrap()),
            target: kind.is_symlink().then(|| fs::read_link(&full).unwrap()),
            first,
        },
    );
    if kind.is_dir() {
        let mut inside: Vec<_> = fs::read_dir(&full)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        inside.sort();
        for name in inside {
            collect_states(root, &path.join(name), states, names);
        }
    }
}

/// Fails with the paths that differ, not with their content.
pub(crate) fn assert_same(
    left: &BTreeMap<PathBuf, FileState>,
    right: &BTreeMap<PathBuf, FileState>,
) {
    let differs = |path: &&PathBuf| left.get(*path) != right.get(*path);
    let paths: Vec<_> = left.keys().chain(right.keys()).filter(differs).collect();
    let show = |state: Option<&FileState>| {
        state.map(|state| {
            (
                state.mode,
                state.modified,
                state.content.as_ref().map(Vec::len),
                state.target.clone(),
                state.first.clone(),
            )
        })
    };
    let paths: Vec<_> = paths
        .iter()
        .map(|path| (path, show(left.get(*path)), show(right.get(*path))))
        .collect();
    assert!(paths.is_empty(), "{paths:#?}");
}

/// Bytes that do not compress, the same for the same seed.
pub(crate) fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
