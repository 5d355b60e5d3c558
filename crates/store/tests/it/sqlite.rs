//! The SQLite store: the contract, and what is specific to databases on a disk.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of the store are the subject"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use segno_core::error::{Diagnose, Kind};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Head, Run};
use segno_core::lease::OwnerLock;
use segno_core::ports::{Access, Boxed, Clock, Disk};
use segno_core::session::Status;
use segno_core::store::{
    Error, Examine, Filter, Journal, LeaseUpdate, Leases, Sessions, Summary, Trash,
};
use segno_core::time::Timestamp;
use segno_store::{Home, LocalDisk, Sqlite};
use segno_testkit::clock::ManualClock;
use segno_testkit::journal::{
    JournalBuilder, TTL, owner, run_ended, session_moved, step_finished, step_started,
};
use tempfile::TempDir;

fn open(folder: &TempDir, clock: Arc<ManualClock>) -> Sqlite {
    let home = Home::open(folder.path().join("home"), Arc::new(LocalDisk)).unwrap();
    Sqlite::open(home, clock).unwrap()
}

fn fresh(clock: Arc<ManualClock>) -> (Sqlite, TempDir) {
    let folder = TempDir::new().unwrap();
    (open(&folder, clock), folder)
}

/// A clock that is ahead of all files, so that the index trusts what it knows about them.
fn late() -> Arc<ManualClock> {
    let clock = Arc::<ManualClock>::default();
    clock.advance(10_000_000_000_000);
    clock
}

mod examine;

