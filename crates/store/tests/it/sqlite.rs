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
