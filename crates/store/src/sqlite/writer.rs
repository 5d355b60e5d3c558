//! The thread that writes. Whatever is waiting when it is free goes into one commit: a lone
//! session waits for nobody, and many sessions share the cost of one sync (P1).

use std::pin::Pin;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use rusqlite::Connection;
use segno_core::fault::{Point, point};
use segno_core::id::SessionId;
use segno_core::journal::Head;
use segno_core::store::{Error, Room};
use tokio::sync::oneshot;

use super::connection::{classify, trouble};
use crate::home::Home;
use crate::witness::{Notary, Witness};

/// How many writes may wait. A full queue makes the next writer wait, never the memory grow (P10).
const QUEUE: usize = 1024;

/// How many writes share a commit at most, so that none waits for ever behind the others.
const SHARED: usize = 512;

pub(super) struct Writer {
    queue: Option<SyncSender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(connection: Connection, home: Home, witness: Witness) -> Self {
        let (queue, waiting) = sync_channel(QUEUE);
        let desk = Desk {
            connection,
            home,
            notary: Notary::new(witness),
            broken: None,
        };
        let thread = std::thread::Builder::new()
            .name("segno-writer".into())
            .spawn(move || desk.serve(&waiting))
            .expect("a process that starts can have one more thread");
        Self {
            queue: Some(queue),
            thread: Some(thread),
        }
    }

    /// Has `work` done inside a transaction. The future resolves when the commit is durable.
    pub(super) fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Written<T> {
        let (reply, answer) = oneshot::channel();
        let job = Task {
            work,
            result: None,
            reply: Some(reply),
            note: None,
            forget: None,
        };
        Written {
            queue: self.queue.clone(),
            job: Some(Box::new(job)),
            answer,
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A write on its way. Nothing is sent before it is first polled.
pub(super) struct Written<T> {
    queue: Option<SyncSender<Box<dyn Job>>>,
    job: Option<Box<dyn Job>>,
    answer: oneshot::Receiver<Result<(T, Room), Error>>,
}

impl<T> Written<T> {
    /// Notes the journal's new end once it is durable.
    pub(super) fn noting(mut self, session: SessionId, head: Head) -> Self {
        if let Some(job) = &mut self.job {
            job.set_note(session, head);
        }
        self
    }

    /// Lets go of what is kept open for a session.
    pub(super) fn forgetting(mut self, session: SessionId) -> Self {
        if let Some(job) = &mut self.job {
            job.set_forget(session);
        }
        self
    }
}

impl<T> Future for Written<T> {
    type Output = Result<(T, Room), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let (Some(job), Some(queue)) = (self.job.take(), &self.queue) {
            // Blocks only when a thousand writes are waiting; then waiting is what is wanted.
            let _ = queue.send(job);
        }
        Pin::new(&mut self.answer).poll(context).map(|answer| {
            answer.unwrap_or_else(|_| {
                Err(Error::Unavailable {
                    place: "the database".into(),
                    reason: "the thread that writes to it has ended".into(),
                })
            })
        })
    }
}

trait Job: Send {
    /// Does the work inside the transaction. False if it must be undone.
    fn run(&mut self, connection: &Connection) -> bool;
    /// Answers, now that the outcome of the commit is known.
    fn settle(&mut self, commit: Result<Room, Error>);
    fn note(&self) -> Option<(SessionId, Head)>;
    fn forget(&self) -> Option<SessionId>;
    fn set_note(&mut self, session: SessionId, head: Head);
    fn set_forget(&mut self, session: SessionId);
    /// Whether the work failed because the disk is full.
    fn is_out_of_room(&self) -> bool;
}

struct Task<T, F> {
    work: F,
    result: Option<Result<T, Error>>,
    reply: Option<oneshot::Sender<Result<(T, Room), Error>>>,
    note: Option<(SessionId, Head)>,
    forget: Option<SessionId>,
}

impl<T: Send, F: FnMut(&Connection) -> Result<T, Error> + Send> Job for Task<T, F> {
    fn run(&mut self, connection: &Connection) -> bool {
        let result = (self.work)(connection);
        let kept = result.is_ok();
        self.result = Some(result);
        kept
    }

    fn settle(&mut self, commit: Result<Room, Error>) {
        let answer = match (self.result.take(), commit) {
            (Some(Err(error)), _) | (_, Err(error)) => Err(error),
            (Some(Ok(value)), Ok(room)) => Ok((value, room)),
            (None, Ok(_)) => return,
        };
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(answer);
        }
    }

    fn note(&self) -> Option<(SessionId, Head)> {
        self.note.filter(|_| matches!(self.result, Some(Ok(_))))
    }

    fn forget(&self) -> Option<SessionId> {
        self.forget
    }

    fn set_note(&mut self, session: SessionId, head: Head) {
        self.note = Some((session, head));
    }

    fn set_forget(&mut self, session: SessionId) {
        self.forget = Some(session);
    }

    fn is_out_of_room(&self) -> bool {
        matches!(self.result, Some(Err(Error::Full { .. })))
    }
}

struct Desk {
    connection: Connection,
    home: Home,
    notary: Notary,
    /// Set when a commit failed in a way that leaves unknown what is on the disk. From then on
    /// nothing is written: a stopped run can be resumed, a wrong one cannot.
    broken: Option<Error>,
}

impl Desk {
    fn serve(mut self, waiting: &Receiver<Box<dyn Job>>) {
        while let Ok(first) = waiting.recv() {
            let mut jobs = vec![first];
            jobs.extend(waiting.try_iter().take(SHARED - 1));
            self.commit(&mut jobs);
        }
    }