mod contract {
    segno_testkit::conformance!(super::fresh);
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

async fn listed(store: &Sqlite, filter: Filter) -> Vec<String> {
    let all = store.list(filter).await.unwrap();
    let names = all.into_iter().map(|found| match found {
        Ok(summary) => summary.name.to_string(),
        Err(error) => format!("{:?}", error.kind()),
    });
    names.collect()
}

async fn create(store: &Sqlite, seed: u8, name: &str) -> JournalBuilder {
    let mut journal = JournalBuilder::new(seed);
    store.create(journal.create(name)).await.unwrap();
    journal
}

async fn end(store: &Sqlite, journal: &mut JournalBuilder, status: Status) {
    let mut batch = journal.batch([run_ended(status)]);
    batch.lease = LeaseUpdate::Release;
    store.append(batch).await.unwrap();
}

#[tokio::test]
async fn lost_database_damages_one_session() {
    let (store, folder) = fresh(Arc::default());
    let one = create(&store, 1, "one").await;
    create(&store, 2, "two").await;
    drop(store);
    let home = folder.path().join("home");
    fs::remove_dir_all(home.join("sessions").join(one.session.to_string())).unwrap();
    let store = open(&folder, Arc::default());
    assert_eq!(listed(&store, Filter::default()).await, ["two", "Damaged"]);
    let lost = store.summary(one.session).await.unwrap_err();
    assert!(
        lost.to_string().contains("was acknowledged up to event"),
        "{lost}"
    );
    let recreated = store.create(JournalBuilder::new(1).create("three")).await;
    assert_eq!(recreated.unwrap_err(), Error::Exists(one.session));
    store.discard(one.session, None).await.unwrap();
    assert_eq!(listed(&store, Filter::default()).await, ["two"]);
    store.destroy(one.session).await.unwrap();
    assert_eq!(damage(&store).await, [""; 0]);
}

/// An ack marker is not synced, so it may be missing after a power cut.
#[tokio::test]
async fn session_without_its_marker_is_known() {
    let (store, folder) = fresh(Arc::default());
    let mut one = create(&store, 1, "one").await;
    end(&store, &mut one, Status::Completed).await;
    let heads = folder.path().join("home/heads");
    let lose_marker = || {
        let marker = fs::read_dir(&heads).unwrap().next().unwrap().unwrap();
        fs::remove_file(marker.path()).unwrap();
    };
    lose_marker();
    let again = store.create(JournalBuilder::new(1).create("two")).await;
    assert_eq!(again.unwrap_err(), Error::Exists(one.session));
    store.discard(one.session, None).await.unwrap();
    let again = store.create(JournalBuilder::new(1).create("two")).await;
    assert_eq!(again.unwrap_err(), Error::Exists(one.session));
    store.restore(one.session, None).await.unwrap();
    assert_eq!(listed(&store, Filter::default()).await, ["one"]);
}

async fn damage(store: &Sqlite) -> Vec<String> {
    let findings = store.examine().await.unwrap();
    let findings = findings.into_iter();
    findings
        .filter(|finding| finding.severity == segno_core::store::Severity::Damage)
        .map(|finding| format!("{}: {}", finding.object, finding.problem))
        .collect()
}

#[tokio::test]
async fn database_of_another_session_is_damage() {
    let (store, folder) = fresh(Arc::default());
    let (one, two) = (
        create(&store, 1, "one").await,
        create(&store, 2, "two").await,
    );
    drop(store);
    let journal = |session: SessionId| {
        folder
            .path()
            .join(format!("home/sessions/{session}/journal.db"))
    };
    fs::copy(journal(one.session), journal(two.session)).unwrap();
    let store = open(&folder, Arc::default());
    let error = store.summary(two.session).await.unwrap_err();
    let expected = format!("its database is that of session {}", one.session);
    assert!(error.to_string().contains(&expected), "{error}");
    assert_eq!(store.summary(one.session).await.unwrap().head, one.head);
}

#[tokio::test]
async fn unfinished_creation_can_be_repeated() {
    let (store, folder) = fresh(Arc::default());
    let mut journal = JournalBuilder::new(1);
    let new = journal.create("one");
    let place = folder
        .path()
        .join(format!("home/sessions/{}", journal.session));
    // What a process leaves that is killed before its first commit.
    fs::create_dir(&place).unwrap();
    fs::write(place.join("journal.db"), "").unwrap();
    fs::write(place.join("lock"), "").unwrap();
    let link = folder.path().join("home/names/one.session");
    std::os::unix::fs::symlink(format!("../sessions/{}", journal.session), link).unwrap();
    assert_eq!(listed(&store, Filter::default()).await, [""; 0]);
    assert_eq!(store.find_named(name("one")).await, Ok(None));
    store.create(new).await.unwrap();
    assert_eq!(listed(&store, Filter::default()).await, ["one"]);
    assert_eq!(
        store.find_named(name("one")).await,
        Ok(Some(journal.session))
    );
}

#[tokio::test]
async fn refused_creation_leaves_nothing() {
    let (store, folder) = fresh(Arc::default());
    create(&store, 1, "one").await;
    let refused = store.create(JournalBuilder::new(2).create("one")).await;
    assert_eq!(refused.unwrap_err(), Error::NameTaken(name("one")));
    let count = fs::read_dir(folder.path().join("home/sessions"))
        .unwrap()
        .count();
    assert_eq!(count, 1);
}

#[tokio::test]
async fn name_of_a_killed_creation_is_free() {
    let (store, folder) = fresh(Arc::default());
    let link = folder.path().join("home/names/one.session");
    let absent = JournalBuilder::new(9).session;
    std::os::unix::fs::symlink(format!("../sessions/{absent}"), link).unwrap();
    let journal = create(&store, 1, "one").await;
    assert_eq!(
        store.find_named(name("one")).await,
        Ok(Some(journal.session))
    );
}

#[tokio::test]
async fn removed_names_are_linked_again() {
    let (store, folder) = fresh(Arc::default());
    let journal = create(&store, 1, "one").await;
    drop(store);
    fs::remove_dir_all(folder.path().join("home/names")).unwrap();
    let store = open(&folder, Arc::default());
    assert_eq!(
        store.find_named(name("one")).await,
        Ok(Some(journal.session))
    );
    let refused = store.create(JournalBuilder::new(2).create("one")).await;
    assert_eq!(refused.unwrap_err(), Error::NameTaken(name("one")));
}

#[test]
fn one_of_many_processes_gets_a_name() {
    let folder = TempDir::new().unwrap();
    let start = std::sync::Barrier::new(8);
    let created = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for seed in 1..=8 {
            let (folder, start, created) = (&folder, &start, &created);
            scope.spawn(move || {
                let store = open(folder, Arc::default());
                start.wait();
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .build()
                    .unwrap();
                runtime.block_on(async {
                    match store.create(JournalBuilder::new(seed).create("one")).await {
                        Ok(_) => drop(created.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => assert_eq!(error, Error::NameTaken(name("one"))),
                    }
                });
            });
        }
    });
    assert_eq!(created.into_inner(), 1);
}

