//! The writer thread. It commits everything that is queued in one transaction: a single session
//! waits for no other, and many sessions share the cost of one sync (P1).

use std::pin::Pin;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use rusqlite::Connection;
use segno_core::fault::{Point, point};
use segno_core::id::SessionId;
use segno_core::journal::Head;
use segno_core::store::{DiskSpace, Error};
use tokio::sync::oneshot;

use super::connection::{self, classify, database_error};
use super::write::{Leases, Tx};
use crate::ack_marker::{AckMarkers, AckWriter};
use crate::home::Home;

/// The capacity of the queue. If it is full, the next writer waits; memory does not grow (P10).
const QUEUE: usize = 1024;

/// How often the thread polls an empty queue before it sleeps: about 150 microseconds.
const IDLE_POLLS: u32 = 8000;

/// How often a lone write polls for its result before its thread may sleep: about 400 microseconds.
const RESULT_POLLS: u32 = 10_000;

/// How many writes may share a commit, so that none waits for too long.
const MAX_BATCH: usize = 512;

/// Starts the thread and its connection with the first write, because half of all commands only
/// read.
pub(super) struct Writer {
    home: Home,
    ack_markers: AckMarkers,
    started: Mutex<Option<Started>>,
    /// Also held by every write that is in progress.
    in_flight: Arc<()>,
}

struct Started {
    queue: SyncSender<Box<dyn Job>>,
    thread: JoinHandle<()>,
}

impl Writer {
    pub(super) fn new(home: Home, ack_markers: AckMarkers) -> Self {
        Self {
            home,
            ack_markers,
            started: Mutex::default(),
            in_flight: Arc::new(()),
        }
    }

    /// The queue of the thread, which is started if necessary.
    fn queue(&self) -> Result<SyncSender<Box<dyn Job>>, Error> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(started) = &*started {
            return Ok(started.queue.clone());
        }
        let (queue, waiting) = sync_channel(QUEUE);
        let commit_loop = CommitLoop {
            leases: Leases::default(),
            connection: connection::reopen(&self.home.database())?,
            home: self.home.clone(),
            ack_writer: AckWriter::new(self.ack_markers.clone()),
            broken: None,
        };
        let thread = std::thread::Builder::new()
            .name("segno-writer".into())
            .spawn(move || commit_loop.run(&waiting))
            .map_err(|error| Error::Unavailable {
                place: "the database".into(),
                reason: format!("the writer thread cannot be started: {error}"),
            })?;
        let begun = started.insert(Started { queue, thread });
        Ok(begun.queue.clone())
    }

    /// Runs `work` inside a transaction. The future resolves when the commit is durable.
    pub(super) fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Tx<'_>) -> Result<T, Error> + Send + 'static,
    ) -> PendingWrite<T> {
        let (reply, answer) = oneshot::channel();
        let mut job = Task {
            work,
            result: None,
            reply: Some(reply),
            marker: None,
            closed_marker: None,
        };
        let queue = match self.queue() {
            Ok(queue) => Some(queue),
            Err(error) => {
                job.reply(Err(error));
                None
            }
        };
        PendingWrite {
            queue,
            job: Some(Box::new(job)),
            answer,
            polls: RESULT_POLLS,
            in_flight: Arc::clone(&self.in_flight),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let started = self.started.get_mut();
        if let Some(started) = started.unwrap_or_else(PoisonError::into_inner).take() {
            // The thread ends once its queue has no sender left.
            drop(started.queue);
            let _ = started.thread.join();
        }
    }
}

/// A write in progress. Nothing is queued before the future is first polled.
pub(super) struct PendingWrite<T> {
    queue: Option<SyncSender<Box<dyn Job>>>,
    job: Option<Box<dyn Job>>,
    answer: oneshot::Receiver<Result<(T, DiskSpace), Error>>,
    /// How often it still polls before its thread may sleep.
    polls: u32,
    /// Held by every write in progress, and by the writer.
    in_flight: Arc<()>,
}

impl<T> PendingWrite<T> {
    /// Writes the acknowledgement marker with the journal's new end once that is durable.
    pub(super) fn with_marker(mut self, session: SessionId, head: Head) -> Self {
        if let Some(job) = &mut self.job {
            job.set_marker(session, head);
        }
        self
    }

