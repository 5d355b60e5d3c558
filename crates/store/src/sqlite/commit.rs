//! Commits a group of writes in one transaction, on the thread that calls it.
//!
//! A write that fails does not fail the others of its group: an error that is found before anything
//! was written concerns that write only, and after any other error the whole group is rolled back
//! and each of its writes gets a transaction of its own.

use std::path::{Path, PathBuf};
use std::task::Waker;

use rusqlite::Connection;
use segno_core::fault::{Point, point};
use segno_core::id::SessionId;
use segno_core::store::{DiskSpace, Error};
use tokio::sync::oneshot;

use super::connection::{self, database_error, is_busy};
use super::write::{CachedLease, Tx};
use crate::ack_marker::{AckMarkers, AckWriter, MarkerChange};
use crate::home::Home;

/// A write in the queue.
pub(super) struct Write {
    /// Its place in the order of all writes.
    pub(super) ticket: u64,
    /// The task that waits for it, once that task waits.
    pub(super) waker: Option<Waker>,
    /// Whether it shares no transaction with others, because its group failed.
    pub(super) alone: bool,
    pub(super) marker: MarkerChange,
    pub(super) job: Box<dyn Job>,
}

/// What a write does, without the type of its result.
pub(super) trait Job: Send {
    /// Runs the work inside the transaction. May run again after a rollback.
    fn run(&mut self, tx: &mut Tx<'_>) -> Ran;
    /// Sends the result, once the outcome of the commit is known.
    fn reply(&mut self, commit: Result<DiskSpace, Error>);
    /// Whether nobody waits for the result any more.
    fn is_abandoned(&self) -> bool;
}

/// What the work of a write did to the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ran {
    Written,
    /// It failed before it wrote anything.
    Refused,
    /// It failed and may have written something.
    Failed,
    DiskFull,
}

/// The answer to a write.
pub(super) type Answer<T> = Result<(T, DiskSpace), Error>;

pub(super) struct Task<T, F> {
    work: F,
    result: Option<Result<T, Error>>,
    reply: Option<oneshot::Sender<Answer<T>>>,
}

impl<T, F> Task<T, F> {
    pub(super) fn new(work: F, reply: oneshot::Sender<Answer<T>>) -> Self {
        Self {
            work,
            result: None,
            reply: Some(reply),
        }
    }
}

impl<T: Send, F: FnMut(&mut Tx<'_>) -> Result<T, Error> + Send> Job for Task<T, F> {
    fn run(&mut self, tx: &mut Tx<'_>) -> Ran {
        use Error::{Exists, Fenced, LeaseChanged, NameTaken, NoSession, WrongHead};
        let result = (self.work)(tx);
        let ran = match &result {
            Ok(_) => Ran::Written,
            // These errors are detected before anything is written.
            Err(
                Exists(_)
                | Fenced { .. }
                | NameTaken(_)
                | NoSession(_)
                | LeaseChanged(_)
                | WrongHead { .. },
            ) => Ran::Refused,
            Err(Error::DiskFull { .. }) => Ran::DiskFull,
            Err(_) => Ran::Failed,
        };
        self.result = Some(result);
        ran
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

    fn is_abandoned(&self) -> bool {
        self.reply.as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

/// The connection that writes. It is opened for the first write, because half of all commands only
/// read.
pub(super) struct Committer {
    home: Home,
    path: PathBuf,
    ack_writer: AckWriter,
    open: Option<Open>,
    /// Set when a commit failed in a way that leaves the state on the disk unknown. From then on,
    /// nothing is written: a stopped run can be resumed, one with a wrong journal cannot.
    broken: Option<Error>,
}

struct Open {
    connection: Connection,
    lease: Option<CachedLease>,
}

pub(super) enum Begun<'c> {
    Transaction(Transaction<'c>),
    /// Another process is writing. The error says so.
    Busy(Error),
}

impl Committer {
    pub(super) fn new(home: Home, session: SessionId, ack_markers: AckMarkers) -> Self {
        Self {
            path: home.journal(session),
            home,
            ack_writer: AckWriter::new(ack_markers, session),
            open: None,
            broken: None,
        }
    }

    /// Begins a transaction that may write. Does not wait for other processes.
    pub(super) fn begin(&mut self) -> Result<Begun<'_>, Error> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let open = match &mut self.open {
            Some(open) => open,
            closed => closed.insert(Open {
                connection: connection::open_writer(&self.path)?,
                lease: None,
            }),
        };
        match execute(&open.connection, "BEGIN IMMEDIATE") {
            Ok(()) => Ok(Begun::Transaction(Transaction {
                open,
                home: &self.home,
                path: &self.path,
                ack_writer: &mut self.ack_writer,
                broken: &mut self.broken,
            })),
            Err(error) if is_busy(&error) => Ok(Begun::Busy(database_error(&self.path, &error))),
            Err(error) => Err(database_error(&self.path, &error)),
        }
    }

    /// Answers writes for which no transaction could begin.
    pub(super) fn refuse(writes: impl IntoIterator<Item = Write>, error: &Error) {
        for mut write in writes {
            write.job.reply(Err(error.clone()));
        }
    }
}

/// A transaction that holds the write lock. Without a commit it is rolled back when it is dropped.
pub(super) struct Transaction<'c> {
    open: &'c mut Open,
    home: &'c Home,
    path: &'c Path,
    ack_writer: &'c mut AckWriter,
    broken: &'c mut Option<Error>,
}

