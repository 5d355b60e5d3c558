use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use rusqlite::Connection;
use segno_core::ports::Boxed;
use segno_core::store::{DiskSpace, Journal, LeaseUpdate, Sessions};
use segno_core::time::Timestamp;
use segno_testkit::clock::ManualClock;
use segno_testkit::journal::{JournalBuilder, step_finished, step_started};
use tempfile::TempDir;

use super::*;
use crate::sqlite::session_db::{MAX_IDLE, SessionDb};
use crate::{LocalDisk, Sqlite};

type Written<'a> = Pin<Box<dyn Future<Output = Answer<()>> + Send + 'a>>;

/// A session whose database has a table in which a write leaves a trace.
struct Fixture {
    store: Sqlite,
    database: Arc<SessionDb>,
    other: Connection,
    /// The write-ahead log, to which each commit adds the pages that it changed.
    log: PathBuf,
    _folder: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self::with_clock(Arc::new(ManualClock::default()))
    }

    fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let folder = TempDir::new().unwrap();
        let home = Home::open(folder.path().join("home"), Arc::new(LocalDisk)).unwrap();
        let mut journal = JournalBuilder::new(250);
        let path = home.journal(journal.session);
        let log = path.with_extension("db-wal");
        let store = Sqlite::open(home, clock).unwrap();
        block_on(store.create(journal.create("one"))).unwrap();
        let database = store.databases.get(journal.session).unwrap().unwrap();
        #[expect(clippy::disallowed_methods, reason = "it stands for another process")]
        let other = Connection::open(path).unwrap();
        other
            .execute_batch("CREATE TABLE trace (n INTEGER NOT NULL)")
            .unwrap();
        Self {
            store,
            database,
            other,
            log,
            _folder: folder,
        }
    }

    fn writer(&self) -> &Writer {
        &self.database.writer
    }

    /// A write that leaves `n` behind, and then fails if it has an error.
    fn write_or_fail(&self, n: i64, error: Option<Error>) -> Written<'_> {
        let work = move |tx: &mut Tx<'_>| {
            tx.execute("INSERT INTO trace VALUES (?1)", [n]).unwrap();
            error.clone().map_or(Ok(()), Err)
        };
        Box::pin(self.writer().write(MarkerChange::Unchanged, work))
    }

    fn write(&self, n: i64) -> Written<'_> {
        self.write_or_fail(n, None)
    }

    fn written(&self) -> Vec<i64> {
        let mut query = self.other.prepare("SELECT n FROM trace ORDER BY rowid");
        let rows = query.as_mut().unwrap().query_map([], |row| row.get(0));
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    }

    fn queued(&self) -> usize {
        self.writer().lock().writes.len()
    }

    /// Holds the write lock, as another process does.
    fn lock(&self) {
        self.other.execute_batch("BEGIN IMMEDIATE").unwrap();
    }

    fn unlock(&self) {
        self.other.execute_batch("ROLLBACK").unwrap();
    }
}

/// Polls a future that needs no runtime until it is ready.
fn block_on<T>(mut future: impl Future<Output = T> + Unpin) -> T {
    loop {
        if let Poll::Ready(value) = poll(&mut future) {
            return value;
        }
    }
}

fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn damaged() -> Error {
    Error::Damaged {
        object: "it".into(),
        reason: "of the test".into(),
    }
}

fn full() -> Error {
    let place = "here".into();
    Error::DiskFull { place }
}

#[test]
fn queued_writes_share_a_commit() {
    let fixture = Fixture::new();
    let mut writes: Vec<_> = (0..16).map(|n| fixture.write(n)).collect();
    assert!(writes.iter_mut().all(|write| poll(write).is_pending()));
    assert_eq!(fixture.queued(), 16);
    assert!(poll(&mut writes[3]).is_ready(), "it leads");
    // From here on, none of them could commit by itself.
    fixture.lock();
    drop(writes.remove(3));
    for write in &mut writes {
        assert!(matches!(poll(write), Poll::Ready(Ok(_))));
    }
    fixture.unlock();
    assert_eq!(fixture.written(), (0..16).collect::<Vec<_>>());
}

