//! The thread that writes. Whatever is waiting when it is free goes into one commit: a lone
//! session waits for nobody, and many sessions share the cost of one sync (P1).

use std::pin::Pin;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use rusqlite::Connection;
use segno_core::fault::{Point, point};
use segno_core::id::SessionId;
use segno_core::journal::Head;
use segno_core::store::{Error, Room};
use tokio::sync::oneshot;

use super::connection::{self, classify, trouble};
use super::write::{Leases, Tx};
use crate::home::Home;
use crate::witness::{Notary, Witness};

/// How many writes may wait. A full queue makes the next writer wait, never the memory grow (P10).
const QUEUE: usize = 1024;

/// How often an empty queue is looked at before the thread goes to sleep: some 150 microseconds.
const AWAKE: u32 = 8000;

/// How often a lone write asks for its answer before its thread may sleep: some 400 microseconds.
const LOOKS: u32 = 10_000;

/// How many writes share a commit at most, so that none waits for ever behind the others.
const SHARED: usize = 512;

/// Half of all commands only read, so the thread and its connection wait for the first write.
pub(super) struct Writer {
    home: Home,
    witness: Witness,
    started: Mutex<Option<Started>>,
    /// Whoever holds it too has a write on its way.
    under_way: Arc<()>,
}

struct Started {
    queue: SyncSender<Box<dyn Job>>,
    thread: JoinHandle<()>,
}

impl Writer {
    pub(super) fn new(home: Home, witness: Witness) -> Self {
        Self {
            home,
            witness,
            started: Mutex::default(),
            under_way: Arc::new(()),
        }
    }

    /// Where writes are put for the thread.
    fn queue(&self) -> Result<SyncSender<Box<dyn Job>>, Error> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(started) = &*started {
            return Ok(started.queue.clone());
        }
        let (queue, waiting) = sync_channel(QUEUE);
        let desk = Desk {
            leases: Leases::default(),
            connection: connection::reopen(&self.home.database())?,
            home: self.home.clone(),
            notary: Notary::new(self.witness.clone()),
            broken: None,
        };
        let thread = std::thread::Builder::new()
            .name("segno-writer".into())
            .spawn(move || desk.serve(&waiting))
            .map_err(|error| Error::Unavailable {
                place: "the database".into(),
                reason: format!("there is no thread to write to it: {error}"),
            })?;
        let begun = started.insert(Started { queue, thread });
        Ok(begun.queue.clone())
    }

    /// Has `work` done inside a transaction. The future resolves when the commit is durable.
    pub(super) fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Tx<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Written<T> {
        let (reply, answer) = oneshot::channel();
        let mut job = Task {
            work,
            result: None,
            reply: Some(reply),
            note: None,
            forget: None,
        };
        let queue = match self.queue() {
            Ok(queue) => Some(queue),
            Err(error) => {
                job.settle(Err(error));
                None
            }
        };
        Written {
            queue,
            job: Some(Box::new(job)),
            answer,
            looks: LOOKS,
            under_way: Arc::clone(&self.under_way),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let started = self.started.get_mut();
        if let Some(started) = started.unwrap_or_else(PoisonError::into_inner).take() {
            // Without anyone who could send it something, the thread ends.
            drop(started.queue);
            let _ = started.thread.join();
        }
    }
}