/// What happened to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Every write has its answer.
    Answered,
    /// Nothing was written and no write has an answer: each one needs a transaction of its own.
    Retry,
}

impl Transaction<'_> {
    /// Runs all writes, commits once, and answers them.
    pub(super) fn commit(mut self, group: &mut [Write]) -> Outcome {
        let shared = group.len() > 1;
        let (mut is_written, mut newest) = (false, None);
        for write in group.iter_mut() {
            let ran = write.job.run(&mut Tx {
                connection: &self.open.connection,
                lease: &mut self.open.lease,
            });
            match ran {
                Ran::Written => {
                    is_written = true;
                    newest = write.marker.head().or(newest);
                }
                Ran::Failed | Ran::DiskFull if shared => return Outcome::Retry,
                // The write may contain an answer that cost money: use the reserve for it.
                Ran::DiskFull if self.home.use_reserve() => return Outcome::Retry,
                Ran::Refused | Ran::Failed | Ran::DiskFull => {}
            }
        }
        let committed = if is_written { self.finish() } else { Ok(()) };
        if matches!(committed, Err(Error::DiskFull { .. })) && (shared || self.home.use_reserve()) {
            return Outcome::Retry;
        }
        let outcome = committed.map(|()| self.home.disk_space());
        if outcome.is_ok() {
            point(Point::JournalAfterCommit);
        } else {
            newest = None;
        }
        // No write waits for its marker: a marker that lags behind the database is still valid.
        for write in group {
            write.job.reply(outcome.clone());
        }
        if let Some(head) = newest {
            self.ack_writer.write(head);
        }
        point(Point::JournalAfterAckMarker);
        Outcome::Answered
    }

    fn finish(&mut self) -> Result<(), Error> {
        point(Point::JournalBeforeCommit);
        let Err(error) = execute(&self.open.connection, "COMMIT") else {
            return Ok(());
        };
        let error = database_error(self.path, &error);
        let error = self.home.explain(error, self.path);
        if !matches!(error, Error::DiskFull { .. }) {
            // A failed sync may have dropped the data, and a second one would succeed without it.
            // So it is not retried.
            *self.broken = Some(error.clone());
        }
        Err(error)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // SQLite rolls back by itself after some errors.
        if !self.open.connection.is_autocommit() {
            let _ = execute(&self.open.connection, "ROLLBACK");
        }
    }
}

fn execute(connection: &Connection, statement: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(statement)?;
    statement.execute([]).map(drop)
}