#[tokio::test]
async fn tasks_of_one_thread_share_commits() {
    const TASKS: i64 = 16;
    const WRITES: u64 = 12;
    let fixture = Fixture::new();
    let log_length = || std::fs::metadata(&fixture.log).unwrap().len();
    fixture.write(0).await.unwrap();
    let before = log_length();
    fixture.write(0).await.unwrap();
    let one_commit = log_length() - before;
    let tasks = (0..TASKS).map(|n| {
        let fixture = &fixture;
        async move {
            for _ in 0..WRITES {
                fixture.write(n).await.unwrap();
            }
        }
    });
    let before = log_length();
    tasks.collect::<FuturesUnordered<_>>().collect::<()>().await;
    // A row more or less does not fill a page.
    assert_eq!(log_length() - before, WRITES * one_commit);
}

#[test]
fn lone_write_needs_two_polls() {
    let fixture = Fixture::new();
    let mut write = fixture.write(1);
    assert!(poll(&mut write).is_pending());
    assert!(matches!(
        poll(&mut write),
        Poll::Ready(Ok(((), DiskSpace::Sufficient)))
    ));
    assert_eq!(fixture.written(), [1]);
}

#[test]
fn queue_never_exceeds_its_bound() {
    let fixture = Fixture::new();
    let count = i64::try_from(QUEUE * 3 + 7).unwrap();
    let mut writes: Vec<_> = (0..count).map(|n| fixture.write(n)).collect();
    while !writes.is_empty() {
        writes.retain_mut(|write| match poll(write) {
            Poll::Pending => {
                assert!(fixture.queued() <= QUEUE);
                true
            }
            Poll::Ready(answer) => {
                answer.unwrap();
                false
            }
        });
    }
    assert_eq!(fixture.written(), (0..count).collect::<Vec<_>>());
}

#[test]
fn write_beyond_the_bound_waits_for_space() {
    let fixture = Fixture::new();
    let mut writes: Vec<_> = (0..QUEUE).map(|_| fixture.write(0)).collect();
    assert!(writes.iter_mut().all(|write| poll(write).is_pending()));
    let mut late = fixture.write(1);
    for _ in 0..3 {
        assert!(poll(&mut late).is_pending());
    }
    assert_eq!(fixture.queued(), QUEUE);
    drop(writes.pop());
    assert!(poll(&mut late).is_pending());
    assert_eq!(
        fixture.queued(),
        QUEUE,
        "it has the place of the dropped one"
    );
    assert!(poll(&mut late).is_ready());
    assert_eq!(fixture.written().len(), QUEUE);
}

#[test]
fn dropped_write_is_not_committed() {
    let fixture = Fixture::new();
    let (mut first, mut second) = (fixture.write(1), fixture.write(2));
    assert!(poll(&mut first).is_pending());
    assert!(poll(&mut second).is_pending());
    drop(first);
    assert_eq!(fixture.queued(), 1);
    assert!(poll(&mut second).is_ready());
    assert_eq!(fixture.written(), [2]);
}

#[test]
fn unpolled_leader_does_not_stop_the_others() {
    let clock = Arc::new(StandingClock::default());
    let fixture = Fixture::with_clock(Arc::clone(&clock) as _);
    let (mut first, mut second) = (fixture.write(1), fixture.write(2));
    fixture.lock();
    for _ in 0..3 {
        assert!(poll(&mut first).is_pending());
    }
    fixture.unlock();
    // The first is not woken, and not polled either.
    clock.millis.store(1, Ordering::Relaxed);
    assert!(poll(&mut second).is_pending());
    assert!(poll(&mut second).is_ready());
    assert!(poll(&mut first).is_ready());
    assert_eq!(fixture.written(), [1, 2]);
}

