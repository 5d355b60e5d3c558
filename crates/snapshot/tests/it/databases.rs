//! Databases that are captured during writes are restored as they were at one instant.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use rusqlite::Connection;
use segno_snapshot::CaptureReport;

use crate::fixture::{Fixture, assert_same, tree_state};

/// Two tables that are consistent after every commit: each contains the number of the last commit,
/// and the total amount of money is constant.
fn prepare(path: &Path, mode: &str) -> Connection {
    let database = Connection::open(path).unwrap();
    let set: String = database
        .query_row(&format!("PRAGMA journal_mode={mode}"), [], |row| row.get(0))
        .unwrap();
    assert_eq!(set, mode);
    database
        .execute_batch(
            "PRAGMA synchronous=OFF; PRAGMA wal_autocheckpoint=40; PRAGMA cache_size=20;
             CREATE TABLE commits (number INTEGER PRIMARY KEY, padding BLOB);
             CREATE TABLE accounts (name INTEGER PRIMARY KEY, money INTEGER, last INTEGER);
             WITH RECURSIVE n(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM n WHERE x < 99)
             INSERT INTO accounts SELECT x, 1000, 0 FROM n;",
        )
        .unwrap();
    database
}

/// How many commits are kept.
const KEPT: i64 = 30;

fn commit(database: &Connection, number: i64) {
    let transfer = format!(
        "BEGIN IMMEDIATE;
         INSERT INTO commits VALUES ({number}, randomblob(3000));
         DELETE FROM commits WHERE number <= {number} - {KEPT};
         UPDATE accounts SET money = money - 7, last = {number} WHERE name % 2 = 0;
         UPDATE accounts SET money = money + 7, last = {number} WHERE name % 2 = 1;
         COMMIT;"
    );
    database.execute_batch(&transfer).unwrap();
}

/// Opens a restored database. Returns the number of its last commit if it is consistent, or the
/// error.
fn last_commit(path: &Path) -> Result<i64, String> {
    let ask = || {
        let database = Connection::open(path)?;
        let check: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        let query =
            "SELECT (SELECT count(*) FROM commits), (SELECT ifnull(max(number), 0) FROM commits),
                     min(last), max(last), sum(money) FROM accounts";
        let row: [i64; 5] = database.query_row(query, [], |row| {
            Ok([
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
            ])
        })?;
        Ok((check, row))
    };
    let (check, row) = ask().map_err(|error: rusqlite::Error| error.to_string())?;
    let [count, last, least, most, money] = row;
    let agree = [least, most] == [last; 2] && count == last.min(KEPT);
    if check == "ok" && agree && money == 100_000 {
        Ok(last)
    } else {
        Err(format!("{check} {row:?}"))
    }
}

/// Captures a database repeatedly while another thread commits. Each capture has the committed
/// state of one instant, or is flagged. Returns how many were not flagged.
fn capture_under_load(mode: &str, rounds: usize) -> usize {
    let fixture = Fixture::new();
    let database = prepare(&fixture.at("work.db"), mode);
    let done = AtomicI64::new(0);
    let (stop, stopped) = mpsc::channel::<()>();
    let taken: Vec<(CaptureReport, i64)> = std::thread::scope(|scope| {
        let done = &done;
        let writer = scope.spawn(move || {
            for number in 1.. {
                commit(&database, number);
                done.store(number, Ordering::SeqCst);
                // At the pace of a program that also does other work, until it is stopped.
                let pace = Duration::from_millis(5);
                if stopped.recv_timeout(pace) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
        });
        let take = |_| {
            let before = done.load(Ordering::SeqCst);
            (fixture.capture(), before)
        };
        let taken = (0..rounds).map(take).collect();
        drop(stop);
        writer.join().unwrap();
        taken
    });
    assert!(done.into_inner() > 0);
    let mut whole = 0;
    for (number, (captured, before)) in taken.iter().enumerate() {
        if captured.unstable.contains(&"work.db".into()) {
            continue;
        }
        whole += 1;
        let target = fixture.folder.path().join(format!("target-{number}"));
        fixture.restore(captured.snapshot, &target);
        let last = last_commit(&target.join("work.db")).unwrap();
        assert!(
            last >= *before,
            "commit {before} was done before, and {last} is the last"
        );
    }
    whole
}

#[test]
fn wal_database_is_captured_between_commits() {
    assert!(capture_under_load("wal", 10) > 0);
}

#[test]
fn rollback_database_is_captured_between_commits() {
    assert!(capture_under_load("delete", 10) > 0);
}

#[test]
fn open_transaction_is_rolled_back_after_restore() {
    for mode in ["wal", "delete", "truncate", "persist"] {
        let fixture = Fixture::new();
        let database = prepare(&fixture.at("work.db"), mode);
        commit(&database, 1);
        // More than the cache holds: it is written before it is committed.
        database
            .execute_batch(
                "BEGIN IMMEDIATE; UPDATE accounts SET money = 0;
                 WITH RECURSIVE n(x) AS (SELECT 2 UNION ALL SELECT x + 1 FROM n WHERE x < 200)
                 INSERT INTO commits SELECT x, randomblob(3000) FROM n;",
            )
            .unwrap();
        let captured = fixture.capture();
        assert!(captured.unstable.is_empty(), "{mode}: {captured:?}");
        database.execute_batch("ROLLBACK").unwrap();
        fixture.restore(captured.snapshot, &fixture.target());
        assert_eq!(
            last_commit(&fixture.target().join("work.db")),
            Ok(1),
            "{mode}"
        );
    }
}

#[test]
fn database_is_read_again_with_its_changed_log() {
    let fixture = Fixture::new();
    let database = prepare(&fixture.at("work.db"), "wal");
    database
        .execute_batch("PRAGMA wal_autocheckpoint=0")
        .unwrap();
    fixture.write("other", "other");
    commit(&database, 1);
    fixture.capture();
    commit(&database, 2);
    let captured = fixture.capture();
    assert!(captured.unstable.is_empty());
    fixture.restore(captured.snapshot, &fixture.target());
    assert_eq!(last_commit(&fixture.target().join("work.db")), Ok(2));
}

#[test]
fn files_named_like_logs_are_captured() {
    let fixture = Fixture::new();
    let names = [
        "a",
        "a-journal",
        "a-wal",
        "a-wal-journal",
        "a-wal-wal",
        "b-wal",
        "-wal",
    ];
    for name in names {
        fixture.write(name, name);
    }
    std::fs::create_dir(fixture.at("b")).unwrap();
    let captured = fixture.capture();
    assert_eq!((captured.files, captured.skipped.len()), (7, 0));
    fixture.restore(captured.snapshot, &fixture.target());
    assert_same(&tree_state(&fixture.target()), &tree_state(&fixture.work()));
}
