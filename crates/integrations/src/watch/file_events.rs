//! File events through inotify. They are only hints; `segno agents watch` does not depend on them.

use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;
use tokio::sync::Notify;

/// Subscribes to file events and reports the folders where they happened.
pub struct FileEvents {
    inotify: Option<Arc<OwnedFd>>,
    folders: HashMap<i32, PathBuf>,
    pending: Arc<Pending>,
}

/// The folders with changes.
#[derive(Debug, PartialEq, Eq)]
pub enum Changes {
    In(Vec<PathBuf>),
    /// Events were lost or have an unknown folder, so any folder may have changed.
    Anywhere,
}

#[derive(Default)]
struct Pending {
    folders: Mutex<PendingFolders>,
    notify: Notify,
}

#[derive(Default)]
struct PendingFolders {
    /// Watch descriptors with events; at most one per folder.
    folders: HashSet<i32>,
    lost: bool,
}

impl FileEvents {
    /// Subscribes to nothing yet. Without inotify, no events are reported.
    pub fn start() -> Self {
        let pending = Arc::<Pending>::default();
        let inotify = init(CreateFlags::CLOEXEC).ok().map(Arc::new);
        if let Some(inotify) = &inotify {
            let (inotify, pending) = (Arc::clone(inotify), Arc::clone(&pending));
            // The thread ends with the process, because a blocking read cannot be interrupted.
            std::thread::spawn(move || read_events(&inotify, &pending));
        }
        Self {
            inotify,
            folders: HashMap::new(),
            pending,
        }
    }

    /// Whether no events are reported.
    pub fn is_disabled(&self) -> bool {
        self.inotify.is_none()
    }

    /// Sets the watched folders: all changes in the `leaves`, and new entries in the folders
    /// `above` them.
    pub fn subscribe(&mut self, above: &[PathBuf], leaves: &[PathBuf]) {
        let new = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        let all = new | WatchFlags::MODIFY;
        let Some(inotify) = &self.inotify else { return };
        let mut folders = HashMap::new();
        let mut refused = false;
        for (list, flags) in [(above, new), (leaves, all)] {
            for folder in list {
                match add_watch(inotify, folder, flags) {
                    Ok(descriptor) => drop(folders.insert(descriptor, folder.clone())),
                    Err(Errno::NOENT | Errno::NOTDIR) => {}
                    // The limit of inotify watches is reached.
                    Err(_) => refused = true,
                }
            }
        }
        self.folders = folders;
        if refused && self.folders.is_empty() {
            self.inotify = None;
        }
    }

    /// Waits for the next event.
    pub async fn wait(&self) {
        self.pending.notify.notified().await;
    }

    /// Returns where events happened since the last call.
    pub fn take_changes(&self) -> Changes {
        let mut pending = self
            .pending
            .folders
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let pending = std::mem::take(&mut *pending);
        let known = pending
            .folders
            .iter()
            .map(|descriptor| self.folders.get(descriptor));
        match known.collect::<Option<Vec<_>>>() {
            Some(folders) if !pending.lost => Changes::In(folders.into_iter().cloned().collect()),
            _ => Changes::Anywhere,
        }
    }
}

fn read_events(inotify: &OwnedFd, pending: &Pending) {
    let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
    let mut reader = Reader::new(inotify, &mut buffer);
    loop {
        let (descriptor, lost) = match reader.next() {
            Ok(event) if event.events().contains(ReadFlags::IGNORED) => continue,
            Ok(event) => (
                event.wd(),
                event.events().contains(ReadFlags::QUEUE_OVERFLOW),
            ),
            Err(Errno::INTR) => continue,
            Err(_) => return,
        };
        let mut folders = pending
            .folders
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        folders.lost |= lost;
        if !lost {
            folders.folders.insert(descriptor);
        }
        drop(folders);
        pending.notify.notify_one();
    }
}