#[tokio::test]
async fn dropped_leader_leaves_its_group_to_the_others() {
    let fixture = Fixture::new();
    let mut writes: Vec<_> = (0..4).map(|n| fixture.write(n)).collect();
    assert!(writes.iter_mut().all(|write| poll(write).is_pending()));
    fixture.lock();
    assert!(poll(&mut writes[0]).is_pending());
    assert!(fixture.writer().lock().busy.is_some(), "it led, and waits");
    drop(writes.remove(0));
    fixture.unlock();
    assert!(join_all(writes).await.iter().all(Result::is_ok));
    assert_eq!(fixture.written(), [1, 2, 3]);
}

/// A clock that wakes nobody and counts who waits for it.
#[derive(Default)]
struct StandingClock {
    millis: AtomicU64,
    sleeps: AtomicUsize,
}

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.millis.load(Ordering::Relaxed))
    }

    fn sleep(&self, _: Duration) -> Boxed<'_, ()> {
        self.sleeps.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::pending())
    }
}

#[test]
fn busy_database_does_not_block_the_thread() {
    let clock = Arc::new(StandingClock::default());
    let fixture = Fixture::with_clock(Arc::clone(&clock) as _);
    fixture.lock();
    let mut writes: Vec<_> = (0..4).map(|n| fixture.write(n)).collect();
    for _ in 0..3 {
        assert!(writes.iter_mut().all(|write| poll(write).is_pending()));
    }
    assert_eq!(clock.sleeps.load(Ordering::Relaxed), 4);
    let attempts = fixture.writer().lock().busy.map(|busy| busy.attempts);
    assert_eq!(attempts, Some(1), "one of them tries for all");
}

#[tokio::test]
async fn busy_database_is_retried_until_it_is_free() {
    let clock = Arc::new(ManualClock::default());
    let fixture = Fixture::with_clock(Arc::clone(&clock) as _);
    fixture.lock();
    let begun = clock.elapsed();
    let freed = async {
        while clock.elapsed() < begun + Duration::from_secs(5) {
            tokio::task::yield_now().await;
        }
        fixture.unlock();
    };
    let (first, second, ()) = tokio::join!(fixture.write(1), fixture.write(2), freed);
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(fixture.written(), [1, 2]);
}

#[tokio::test]
async fn busy_database_is_given_up_after_the_timeout() {
    let clock = Arc::new(ManualClock::default());
    let fixture = Fixture::with_clock(Arc::clone(&clock) as _);
    fixture.lock();
    let begun = clock.elapsed();
    let (first, second) = tokio::join!(fixture.write(1), fixture.write(2));
    assert!(matches!(first, Err(Error::Unavailable { .. })));
    assert_eq!(first, second);
    let waited = clock.elapsed().saturating_sub(begun);
    assert!(waited >= BUSY_TIMEOUT && waited < BUSY_TIMEOUT + Duration::from_secs(1));
    fixture.unlock();
    assert!(fixture.write(3).await.is_ok());
    assert_eq!(fixture.written(), [3]);
}

#[tokio::test]
async fn failed_write_does_not_fail_its_group() {
    let fixture = Fixture::new();
    let answers = join_all([
        fixture.write(1),
        fixture.write_or_fail(2, Some(damaged())),
        fixture.write(3),
    ]);
    let answers = answers.await;
    assert!(answers[0].is_ok() && answers[2].is_ok());
    assert_eq!(answers[1], Err(damaged()));
    assert_eq!(fixture.written(), [1, 3]);
}

#[tokio::test]
async fn full_disk_fails_only_what_does_not_fit() {
    let fixture = Fixture::new();
    let answers = join_all([
        fixture.write(1),
        fixture.write_or_fail(2, Some(full())),
        fixture.write(3),
    ]);
    let answers = answers.await;
    assert_eq!(answers[0], Ok(((), DiskSpace::Sufficient)));
    assert_eq!(answers[1], Err(full()));
    // There is room for the reserve again.
    assert_eq!(answers[2], Ok(((), DiskSpace::Sufficient)));
    assert_eq!(fixture.written(), [1, 3]);
}

