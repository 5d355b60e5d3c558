//! Being woken when something happens in a folder: inotify. It is a hint; nothing relies on it.

use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;
use tokio::sync::Notify;

/// What rings when something happens.
pub(crate) struct Alarm {
    door: Option<Arc<OwnedFd>>,
    folders: HashMap<i32, PathBuf>,
    rung: Arc<Rung>,
}

/// Where something happened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Here(Vec<PathBuf>),
    /// Nobody knows where.
    Anywhere,
}

#[derive(Default)]
struct Rung {
    places: Mutex<Places>,
    bell: Notify,
}

#[derive(Default)]
struct Places {
    /// At most as many as there are folders.
    folders: HashSet<i32>,
    lost: bool,
}

impl Alarm {
    /// An alarm; a mute one where the kernel gives none.
    pub(crate) fn new() -> Self {
        let rung = Arc::<Rung>::default();
        let door = init(CreateFlags::CLOEXEC).ok().map(Arc::new);
        if let Some(door) = &door {
            let (door, rung) = (Arc::clone(door), Arc::clone(&rung));
            // It ends with the process: nothing else ends a read that waits.
            std::thread::spawn(move || listen(&door, &rung));
        }
        Self {
            door,
            folders: HashMap::new(),
            rung,
        }
    }

    /// Whether anything would ring.
    pub(crate) fn is_mute(&self) -> bool {
        self.door.is_none()
    }

    /// Listens to these folders and no others: to everything in the `leaves`, and for what is new in
    /// those `above`.
    pub(crate) fn listen(&mut self, above: &[PathBuf], leaves: &[PathBuf]) {
        let new = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        let all = new | WatchFlags::MODIFY;
        let Some(door) = &self.door else { return };
        let mut folders = HashMap::new();
        let mut refused = false;
        for (list, flags) in [(above, new), (leaves, all)] {
            for folder in list {
                match add_watch(door, folder, flags) {
                    Ok(number) => drop(folders.insert(number, folder.clone())),
                    Err(Errno::NOENT | Errno::NOTDIR) => {}
                    // There are more folders than the kernel listens to.
                    Err(_) => refused = true,
                }
            }
        }
        self.folders = folders;
        if refused && self.folders.is_empty() {
            self.door = None;
        }
    }

    /// Returns when it rings.
    pub(crate) async fn rings(&self) {
        self.rung.bell.notified().await;
    }

    /// Where something happened since this was asked last.
    pub(crate) fn places(&self) -> Where {
        let mut places = self
            .rung
            .places
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let places = std::mem::take(&mut *places);
        let known = places.folders.iter().map(|number| self.folders.get(number));
        match known.collect::<Option<Vec<_>>>() {
            Some(folders) if !places.lost => Where::Here(folders.into_iter().cloned().collect()),
            _ => Where::Anywhere,
        }
    }
}

fn listen(door: &OwnedFd, rung: &Rung) {
    let mut room = [MaybeUninit::uninit(); 16 * 1024];
    let mut reader = Reader::new(door, &mut room);
    loop {
        let (number, lost) = match reader.next() {
            Ok(event) if event.events().contains(ReadFlags::IGNORED) => continue,
            Ok(event) => (
                event.wd(),
                event.events().contains(ReadFlags::QUEUE_OVERFLOW),
            ),
            Err(Errno::INTR) => continue,
            Err(_) => return,
        };
        let mut places = rung.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.lost |= lost;
        if !lost {
            places.folders.insert(number);
        }
        drop(places);
        rung.bell.notify_one();
    }
}