/// A write on its way. Nothing is sent before it is first polled.
pub(super) struct Written<T> {
    queue: Option<SyncSender<Box<dyn Job>>>,
    job: Option<Box<dyn Job>>,
    answer: oneshot::Receiver<Result<(T, Room), Error>>,
    /// How often it is still asked for before its thread may sleep.
    looks: u32,
    /// Held by every write on its way, and by the writer.
    under_way: Arc<()>,
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
        // Waking a thread takes as long as a third of a commit: so a lone one stays awake for it.
        if self.looks > 0 && self.answer.is_empty() && Arc::strong_count(&self.under_way) == 2 {
            self.looks -= 1;
            context.waker().wake_by_ref();
            return Poll::Pending;
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
    fn run(&mut self, tx: &mut Tx<'_>) -> bool;
    /// Answers, now that the outcome of the commit is known.
    fn settle(&mut self, commit: Result<Room, Error>);
    fn note(&self) -> Option<(SessionId, Head)>;
    fn forget(&self) -> Option<SessionId>;
    fn set_note(&mut self, session: SessionId, head: Head);
    fn set_forget(&mut self, session: SessionId);
    /// Whether the work failed because the disk is full.
    fn is_out_of_room(&self) -> bool;
    /// Whether the work failed after it may have written something.
    fn left_traces(&self) -> bool;
}

struct Task<T, F> {
    work: F,
    result: Option<Result<T, Error>>,
    reply: Option<oneshot::Sender<Result<(T, Room), Error>>>,
    note: Option<(SessionId, Head)>,
    forget: Option<SessionId>,
}

impl<T: Send, F: FnMut(&mut Tx<'_>) -> Result<T, Error> + Send> Job for Task<T, F> {
    fn run(&mut self, tx: &mut Tx<'_>) -> bool {
        let result = (self.work)(tx);
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

    fn left_traces(&self) -> bool {
        use Error::{Exists, Fenced, NameTaken, NoSession, Outrun, WrongHead};
        // These are found out by looking, before anything is written.
        let early = |error: &Error| {
            matches!(
                error,
                Exists(_)
                    | Fenced { .. }
                    | NameTaken(_)
                    | NoSession(_)
                    | Outrun(_)
                    | WrongHead { .. }
            )
        };
        matches!(&self.result, Some(Err(error)) if !early(error))
    }
}

struct Desk {
    connection: Connection,
    leases: Leases,
    home: Home,
    notary: Notary,
    /// Set when a commit failed in a way that leaves unknown what is on the disk. From then on
    /// nothing is written: a stopped run can be resumed, a wrong one cannot.
    broken: Option<Error>,
}

impl Desk {
    fn serve(mut self, waiting: &Receiver<Box<dyn Job>>) {
        while let Some(first) = next(waiting) {
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
        let mut notes = Vec::new();
        if outcome.is_ok() {
            point(Point::JournalAfterCommit);
            notes.extend(jobs.iter().filter_map(|job| job.note()));
        }
        // Nobody waits for a note: it may be older than the database, and is then worth less.
        for job in jobs.iter_mut() {
            if let Some(session) = job.forget() {
                self.notary.forget(session);
            }
            job.settle(outcome.clone());
        }
        for (session, head) in notes {
            self.notary.note(session, head);
        }
        point(Point::JournalAfterWitness);
    }

    fn attempt(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Error> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        // Hardly any write fails half-way. If one does, all are undone and done again, each behind
        // a savepoint of its own.
        let done = self.transact(jobs, Apart::No)? || self.transact(jobs, Apart::Yes)?;
        debug_assert!(
            done,
            "behind savepoints, one failure does not undo the others"
        );
        Ok(())
    }

    /// Does the work of all jobs in one transaction. False if a job failed half-way and everything
    /// was undone for it.
    fn transact(&mut self, jobs: &mut [Box<dyn Job>], apart: Apart) -> Result<bool, Error> {
        let database = self.home.database();
        let trouble = |error: rusqlite::Error| trouble(&database, &error);
        let connection = &self.connection;
        let say = |statement: &str| {
            connection
                .prepare_cached(statement)
                .and_then(|mut statement| statement.execute([]))
                .map_err(trouble)
        };
        say("BEGIN IMMEDIATE")?;
        let alone = jobs.len() == 1;
        let mut kept = 0;
        for job in jobs.iter_mut() {
            if apart == Apart::Yes {
                say("SAVEPOINT job")?;
            }
            let good = job.run(&mut Tx {
                connection,
                leases: &mut self.leases,
            });
            kept += usize::from(good);
            if apart == Apart::Yes {
                if !good {
                    say("ROLLBACK TO job")?;
                }
                say("RELEASE job")?;
            } else if !good && !alone && job.left_traces() {
                say("ROLLBACK")?;
                return Ok(false);
            }
        }
        if kept == 0 {
            say("ROLLBACK")?;
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
        if !matches!(error, Error::Full { .. }) {
            // A sync that failed may have thrown the data away, and a second one would succeed
            // without it. So it is not tried again.
            self.broken = Some(error.clone());
        }
        Err(error)
    }
}

/// Whether each write gets a savepoint of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Apart {
    No,
    Yes,
}

/// The next job. Someone who got an answer often has the next question within microseconds, and
/// waking a thread takes longer than that: so it stays awake for a moment.
fn next(waiting: &Receiver<Box<dyn Job>>) -> Option<Box<dyn Job>> {
    for _ in 0..AWAKE {
        match waiting.try_recv() {
            Ok(job) => return Some(job),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
    waiting.recv().ok()
}