#[tokio::test]
async fn refused_write_costs_its_group_nothing() {
    let fixture = Fixture::new();
    let session = JournalBuilder::new(1).session;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let counting = fixture.writer().write(MarkerChange::Unchanged, move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let refused = fixture.writer().write(MarkerChange::Unchanged, move |_| {
        Err::<(), _>(Error::NoSession(session))
    });
    let (counting, refused) = tokio::join!(counting, refused);
    assert!(counting.is_ok());
    assert_eq!(refused, Err(Error::NoSession(session)));
    assert_eq!(runs.load(Ordering::Relaxed), 1, "nothing was rolled back");
}

#[tokio::test]
async fn write_dropped_while_its_group_fails_is_gone() {
    let fixture = Fixture::new();
    let mut dropped = fixture.write(1);
    let mut failing = fixture.write_or_fail(2, Some(damaged()));
    assert!(poll(&mut dropped).is_pending());
    assert!(poll(&mut failing).is_pending());
    let group = fixture.writer().lock().next_group();
    // What a leader of another thread does, and what happens meanwhile.
    drop(dropped);
    let abandoned = fixture.writer().lock().put_back(group);
    assert_eq!(abandoned.len(), 1);
    assert_eq!(failing.await, Err(damaged()));
    assert_eq!(fixture.written(), [0; 0]);
}

#[tokio::test]
async fn panicking_write_fails_its_group_only() {
    let fixture = Fixture::new();
    let mut beside = fixture.write(1);
    assert!(poll(&mut beside).is_pending());
    let panicking = fixture
        .writer()
        .write(MarkerChange::Unchanged, |_| -> Result<(), Error> {
            panic!("of the test")
        });
    let caught = std::panic::AssertUnwindSafe(panicking).catch_unwind().await;
    assert!(caught.is_err());
    assert!(matches!(beside.await, Err(Error::Unavailable { .. })));
    // The transaction is rolled back at once, and others may write.
    fixture.lock();
    fixture.unlock();
    assert!(fixture.write(2).await.is_ok());
    assert_eq!(fixture.written(), [2]);
}

#[test]
fn threads_share_one_store() {
    const THREADS: u8 = 40;
    const STEPS: usize = 5;
    let fixture = Fixture::new();
    let runtime = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap()
    };
    let heads: Vec<_> = std::thread::scope(|scope| {
        let append = |n: u8| {
            let store = &fixture.store;
            let mut journal = JournalBuilder::new(n);
            scope.spawn(move || {
                runtime().block_on(async {
                    let new = journal.create(&format!("session-{n}"));
                    store.create(new).await.unwrap();
                    for step in 0..STEPS {
                        let path = format!("steps/{step}");
                        let batch = [step_started(&path), step_finished(&path, "done")];
                        store.append(journal.batch(batch)).await.unwrap();
                    }
                });
                (journal.session, journal.head)
            })
        };
        let threads: Vec<_> = (1..=THREADS).map(append).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect()
    });
    runtime().block_on(async {
        for (session, head) in heads {
            let genesis = segno_core::journal::Head::genesis(session);
            let events = Journal::read(&fixture.store, session, genesis, 100)
                .await
                .unwrap();
            assert_eq!(events.len(), 2 + 2 * STEPS);
            assert_eq!(events.last().unwrap().hash, head.hash);
        }
    });
    assert_eq!(fixture.queued(), 0);
}

#[test]
fn few_databases_stay_open() {
    let fixture = Fixture::new();
    for number in 1..=100 {
        let mut journal = JournalBuilder::new(number);
        let mut new = journal.create(&format!("session-{number}"));
        new.batch.lease = LeaseUpdate::Release;
        block_on(fixture.store.create(new)).unwrap();
        let open = fixture.store.databases.count();
        // The fixture uses one, and has a run of its own.
        assert!(open <= MAX_IDLE + 2, "{open}");
    }
}
