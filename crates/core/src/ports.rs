//! The doors to the world: clock, randomness and disk. Lints close every other way, so that what
//! runs on a machine also runs in a test that decides about time, chance and faults itself.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use crate::time::Timestamp;

/// A future that can be stored and sent.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What time it is, and waiting.
pub trait Clock: Send + Sync {
    /// The time of day. It may jump; nothing but what people read depends on it (P15).
    fn now(&self) -> Timestamp;

    /// Time since some fixed moment; never goes backwards.
    fn elapsed(&self) -> Duration;

    /// How far the time of day here is ahead of UTC at a moment, in seconds. It may differ from moment to
    /// moment; only what people write and read is in it.
    fn offset(&self, _at: Timestamp) -> i64 {
        0
    }

    /// Returns after `duration`.
    fn sleep(&self, duration: Duration) -> Boxed<'_, ()>;
}

/// Chance.
pub trait Random: Send + Sync {
    /// Fills `bytes` with unpredictable ones.
    fn fill(&self, bytes: &mut [u8]);

    /// A number in `0..1`.
    fn chance(&self) -> f64 {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
    }
}

/// Who may read a new file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Its owner alone: everything that Segno keeps.
    Private,
    /// Whoever the person's umask allows: what Segno makes for people.
    Shared,
}

/// Files, with the few operations from which durable ones are made.
///
/// What is [`Access::Private`] is for its owner alone (files 0600, folders 0700).
pub trait Disk: Send + Sync {
    /// The whole content, if it has at most `limit` bytes; a longer file is `FileTooLarge`.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>>;

    /// Makes a new file with this content, durable when it returns. `AlreadyExists` if there is
    /// one; never follows a link in the last place of the path.
    fn create(&self, path: &Path, content: &[u8], access: Access) -> io::Result<()>;

    /// Replaces what is at `to`. Atomic; durable only after `sync_folder`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Moves a file to a name that nobody has; `AlreadyExists` otherwise. Of several who try, one
    /// succeeds. Durable only after `sync_folder`.
    fn publish(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes the entries of a folder durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    /// Makes a folder and its missing parents.
    fn create_folder(&self, path: &Path, access: Access) -> io::Result<()>;

    /// Removes a file; one that is not there is no error.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty folder; one that is not there is no error.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;

    /// The entries of a folder, sorted; none if it is not there.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
}