/// The clock of this machine, for tests in which threads wait for each other.
struct RealClock(Instant);

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Boxed<'_, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

#[test]
fn concurrent_creations_of_a_session_make_one() {
    for _ in 0..20 {
        let folder = TempDir::new().unwrap();
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let home = Home::open(folder.path().join("home"), Arc::new(LocalDisk));
                    let clock = Arc::new(RealClock(Instant::now()));
                    let store = Sqlite::open(home.unwrap(), clock).unwrap();
                    let mut journal = JournalBuilder::new(1);
                    let mut new = journal.create("one");
                    new.batch.lease = LeaseUpdate::Release;
                    start.wait();
                    let mut runtime = tokio::runtime::Builder::new_current_thread();
                    runtime.enable_time().build().unwrap().block_on(async {
                        if let Err(error) = store.create(new).await {
                            assert_eq!(error, Error::Exists(journal.session));
                        }
                        // It exists for those that lost the race, too.
                        let found = store.summary(journal.session).await.unwrap();
                        assert_eq!(found.head, journal.head);
                    });
                });
            }
        });
    }
}

#[tokio::test]
async fn locked_session_does_not_delay_others() {
    let (store, folder) = fresh(Arc::default());
    let (one, mut two) = (
        create(&store, 1, "one").await,
        create(&store, 2, "two").await,
    );
    let path = folder
        .path()
        .join(format!("home/sessions/{}/journal.db", one.session));
    let stopped = Connection::open(path).unwrap();
    stopped.execute_batch("BEGIN IMMEDIATE").unwrap();
    store
        .append(two.batch([step_started("steps/0")]))
        .await
        .unwrap();
    assert_eq!(listed(&store, Filter::default()).await, ["two", "one"]);
}

mod owner_lock {
    use super::*;