    /// Closes the marker file of a session.
    pub(super) fn closing_marker(mut self, session: SessionId) -> Self {
        if let Some(job) = &mut self.job {
            job.set_closed_marker(session);
        }
        self
    }
}

impl<T> Future for PendingWrite<T> {
    type Output = Result<(T, DiskSpace), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let (Some(job), Some(queue)) = (self.job.take(), &self.queue) {
            // Blocks only if the queue is full; then blocking is intended (P10).
            let _ = queue.send(job);
        }
        // Waking a thread takes a third of the time of a commit, so a lone write busy-waits.
        if self.polls > 0 && self.answer.is_empty() && Arc::strong_count(&self.in_flight) == 2 {
            self.polls -= 1;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut self.answer).poll(context).map(|answer| {
            answer.unwrap_or_else(|_| {
                Err(Error::Unavailable {
                    place: "the database".into(),
                    reason: "the writer thread has ended".into(),
                })
            })
        })
    }
}

trait Job: Send {
    /// Runs the work inside the transaction. False if its changes must be rolled back.
    fn run(&mut self, tx: &mut Tx<'_>) -> bool;
    /// Sends the result, once the outcome of the commit is known.
    fn reply(&mut self, commit: Result<DiskSpace, Error>);
    fn marker(&self) -> Option<(SessionId, Head)>;
    fn closed_marker(&self) -> Option<SessionId>;
    fn set_marker(&mut self, session: SessionId, head: Head);
    fn set_closed_marker(&mut self, session: SessionId);
    /// Whether the work failed because the disk is full.
    fn is_disk_full(&self) -> bool;
    /// Whether the work failed after it may have written something.
    fn may_have_written(&self) -> bool;
}

struct Task<T, F> {
    work: F,
    result: Option<Result<T, Error>>,
    reply: Option<oneshot::Sender<Result<(T, DiskSpace), Error>>>,
    marker: Option<(SessionId, Head)>,
    closed_marker: Option<SessionId>,
}

impl<T: Send, F: FnMut(&mut Tx<'_>) -> Result<T, Error> + Send> Job for Task<T, F> {
    fn run(&mut self, tx: &mut Tx<'_>) -> bool {
        let result = (self.work)(tx);
        let succeeded = result.is_ok();
        self.result = Some(result);
        succeeded
    }

    fn reply(&mut self, commit: Result<DiskSpace, Error>) {
        let answer = match (self.result.take(), commit) {
            (Some(Err(error)), _) | (_, Err(error)) => Err(error),
            (Some(Ok(value)), Ok(room)) => Ok((value, room)),
            (None, Ok(_)) => return,
        };
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(answer);
        }
    }

    fn marker(&self) -> Option<(SessionId, Head)> {
        self.marker.filter(|_| matches!(self.result, Some(Ok(_))))
    }

    fn closed_marker(&self) -> Option<SessionId> {
        self.closed_marker
    }

    fn set_marker(&mut self, session: SessionId, head: Head) {
        self.marker = Some((session, head));
    }

    fn set_closed_marker(&mut self, session: SessionId) {
        self.closed_marker = Some(session);
    }

    fn is_disk_full(&self) -> bool {
        matches!(self.result, Some(Err(Error::DiskFull { .. })))
    }

    fn may_have_written(&self) -> bool {
        use Error::{Exists, Fenced, LeaseChanged, NameTaken, NoSession, WrongHead};
        // These errors are detected before anything is written.
        let early = |error: &Error| {
            matches!(
                error,
                Exists(_)
                    | Fenced { .. }
                    | NameTaken(_)
                    | NoSession(_)
                    | LeaseChanged(_)
                    | WrongHead { .. }
            )
        };
        matches!(&self.result, Some(Err(error)) if !early(error))
    }
}

struct CommitLoop {
    connection: Connection,
    leases: Leases,
    home: Home,
    ack_writer: AckWriter,
    /// Set when a commit failed in a way that leaves the state on the disk unknown. From then on,
    /// nothing is written: a stopped run can be resumed, one with a wrong journal cannot.
    broken: Option<Error>,
}