    fn commit(&mut self, jobs: &mut [Box<dyn Job>]) {
        let mut outcome = self.attempt(jobs);
        let full = matches!(outcome, Err(Error::Full { .. }))
            || jobs.iter().any(|job| job.is_out_of_room());
        // An answer may be waiting to be written down that cost money: use what was set aside.
        if full && self.home.use_reserve() {
            outcome = self.attempt(jobs);
        }
        self.settle(jobs, &outcome.map(|()| self.home.room()));
    }

    fn settle(&mut self, jobs: &mut [Box<dyn Job>], outcome: &Result<Room, Error>) {
        if outcome.is_ok() {
            point(Point::JournalAfterCommit);
            for job in jobs.iter() {
                if let Some((session, head)) = job.note() {
                    self.notary.note(session, head);
                }
                if let Some(session) = job.forget() {
                    self.notary.forget(session);
                }
            }
            point(Point::JournalAfterWitness);
        }
        for job in jobs {
            job.settle(outcome.clone());
        }
    }

    fn attempt(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Error> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let database = self.home.database();
        let trouble = |error: rusqlite::Error| trouble(&database, &error);
        self.connection
            .execute_batch("BEGIN IMMEDIATE")
            .map_err(trouble)?;
        let alone = jobs.len() == 1;
        let mut kept = 0;
        for job in jobs.iter_mut() {
            // A failing write is undone by itself, unless it is alone and all is undone anyway.
            if !alone {
                self.connection
                    .execute_batch("SAVEPOINT job")
                    .map_err(trouble)?;
            }
            let good = job.run(&self.connection);
            kept += usize::from(good);
            if !alone {
                let end = if good {
                    "RELEASE job"
                } else {
                    "ROLLBACK TO job; RELEASE job"
                };
                self.connection.execute_batch(end).map_err(trouble)?;
            }
        }
        if kept == 0 {
            return self.connection.execute_batch("ROLLBACK").map_err(trouble);
        }
        point(Point::JournalBeforeCommit);
        let committed = self.connection.execute_batch("COMMIT");
        let Err(error) = committed else {
            return Ok(());
        };
        let _ = self.connection.execute_batch("ROLLBACK");
        let error = classify(format!("the database {}", database.display()), &error);
        if !matches!(error, Error::Full { .. }) {
            // A sync that failed may have thrown the data away, and a second one would succeed
            // without it. So it is not tried again.
            self.broken = Some(error.clone());
        }
        Err(error)
    }
}
