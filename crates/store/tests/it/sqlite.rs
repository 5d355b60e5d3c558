//! The SQLite store: the contract, and what is special about keeping it on a disk.

use std::sync::Arc;

use segno_store::{Home, LocalDisk, Sqlite};
use segno_testkit::clock::HandClock;
use tempfile::TempDir;

fn open(folder: &TempDir, clock: Arc<HandClock>) -> Sqlite {
    let home = Home::open(folder.path().join("home"), Arc::new(LocalDisk)).unwrap();
    Sqlite::open(home, clock).unwrap()
}

fn fresh(clock: Arc<HandClock>) -> (Sqlite, TempDir) {
    let folder = TempDir::new().unwrap();
    (open(&folder, clock), folder)
}

mod contract {
    segno_testkit::conformance!(super::fresh);
}

#[test]
fn many_can_make_a_home_at_once() {
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