impl CommitLoop {
    fn run(mut self, waiting: &Receiver<Box<dyn Job>>) {
        while let Some(first) = next(waiting) {
            let mut jobs = vec![first];
            jobs.extend(waiting.try_iter().take(MAX_BATCH - 1));
            self.commit(&mut jobs);
        }
    }

    fn commit(&mut self, jobs: &mut [Box<dyn Job>]) {
        let mut outcome = self.attempt(jobs);
        let full = matches!(outcome, Err(Error::DiskFull { .. }))
            || jobs.iter().any(|job| job.is_disk_full());
        // A job may contain an answer that cost money: use the reserve for it.
        if full && self.home.use_reserve() {
            outcome = self.attempt(jobs);
        }
        self.reply_all(jobs, &outcome.map(|()| self.home.disk_space()));
    }

    fn reply_all(&mut self, jobs: &mut [Box<dyn Job>], outcome: &Result<DiskSpace, Error>) {
        let mut markers = Vec::new();
        if outcome.is_ok() {
            point(Point::JournalAfterCommit);
            markers.extend(jobs.iter().filter_map(|job| job.marker()));
        }
        // No job waits for its marker: a marker that lags behind the database is still valid.
        for job in jobs.iter_mut() {
            if let Some(session) = job.closed_marker() {
                self.ack_writer.close(session);
            }
            job.reply(outcome.clone());
        }
        for (session, head) in markers {
            self.ack_writer.write(session, head);
        }
        point(Point::JournalAfterAckMarker);
    }

    fn attempt(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Error> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        // Writes hardly ever fail half-way. If one does, all are rolled back and run again, each
        // with a savepoint of its own.
        let done = self.transact(jobs, Savepoints::No)? || self.transact(jobs, Savepoints::Yes)?;
        debug_assert!(
            done,
            "with savepoints, one failure does not undo the others"
        );
        Ok(())
    }

    /// Runs all jobs in one transaction. False if a job failed half-way and everything was rolled
    /// back because of it.
    fn transact(
        &mut self,
        jobs: &mut [Box<dyn Job>],
        savepoints: Savepoints,
    ) -> Result<bool, Error> {
        let database = self.home.database();
        let to_error = |error: rusqlite::Error| database_error(&database, &error);
        let connection = &self.connection;
        let execute = |statement: &str| {
            connection
                .prepare_cached(statement)
                .and_then(|mut statement| statement.execute([]))
                .map_err(to_error)
        };
        execute("BEGIN IMMEDIATE")?;
        let alone = jobs.len() == 1;
        let mut succeeded = 0;
        for job in jobs.iter_mut() {
            if savepoints == Savepoints::Yes {
                execute("SAVEPOINT job")?;
            }
            let good = job.run(&mut Tx {
                connection,
                leases: &mut self.leases,
            });
            succeeded += usize::from(good);
            if savepoints == Savepoints::Yes {
                if !good {
                    execute("ROLLBACK TO job")?;
                }
                execute("RELEASE job")?;
            } else if !good && !alone && job.may_have_written() {
                execute("ROLLBACK")?;
                return Ok(false);
            }
        }
        if succeeded == 0 {
            execute("ROLLBACK")?;
            return Ok(true);
        }
        point(Point::JournalBeforeCommit);
        let committed = connection
            .prepare_cached("COMMIT")
            .and_then(|mut statement| statement.execute([]));
        let Err(error) = committed else {
            return Ok(true);
        };
        let _ = connection.execute_batch("ROLLBACK");
        let error = classify(format!("the database {}", database.display()), &error);
        if !matches!(error, Error::DiskFull { .. }) {
            // A failed sync may have dropped the data, and a second one would succeed without it.
            // So it is not retried.
            self.broken = Some(error.clone());
        }
        Err(error)
    }
}

/// Whether each write gets a savepoint of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Savepoints {
    No,
    Yes,
}

/// The next job. A caller that got a result often sends its next write within microseconds, and
/// waking a thread takes longer than that, so the thread polls for a while.
fn next(waiting: &Receiver<Box<dyn Job>>) -> Option<Box<dyn Job>> {
    for _ in 0..IDLE_POLLS {
        match waiting.try_recv() {
            Ok(job) => return Some(job),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
    waiting.recv().ok()
}
