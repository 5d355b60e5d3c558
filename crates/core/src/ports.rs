//! Ports: clock, randomness and disk. Lints forbid every other access to them, so that the code that
//! runs on a real machine also runs in a test that controls time, randomness and I/O faults.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use crate::time::Timestamp;

/// A boxed future that is `Send`.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Reads the time and sleeps.
pub trait Clock: Send + Sync {
    /// The wall-clock time. It may jump; only what users read depends on it (P15).
    fn now(&self) -> Timestamp;

    /// Monotonic time since some fixed instant.
    fn elapsed(&self) -> Duration;

    /// The local UTC offset at `_at`, in seconds. It may differ between timestamps. Segno uses it only
    /// for times that users type or read.
    fn utc_offset(&self, _at: Timestamp) -> i64 {
        0
    }

    /// Returns after `duration`.
    fn sleep(&self, duration: Duration) -> Boxed<'_, ()>;
}

/// A source of randomness.
pub trait Random: Send + Sync {
    /// Fills `bytes` with unpredictable bytes.
    fn fill(&self, bytes: &mut [u8]);

    /// A uniformly distributed number in `0..1`.
    fn fraction(&self) -> f64 {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
    }
}

/// Permissions of a new file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Readable by the owner only: Segno's own files.
    Private,
    /// As the user's umask allows: files that Segno writes for users.
    Shared,
}

/// File operations from which durable updates are built.
///
/// [`Access::Private`] files have mode 0600, folders 0700.
pub trait Disk: Send + Sync {
    /// Reads the whole file, up to `limit` bytes; a longer file is `FileTooLarge`.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>>;

    /// Creates a new file with this content, durable when the call returns. Returns `AlreadyExists` if
    /// the path exists; never follows a symlink in the last path component.
    fn create(&self, path: &Path, content: &[u8], access: Access) -> io::Result<()>;

    /// Adds `content` to the end of a file, in one write, durable when the call returns. Creates the
    /// file if it is missing. What others add at the same time stays, before or after it; never
    /// follows a symlink in the last path component.
    fn append(&self, path: &Path, content: &[u8], access: Access) -> io::Result<()>;

    /// Replaces `to` atomically; durable only after `sync_folder`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Moves a file to a name that is not in use; `AlreadyExists` otherwise. Of several concurrent
    /// callers exactly one succeeds. Durable only after `sync_folder`.
    fn publish(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes a folder's directory entries durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    /// Creates a folder and its missing parents.
    fn create_folder(&self, path: &Path, access: Access) -> io::Result<()>;

    /// Removes a file; a missing file is not an error.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty folder; a missing folder is not an error.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;

    /// The directory entries of a folder, sorted; empty if the folder does not exist.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
}

/// The folder of a file; the current one for a bare name.
pub fn folder_of(file: &Path) -> &Path {
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// A stage of [`replace_file`], for failpoints and for what must happen to a draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The draft is complete and durable.
    Drafted,
    /// The target has the new content. Its name is not durable yet.
    Renamed,
}

/// Replaces `target` with `content`, or creates it, atomically and durably.
///
/// At any time, also after a kill or a power cut, `target` has its old content or all of the new
/// one. When this returns, content and name are durable, provided that the folder is.
///
/// `draft` is a name in the folder of `target` that no other process or thread uses: a file of that
/// name was left by a killed process, and is removed. An error leaves no draft, and the old content
/// unless only the last step failed, the sync of the folder. A killed process may leave its draft.
///
/// `reached` is called between the steps.
pub fn replace_file(
    disk: &dyn Disk,
    draft: &Path,
    target: &Path,
    content: &[u8],
    access: Access,
    mut reached: impl FnMut(Stage),
) -> io::Result<()> {
    let mut replace = || {
        disk.remove(draft)?;
        disk.create(draft, content, access)?;
        reached(Stage::Drafted);
        disk.rename(draft, target)?;
        reached(Stage::Renamed);
        disk.sync_folder(folder_of(target))
    };
    replace().inspect_err(|_| drop(disk.remove(draft)))
}
