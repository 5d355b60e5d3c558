//! A vault, a folder to capture, and pictures of folders to compare.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use segno_core::cipher::Cipher;
use segno_core::ports::{Boxed, Clock};
use segno_core::time::Timestamp;
use segno_snapshot::{Captured, Request, Restore, Restored, Vault};

/// A clock that moves on by a fixed step each time it is asked.
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

pub(crate) static STILL: Ticks = Ticks {
    step: 0,
    now: AtomicU64::new(0),
};

/// Where the key of a world's vault is, if that has one.
const KEY: &str = "key";

/// Opens the vault of the world in a folder.
pub(crate) fn open(folder: &Path) -> Vault {
    let key = fs::read(folder.join(KEY)).ok();
    let cipher = key.map(|key| Cipher::new(key.try_into().unwrap()));
    Vault::open_with(&folder.join("vault"), cipher).unwrap()
}

/// Everything that a test needs, in a folder that goes with it.
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) vault: Vault,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        let vault = open(folder.path());
        Self { folder, vault }
    }

    /// The same, with a vault that is encrypted.
    pub(crate) fn sealed() -> Self {
        let Self { folder, .. } = Self::new();
        fs::write(folder.path().join(KEY), [7; 32]).unwrap();
        let vault = open(folder.path());
        Self { folder, vault }
    }

    /// A path in the folder that is captured.
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

    /// Captures the folder; nothing is read again out of doubt.
    pub(crate) fn capture(&self) -> Captured {
        let work = self.work();
        let mut request = Request::new(&work, &STILL);
        request.doubt = 0;
        self.vault.capture(&request, &|_| {}).unwrap()
    }

    /// Restores exactly.
    pub(crate) fn restore(&self, snapshot: segno_core::digest::Digest, into: &Path) -> Restored {
        let options = Restore {
            exact: true,
            privileges: true,
            durable: false,
            ..Restore::default()
        };
        self.vault
            .restore(snapshot, into, &options, &|_| {})
            .unwrap()
    }
}

/// Makes a file old, so that its stamps are trusted; its ctime cannot be set, so this waits for
/// the clock that stamps files to move on.
pub(crate) fn settle(world: &World) {
    let probe = world.folder.path().join("probe");
    let began = SystemTime::now();
    while began.elapsed().unwrap() < Duration::from_millis(60) {
        fs::write(&probe, b"").unwrap();
    }
}

/// What a file, folder or link is, as far as a restore should bring it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    mode: u32,
    modified: (i64, i64),
    pub(crate) content: Option<Vec<u8>>,
    target: Option<PathBuf>,
    /// The first name of the same file.
    first: Option<PathBuf>,
}

impl Look {
    /// Forgets that the file has other names.
    pub(crate) fn alone(&mut self) {
        self.first = None;
    }

    /// Forgets what is finer than seconds.
    pub(crate) fn whole_seconds(&mut self) {
        self.modified.1 = 0;
    }
}

/// Everything in a folder, the folder itself included.
pub(crate) fn picture(root: &Path) -> BTreeMap<PathBuf, Look> {
    let mut looks = BTreeMap::new();
    let mut names = HashMap::new();
    draw(root, Path::new(""), &mut looks, &mut names);
    looks
}

fn draw(
    root: &Path,
    path: &Path,
    looks: &mut BTreeMap<PathBuf, Look>,
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
    looks.insert(
        path.to_owned(),
        Look {
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
            draw(root, &path.join(name), looks, names);
        }
    }
}

/// Fails with the paths that differ, not with their content.
pub(crate) fn assert_same(left: &BTreeMap<PathBuf, Look>, right: &BTreeMap<PathBuf, Look>) {
    let differs = |path: &&PathBuf| left.get(*path) != right.get(*path);
    let paths: Vec<_> = left.keys().chain(right.keys()).filter(differs).collect();
    let show = |look: Option<&Look>| {
        look.map(|look| {
            (
                look.mode,
                look.modified,
                look.content.as_ref().map(Vec::len),
                look.target.clone(),
                look.first.clone(),
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
