//! For tests: files in memory, and a clock that a test moves.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use segno_core::ports::{Access, Boxed, Clock, Disk};
use segno_core::time::Timestamp;

#[derive(Default)]
pub(crate) struct MemoryDisk {
    files: Mutex<BTreeMap<PathBuf, Vec<u8>>>,
}

impl MemoryDisk {
    /// The names of all files.
    pub(crate) fn names(&self) -> Vec<String> {
        let files = self.files.lock().unwrap();
        files.keys().map(|it| it.display().to_string()).collect()
    }
}

impl Disk for MemoryDisk {
    fn read(&self, path: &Path, _: u64) -> io::Result<Vec<u8>> {
        let files = self.files.lock().unwrap();
        files
            .get(path)
            .cloned()
            .ok_or(io::ErrorKind::NotFound.into())
    }

    fn create(&self, path: &Path, content: &[u8], _: Access) -> io::Result<()> {
        let mut files = self.files.lock().unwrap();
        if files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        files.insert(path.to_owned(), content.to_vec());
        Ok(())
    }

    fn append(&self, path: &Path, content: &[u8], _: Access) -> io::Result<()> {
        let mut files = self.files.lock().unwrap();
        files.entry(path.to_owned()).or_default().extend(content);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.files.lock().unwrap();
        let content = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), content);
        Ok(())
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.rename(from, to)
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create_folder(&self, _: &Path, _: Access) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.lock().unwrap().remove(path);
        Ok(())
    }

    fn remove_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Files, and folders that have some.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let files = self.files.lock().unwrap();
        let below = files.keys().filter_map(|file| file.strip_prefix(path).ok());
        let mut names: Vec<PathBuf> = below
            .filter_map(|file| Some(path.join(file.components().next()?)))
            .collect();
        names.dedup();
        Ok(names)
    }
}

/// A clock that stands until it is moved.
#[derive(Default)]
pub(crate) struct StandingClock(Mutex<Duration>);

impl StandingClock {
    pub(crate) fn pass(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }
}

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        Timestamp(i64::try_from(self.elapsed().as_millis()).unwrap())
    }

    fn elapsed(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn sleep(&self, _: Duration) -> Boxed<'_, ()> {
        Box::pin(std::future::pending())
    }
}
