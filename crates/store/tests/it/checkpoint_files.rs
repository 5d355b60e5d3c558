//! The order in which checkpoints become durable, as the disk sees it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use segno_core::ports::{Access, Clock, Disk};
use segno_core::store::Checkpoints;
use segno_store::{Home, LocalDisk, Sqlite};
use segno_testkit::clock::ManualClock;
use segno_testkit::journal::{JournalBuilder, checkpoint};
use tempfile::TempDir;

/// The local disk, with a record of renames and syncs.
#[derive(Default)]
struct RecordingDisk(Mutex<Vec<DiskEvent>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum DiskEvent {
    Renamed(PathBuf),
    Synced(PathBuf),
}

impl Disk for RecordingDisk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        LocalDisk.read(path, limit)
    }

    fn create(&self, path: &Path, content: &[u8], access: Access) -> io::Result<()> {
        LocalDisk.create(path, content, access)
    }

    fn append(&self, path: &Path, content: &[u8], access: Access) -> io::Result<()> {
        LocalDisk.append(path, content, access)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0
            .lock()
            .unwrap()
            .push(DiskEvent::Renamed(to.to_owned()));
        LocalDisk.rename(from, to)
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        LocalDisk.publish(from, to)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.0
            .lock()
            .unwrap()
            .push(DiskEvent::Synced(path.to_owned()));
        LocalDisk.sync_folder(path)
    }

    fn create_folder(&self, path: &Path, access: Access) -> io::Result<()> {
        LocalDisk.create_folder(path, access)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        LocalDisk.remove(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        LocalDisk.remove_folder(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        LocalDisk.list(path)
    }
}

#[tokio::test]
async fn session_folder_is_durable_before_its_checkpoint() {
    let (folder, clock) = (TempDir::new().unwrap(), Arc::<ManualClock>::default());
    let disk = Arc::<RecordingDisk>::default();
    let home = Home::open(folder.path().join("home"), disk.clone()).unwrap();
    let checkpoints = home.checkpoints();
    let store = Sqlite::open(home, clock.clone()).unwrap();
    let session = JournalBuilder::new(1).session;
    let inside = checkpoints.join(session.to_string());
    // A folder that a killed process left behind may not be durable.
    LocalDisk.create_folder(&inside, Access::Private).unwrap();
    for round in 0..3 {
        clock.advance(1000);
        let manifest = checkpoint(session, clock.now());
        disk.0.lock().unwrap().clear();
        store
            .put_checkpoint(manifest.clone(), [1; 32])
            .await
            .unwrap();
        let mut events = disk.0.lock().unwrap().clone();
        // Of the key and its copy.
        let home = checkpoints.parent().unwrap();
        let backups = home.join("backups");
        events.retain(|event| {
            let (DiskEvent::Renamed(path) | DiskEvent::Synced(path)) = event;
            path != home && !path.starts_with(&backups)
        });
        let place = inside.join(format!("{}.json", manifest.id));
        let mut expected = vec![DiskEvent::Renamed(place), DiskEvent::Synced(inside.clone())];
        // The second one finds the first, which proves that the folder is durable; the third finds
        // none.
        if round != 1 {
            expected.insert(0, DiskEvent::Synced(checkpoints.clone()));
        }
        assert_eq!(events, expected, "round {round}");
        if round == 1 {
            for (session, checkpoint) in store.list_checkpoint_ids(None).await.unwrap() {
                store.delete_checkpoint(session, checkpoint).await.unwrap();
            }
        }
    }
}