    #[tokio::test]
    async fn living_owner_keeps_its_lease_whatever_the_clock() {
        let clock = Arc::<ManualClock>::default();
        let (store, folder) = fresh(Arc::clone(&clock));
        let mut journal = create(&store, 1, "one").await;
        let other = open(&folder, Arc::clone(&clock));
        clock.advance(1_000_000_000);
        let seen = other.lease(journal.session).await.unwrap();
        assert_eq!(
            (seen.remaining.is_zero(), seen.lock),
            (true, OwnerLock::Held)
        );
        let refused = other.acquire(seen, owner(8), TTL).await;
        assert_eq!(refused, Err(Error::LeaseChanged(journal.session)));
        store
            .append(journal.batch([step_started("steps/0")]))
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn dead_owner_loses_its_lease_at_once() {
        let (store, folder) = fresh(Arc::default());
        let journal = create(&store, 1, "one").await;
        let other = open(&folder, Arc::default());
        // The kernel releases the lock when the process ends.
        drop(store);
        let seen = other.lease(journal.session).await.unwrap();
        assert_eq!((seen.remaining, seen.lock), (TTL, OwnerLock::Free));
        let granted = other.acquire(seen, owner(8), TTL).await.unwrap();
        assert_eq!((granted.run, granted.lock), (Run(2), OwnerLock::Held));
    }

    #[tokio::test]
    async fn released_lease_can_be_acquired_elsewhere() {
        let (store, folder) = fresh(Arc::default());
        let mut journal = create(&store, 1, "one").await;
        end(&store, &mut journal, Status::Paused).await;
        let other = open(&folder, Arc::default());
        let seen = other.lease(journal.session).await.unwrap();
        assert_eq!(seen.lock, OwnerLock::Free);
        other.acquire(seen, owner(8), TTL).await.unwrap();
    }

    /// A server drops the future of a request whose client is gone.
    #[tokio::test]
    async fn dropped_acquire_unlocks_its_session() {
        let (store, folder) = fresh(Arc::default());
        let mut journal = create(&store, 1, "one").await;
        end(&store, &mut journal, Status::Paused).await;
        let seen = store.lease(journal.session).await.unwrap();
        let blocker = Connection::open(store.home().journal(journal.session)).unwrap();
        blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut acquiring = store.acquire(seen, owner(8), TTL);
        tokio::select! {
            biased;
            granted = &mut acquiring => panic!("nobody else can write: {granted:?}"),
            () = std::future::ready(()) => {}
        }
        let other = open(&folder, Arc::default());
        let during = other.lease(journal.session).await.unwrap();
        drop(acquiring);
        let after = other.lease(journal.session).await.unwrap();
        assert_eq!(
            (during.lock, after.lock),
            (OwnerLock::Held, OwnerLock::Free)
        );
    }

    #[tokio::test]
    async fn refused_discard_leaves_a_run_its_lock() {
        let (store, folder) = fresh(Arc::default());
        let journal = create(&store, 1, "one").await;
        let mut stale = store.lease(journal.session).await.unwrap();
        stale.run = Run(9);
        let refused = store.discard(journal.session, Some(stale)).await;
        assert_eq!(refused, Err(Error::LeaseChanged(journal.session)));
        let other = open(&folder, Arc::default());
        let seen = other.lease(journal.session).await.unwrap();
        assert_eq!(seen.lock, OwnerLock::Held);
    }

    #[tokio::test]
    async fn session_created_without_a_run_is_free() {
        let (store, folder) = fresh(Arc::default());
        let mut journal = JournalBuilder::new(1);
        let mut new = journal.create("one");
        new.batch.lease = LeaseUpdate::Release;
        store.create(new).await.unwrap();
        let other = open(&folder, Arc::default());
        let seen = other.lease(journal.session).await.unwrap();
        assert_eq!((&seen.owner, seen.lock), (&None, OwnerLock::Free));
        other.acquire(seen, owner(8), TTL).await.unwrap();
    }

    #[tokio::test]
    async fn fenced_run_keeps_the_lock_of_the_newer_one() {
        let (store, folder) = fresh(Arc::default());
        let journal = create(&store, 1, "one").await;
        let seen = store.lease(journal.session).await.unwrap();
        let newer = store.acquire(seen, owner(8), TTL).await.unwrap();
        let fenced = store.heartbeat(journal.session, Run(1), TTL).await;
        assert_eq!(fenced.unwrap_err().kind(), Kind::Fenced);
        store.release(journal.session, Run(1)).await.unwrap();
        let other = open(&folder, Arc::default());
        let seen = other.lease(journal.session).await.unwrap();
        assert_eq!((seen.run, seen.lock), (newer.run, OwnerLock::Held));
    }

    /// Where locks are not shared, the run number alone separates two owners.
    #[tokio::test]
    async fn run_number_fences_where_the_lock_is_gone() {
        let (store, folder) = fresh(Arc::default());
        let mut journal = create(&store, 1, "one").await;
        let lock = folder
            .path()
            .join(format!("home/sessions/{}/lock", journal.session));
        fs::remove_file(lock).unwrap();
        let other = open(&folder, Arc::default());
        let seen = other.lease(journal.session).await.unwrap();
        other.acquire(seen, owner(8), TTL).await.unwrap();
        let late = store.append(journal.batch([step_started("steps/0")])).await;
        assert_eq!(late.unwrap_err().kind(), Kind::Fenced);
    }

    #[tokio::test]
    async fn session_of_a_living_owner_is_not_discarded() {
        let (store, folder) = fresh(Arc::default());
        let journal = create(&store, 1, "one").await;
        let other = open(&folder, Arc::default());
        let seen = other.lease(journal.session).await.unwrap();
        let refused = other.discard(journal.session, Some(seen)).await;
        assert_eq!(refused, Err(Error::LeaseChanged(journal.session)));
        assert_eq!(listed(&store, Filter::default()).await, ["one"]);
    }
}

mod index {
    use super::*;

    fn index(folder: &TempDir) -> PathBuf {
        folder.path().join("home/index")
    }

    async fn three(store: &Sqlite) -> [JournalBuilder; 3] {
        let mut all = [
            create(store, 1, "one").await,
            create(store, 2, "two").await,
            create(store, 3, "three").await,
        ];
        end(store, &mut all[0], Status::Completed).await;
        end(store, &mut all[1], Status::Paused).await;
        all
    }

