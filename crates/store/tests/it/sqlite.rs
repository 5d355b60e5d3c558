//! The SQLite store: the contract, and what is specific to a database on a disk.

use std::sync::Arc;

use segno_core::ports::Disk;
use segno_core::store::{Error, Leases, Sessions, Trash};
use segno_store::{Home, LocalDisk, Sqlite};
use segno_testkit::clock::ManualClock;
use segno_testkit::journal::JournalBuilder;
use tempfile::TempDir;

fn open(folder: &TempDir, clock: Arc<ManualClock>) -> Sqlite {
    let home = Home::open(folder.path().join("home"), Arc::new(LocalDisk)).unwrap();
    Sqlite::open(home, clock).unwrap()
}

fn fresh(clock: Arc<ManualClock>) -> (Sqlite, TempDir) {
    let folder = TempDir::new().unwrap();
    (open(&folder, clock), folder)
}

mod contract {
    segno_testkit::conformance!(super::fresh);
}

#[tokio::test]
async fn session_of_the_first_format_can_be_trashed() {
    let folder = TempDir::new().unwrap();
    let mut builder = JournalBuilder::new(1);
    let store = open(&folder, Arc::default());
    store.create(builder.create("one")).await.unwrap();
    drop(store);
    let home = folder.path().join("home");
    #[expect(clippy::disallowed_methods, reason = "the database as it was before")]
    let before = rusqlite::Connection::open(home.join("segno.db")).unwrap();
    before
        .execute_batch("DROP TABLE trash; PRAGMA user_version = 1")
        .unwrap();
    drop(before);
    let store = open(&folder, Arc::default());
    assert_eq!(
        store.summary(builder.session).await.unwrap().head,
        builder.head
    );
    let seen = store.lease(builder.session).await.unwrap();
    store.discard(builder.session, Some(seen)).await.unwrap();
    assert_eq!(store.list().await.unwrap(), []);
    let copies = std::fs::read_dir(home.join("backups")).unwrap().count();
    assert_eq!(copies, 1);
}

#[tokio::test]
async fn vanished_database_is_not_recreated() {
    let folder = TempDir::new().unwrap();
    let mut builder = JournalBuilder::new(1);
    let store = open(&folder, Arc::default());
    let home = folder.path().join("home");
    let (place, away) = (home.join("segno.db"), home.join("away.db"));
    LocalDisk.rename(&place, &away).unwrap();
    let new = builder.create("one");
    let refused = store.create(new.clone()).await;
    assert!(matches!(refused, Err(Error::Unavailable { .. })));
    assert!(!place.exists());
    LocalDisk.rename(&away, &place).unwrap();
    store.create(new).await.unwrap();
    assert_eq!(
        store.summary(builder.session).await.unwrap().head,
        builder.head
    );
}

#[test]
fn concurrent_processes_can_create_a_home() {
    for _ in 0..40 {
        let folder = TempDir::new().unwrap();
        let start = std::sync::Barrier::new(6);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    start.wait();
                    drop(open(&folder, Arc::default()));
                });
            }
        });
    }
}