    fn with_status(status: Status) -> Filter {
        Filter {
            statuses: Some(vec![status]),
            ..Filter::default()
        }
    }

    async fn check(store: &Sqlite) {
        assert_eq!(
            listed(store, Filter::default()).await,
            ["three", "two", "one"]
        );
        assert_eq!(listed(store, with_status(Status::Paused)).await, ["two"]);
        assert_eq!(listed(store, Filter::open()).await, ["three", "two"]);
        let newest = Filter {
            limit: Some(2),
            ..Filter::default()
        };
        assert_eq!(listed(store, newest).await, ["three", "two"]);
        let prefix = Filter {
            prefix: Some("t".into()),
            ..Filter::default()
        };
        assert_eq!(listed(store, prefix).await, ["three", "two"]);
    }

    #[tokio::test]
    async fn deleted_index_is_made_again() {
        let (store, folder) = fresh(late());
        three(&store).await;
        check(&store).await;
        drop(store);
        fs::remove_file(index(&folder)).unwrap();
        check(&open(&folder, late())).await;
        assert!(index(&folder).exists());
    }

    #[tokio::test]
    async fn damaged_index_is_made_again() {
        let (store, folder) = fresh(late());
        three(&store).await;
        check(&store).await;
        drop(store);
        let intact = fs::read(index(&folder)).unwrap();
        for position in (0..intact.len()).step_by(7) {
            let mut bytes = intact.clone();
            bytes[position] ^= 0x10;
            fs::write(index(&folder), bytes).unwrap();
            check(&open(&folder, late())).await;
        }
    }

    #[tokio::test]
    async fn moved_session_is_found_in_its_new_folder() {
        let (store, folder) = fresh(late());
        let [_, mut two, _] = three(&store).await;
        end(&store, &mut two, Status::Cancelled).await;
        let other = open(&folder, late());
        let here = |workspace: &str| Filter {
            workspace: Some(workspace.to_owned()),
            ..Filter::default()
        };
        assert_eq!(listed(&other, here("/elsewhere")).await, [""; 0]);
        let mut batch = two.batch([session_moved("/elsewhere")]);
        batch.workspace = Some("/elsewhere".into());
        store.append(batch).await.unwrap();
        assert_eq!(listed(&other, here("/elsewhere")).await, ["two"]);
    }

    #[tokio::test]
    async fn folder_that_cannot_be_written_is_listed() {
        let (store, folder) = fresh(late());
        three(&store).await;
        check(&store).await;
        // Nothing can replace a folder.
        fs::remove_file(index(&folder)).unwrap();
        fs::create_dir(index(&folder)).unwrap();
        check(&store).await;
        check(&store).await;
    }

    #[tokio::test]
    async fn changes_of_other_processes_are_listed() {
        let (store, folder) = fresh(late());
        let [_, _, mut three] = three(&store).await;
        let other = open(&folder, late());
        check(&other).await;
        check(&other).await;
        end(&store, &mut three, Status::Completed).await;
        let completed = with_status(Status::Completed);
        assert_eq!(listed(&other, completed).await, ["three", "one"]);
        create(&store, 4, "four").await;
        assert_eq!(listed(&other, Filter::open()).await, ["four", "two"]);
    }

    #[tokio::test]
    async fn list_equals_the_databases() {
        let (store, folder) = fresh(late());
        let journals = three(&store).await;
        let mut expected = Vec::<Summary>::new();
        for journal in journals.iter().rev() {
            expected.push(store.summary(journal.session).await.unwrap());
        }
        for _ in 0..3 {
            let store = open(&folder, late());
            let found = store.list(Filter::default()).await.unwrap();
            let found: Vec<_> = found.into_iter().flatten().collect();
            assert_eq!(found, expected);
        }
    }
}

mod migration {
    use super::*;

    const SHARED: &str = "
CREATE TABLE session (id TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, workspace TEXT NOT NULL, created_at INTEGER NOT NULL, row_check BLOB NOT NULL) STRICT;
CREATE TABLE lease (session_id TEXT PRIMARY KEY NOT NULL, run INTEGER NOT NULL, owner TEXT, since INTEGER NOT NULL, until INTEGER NOT NULL, status TEXT NOT NULL, spec_digest BLOB, head_seq INTEGER NOT NULL, head_hash BLOB NOT NULL, updated_at INTEGER NOT NULL, row_check BLOB NOT NULL) STRICT;
CREATE TABLE journal (session_id TEXT NOT NULL, seq INTEGER NOT NULL, run INTEGER NOT NULL, at INTEGER NOT NULL, version INTEGER NOT NULL, kind TEXT NOT NULL, path TEXT, revision INTEGER NOT NULL, hash BLOB NOT NULL, body TEXT NOT NULL, PRIMARY KEY (session_id, seq)) STRICT;
CREATE TABLE folded (session_id TEXT PRIMARY KEY NOT NULL, head_seq INTEGER NOT NULL, head_hash BLOB NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL, row_check BLOB NOT NULL) STRICT;
CREATE TABLE inbox (id INTEGER PRIMARY KEY NOT NULL, session_id TEXT NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL, row_check BLOB NOT NULL) STRICT;
CREATE TABLE trash (session_id TEXT PRIMARY KEY NOT NULL, at INTEGER NOT NULL, name TEXT, row_check BLOB NOT NULL) STRICT;
PRAGMA application_id = 1399154542;
PRAGMA user_version = 2;
PRAGMA journal_mode = WAL;
";

    /// Puts the sessions of a home into one database, as version 0.1.0 had them; `trashed` in the
    /// trash.
    fn to_shared(home: &Path, trashed: SessionId) {
        let shared = Connection::open(home.join("segno.db")).unwrap();
        shared.execute_batch(SHARED).unwrap();
        for entry in fs::read_dir(home.join("sessions")).unwrap().flatten() {
            let id = entry.file_name().into_string().unwrap();
            let Ok(session) = id.parse::<SessionId>() else {
                continue;
            };
            let journal = entry.path().join("journal.db");
            let attach = format!("ATTACH '{}' AS own", journal.display());
            shared.execute_batch(&attach).unwrap();
            shared
                .execute_batch(&format!(
                    "INSERT INTO session SELECT id, name, kind, workspace, created_at, row_check FROM own.session;
                     INSERT INTO lease SELECT session_id, run, owner, since, until, status, spec_digest, head_seq, head_hash, updated_at, row_check FROM own.lease;
                     INSERT INTO folded SELECT session_id, head_seq, head_hash, version, body, row_check FROM own.folded;
                     INSERT INTO journal SELECT '{id}', * FROM own.journal;
                     DETACH own"
                ))
                .unwrap();
            if session == trashed {
                let insert =
                    "INSERT INTO trash SELECT id, 5, name, x'00' FROM session WHERE id = ?1";
                shared.execute(insert, [&id]).unwrap();
            }
        }
        drop(shared);
        for folder in ["sessions", "names", "trash"] {
            fs::remove_dir_all(home.join(folder)).unwrap();
        }
        let _ = fs::remove_file(home.join("index.db"));
    }

    async fn prepare() -> (TempDir, [JournalBuilder; 3]) {
        let (store, folder) = fresh(Arc::default());
        let mut journals = [
            create(&store, 1, "one").await,
            create(&store, 2, "two").await,
            create(&store, 3, "three").await,
        ];
        for journal in &mut journals {
            let batch = [step_started("steps/0"), step_finished("steps/0", "done")];
            store.append(journal.batch(batch)).await.unwrap();
            end(&store, journal, Status::Paused).await;
        }
        drop(store);
        to_shared(&folder.path().join("home"), journals[2].session);
        (folder, journals)
    }

    async fn check(store: &Sqlite, journals: &[JournalBuilder; 3]) {
        assert_eq!(listed(store, Filter::default()).await, ["two", "one"]);
        for journal in journals {
            let genesis = Head::genesis(journal.session);
            let events = Journal::read(store, journal.session, genesis, 100)
                .await
                .unwrap();
            assert_eq!(events.last().unwrap().hash, journal.head.hash);
        }
        let trashed = store.list_trash().await.unwrap();
        let trashed: Vec<_> = trashed.into_iter().map(|it| it.unwrap().session).collect();
        assert_eq!(trashed, [journals[2].session]);
        assert_eq!(
            store.find_named(name("one")).await,
            Ok(Some(journals[0].session))
        );
        assert_eq!(damage(store).await, [""; 0]);
    }

    fn backups(folder: &TempDir) -> usize {
        fs::read_dir(folder.path().join("home/backups"))
            .unwrap()
            .count()
    }

    #[tokio::test]
    async fn home_of_the_first_version_is_migrated() {
        let (folder, journals) = prepare().await;
        let store = open(&folder, Arc::default());
        check(&store, &journals).await;
        assert_eq!(backups(&folder), 1);
        assert!(!folder.path().join("home/segno.db").exists());
        store.restore(journals[2].session, None).await.unwrap();
        assert_eq!(
            listed(&store, Filter::default()).await,
            ["three", "two", "one"]
        );
    }

    /// A disk whose operations fail from one on, as if the process was killed there.
    struct FailingDisk(AtomicUsize);

    impl FailingDisk {
        fn step(&self) -> std::io::Result<()> {
            let left = self.0.load(Ordering::Relaxed);
            if left == 0 {
                return Err(std::io::Error::other("killed"));
            }
            self.0.store(left - 1, Ordering::Relaxed);
            Ok(())
        }
    }

    impl Disk for FailingDisk {
        fn read(&self, path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
            LocalDisk.read(path, limit)
        }
        fn create(&self, path: &Path, content: &[u8], access: Access) -> std::io::Result<()> {
            self.step()?;
            LocalDisk.create(path, content, access)
        }
        fn append(&self, path: &Path, content: &[u8], access: Access) -> std::io::Result<()> {
            self.step()?;
            LocalDisk.append(path, content, access)
        }
        fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
            self.step()?;
            LocalDisk.rename(from, to)
        }
        fn publish(&self, from: &Path, to: &Path) -> std::io::Result<()> {
            self.step()?;
            LocalDisk.publish(from, to)
        }
        fn sync_folder(&self, path: &Path) -> std::io::Result<()> {
            self.step()?;
            LocalDisk.sync_folder(path)
        }
        fn create_folder(&self, path: &Path, access: Access) -> std::io::Result<()> {
            self.step()?;
            LocalDisk.create_folder(path, access)
        }
        fn remove(&self, path: &Path) -> std::io::Result<()> {
            self.step()?;
            LocalDisk.remove(path)
        }
        fn remove_folder(&self, path: &Path) -> std::io::Result<()> {
            self.step()?;
            LocalDisk.remove_folder(path)
        }
        fn list(&self, path: &Path) -> std::io::Result<Vec<PathBuf>> {
            LocalDisk.list(path)
        }
    }

    #[tokio::test]
    async fn killed_migration_starts_over() {
        for steps in 0.. {
            let (folder, journals) = prepare().await;
            let disk = Arc::new(FailingDisk(AtomicUsize::new(steps)));
            let home = Home::open(folder.path().join("home"), disk);
            let was_killed = match home {
                Ok(home) => Sqlite::open(home, Arc::<ManualClock>::default()).is_err(),
                Err(_) => true,
            };
            let store = open(&folder, Arc::default());
            check(&store, &journals).await;
            assert_eq!(backups(&folder), 1);
            if !was_killed {
                assert!(steps > 20, "it has more steps than {steps}");
                return;
            }
        }
    }

    #[tokio::test]
    async fn home_in_use_by_the_first_version_is_refused() {
        let (folder, journals) = prepare().await;
        let old = Connection::open(folder.path().join("home/segno.db")).unwrap();
        let count = |connection: &Connection| -> i64 {
            let query = "SELECT count(*) FROM session";
            connection.query_row(query, [], |row| row.get(0)).unwrap()
        };
        assert_eq!(count(&old), 3);
        let home = Home::open(folder.path().join("home"), Arc::new(LocalDisk)).unwrap();
        let refused = Sqlite::open(home, Arc::<ManualClock>::default());
        let refused = refused.err().unwrap().to_string();
        assert!(refused.contains("end that process first"), "{refused}");
        assert_eq!(count(&old), 3);
        drop(old);
        check(&open(&folder, Arc::default()), &journals).await;
    }
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
