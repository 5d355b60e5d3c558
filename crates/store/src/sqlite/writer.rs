//! Group commit on the caller's thread: a single session waits for no other, and many sessions
//! share the cost of one sync (P1).
//!
//! A write joins a bounded queue (P10). Whichever queued write is polled while nobody commits
//! becomes the leader: it commits everything that is queued in one transaction and answers every
//! write of the group. It does all of that within one poll, so no future that is dropped or not
//! polled any more can delay the others.
//!
//! What takes time inside `poll` is this transaction and nothing else, and a poll runs at most one.
//! A write waits for space in the queue, for another thread's transaction and for another process's
//! write lock by returning `Pending`.
//!
//! A write whose future is dropped is committed completely or not at all: not at all while it is
//! queued. Writes are committed in the order in which they were first polled.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{Either, select};
use segno_core::id::SessionId;
use segno_core::ports::Clock;
use segno_core::store::Error;
use tokio::sync::{Semaphore, oneshot};

use super::commit::{Answer, Begun, Committer, Outcome, Task, Write};
use super::connection::BUSY_TIMEOUT;
use super::write::Tx;
use crate::ack_marker::{AckMarkers, MarkerChange};
use crate::home::Home;

/// How many writes may be queued, and so share a commit (P10).
const QUEUE: usize = 512;

/// How long to wait before the write lock of another process is tried again, attempt by attempt.
/// The last one repeats.
const BUSY_DELAYS: [u64; 8] = [1, 2, 5, 10, 15, 25, 50, 100];

/// The queue of writes to one database.
pub(super) struct Writer {
    clock: Arc<dyn Clock>,
    /// One permit for each place in the queue.
    places: Semaphore,
    /// Locked for moments only: never while something is written, and never while a waker or a job
    /// is dropped, which may drop another write.
    queue: Mutex<Queue>,
}

struct Queue {
    writes: VecDeque<Write>,
    next_ticket: u64,
    /// Absent while a leader uses it.
    committer: Option<Committer>,
    /// Set while another process holds the write lock.
    busy: Option<Busy>,
}

/// Another process holds the write lock.
#[derive(Clone, Copy)]
struct Busy {
    since: Duration,
    attempts: usize,
    retry_at: Duration,
}

impl Writer {
    pub(super) fn new(
        home: Home,
        session: SessionId,
        ack_markers: AckMarkers,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            clock,
            places: Semaphore::new(QUEUE),
            queue: Mutex::new(Queue {
                writes: VecDeque::new(),
                next_ticket: 0,
                committer: Some(Committer::new(home, session, ack_markers)),
                busy: None,
            }),
        }
    }

    /// Runs `work` inside a transaction, and then changes the acknowledgement marker. Returns when
    /// the commit is durable.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        marker: MarkerChange,
        work: impl FnMut(&mut Tx<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Answer<T> {
        let permit = self.places.acquire().await;
        let _permit = permit.expect("nothing closes the semaphore");
        let mut place = self.enqueue(marker, work);
        // Other tasks of this thread that are about to write join the group.
        yield_once().await;
        loop {
            let delay = match poll_fn(|context| place.poll_turn(context)).await {
                Turn::Answered(answer) => return answer,
                Turn::Sleep(delay) => delay,
            };
            match select(&mut place.answer, self.clock.sleep(delay)).await {
                Either::Left((answer, _)) => return received(answer),
                Either::Right(((), _)) => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue<T: Send + 'static>(
        &self,
        marker: MarkerChange,
        work: impl FnMut(&mut Tx<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Place<'_, T> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Task::new(work, reply));
        let mut queue = self.lock();
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        queue.writes.push_back(Write {
            ticket,
            waker: None,
            alone: false,
            marker,
            job,
        });
        Place {
            writer: self,
            ticket,
            answer,
        }
    }
}

impl Queue {
    fn position(&self, ticket: u64) -> Option<usize> {
        self.writes
            .binary_search_by_key(&ticket, |write| write.ticket)
            .ok()
    }

    /// Removes the writes that share the next commit: all, unless some need their own.
    fn next_group(&mut self) -> Vec<Write> {
        let first_alone = self.writes.iter().position(|write| write.alone);
        let count = first_alone.map_or(self.writes.len(), |position| position.max(1));
        self.writes.drain(..count).collect()
    }

    /// Puts the writes of a failed group back, each to be committed alone. Returns those whose
    /// future was dropped while they were not queued.
    fn put_back(&mut self, group: Vec<Write>) -> Vec<Write> {
        let (abandoned, wanted): (Vec<_>, Vec<_>) = group
            .into_iter()
            .partition(|write| write.job.is_abandoned());
        for mut write in wanted.into_iter().rev() {
            write.alone = true;
            self.writes.push_front(write);
        }
        abandoned
    }

    /// Plans the next attempt to get the write lock; false if this takes too long.
    fn plan_retry(&mut self, now: Duration) -> bool {
        let attempts = self.busy.map_or(0, |busy| busy.attempts);
        let since = self.busy.map_or(now, |busy| busy.since);
        if now.saturating_sub(since) >= BUSY_TIMEOUT {
            self.busy = None;
            return false;
        }
        let delay = BUSY_DELAYS[attempts.min(BUSY_DELAYS.len() - 1)];
        self.busy = Some(Busy {
            since,
            attempts: attempts + 1,
            retry_at: now + Duration::from_millis(delay),
        });
        true
    }
}

/// The place of a write in the queue. Dropping it removes the write from the queue.
struct Place<'w, T> {
    writer: &'w Writer,
    ticket: u64,
    answer: oneshot::Receiver<Answer<T>>,
}

enum Turn<T> {
    Answered(Answer<T>),
    /// Another process writes: try again after this time.
    Sleep(Duration),
}

impl<T> Place<'_, T> {
    /// Returns the answer, after leading a group if nobody else does.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Turn<T>> {
        if let Poll::Ready(answer) = self.poll_answer(context) {
            return Poll::Ready(Turn::Answered(answer));
        }
        let leader = {
            let now = self.writer.clock.elapsed();
            let mut queue = self.writer.lock();
            let Some(position) = queue.position(self.ticket) else {
                // Another thread is committing it.
                return Poll::Pending;
            };
            let rest = queue.busy.map(|busy| busy.retry_at.saturating_sub(now));
            if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
                return Poll::Ready(Turn::Sleep(rest));
            }
            let Some(committer) = queue.committer.take() else {
                queue.writes[position].waker = Some(context.waker().clone());
                return Poll::Pending;
            };
            Leader {
                writer: self.writer,
                committer: Some(committer),
            }
        };
        leader.lead();
        let answer = self.poll_answer(context);
        if answer.is_pending() {
            // Other tasks run before the next transaction.
            context.waker().wake_by_ref();
        }
        answer.map(Turn::Answered)
    }

    fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<Answer<T>> {
        Pin::new(&mut self.answer).poll(context).map(received)
    }
}

impl<T> Drop for Place<'_, T> {
    fn drop(&mut self) {
        // Closed first: a leader that puts the write back either sees this, or did so before.
        self.answer.close();
        let mut queue = self.writer.lock();
        let position = queue.position(self.ticket);
        let removed = position.and_then(|position| queue.writes.remove(position));
        if queue.writes.is_empty() {
            queue.busy = None;
        }
        drop(queue);
        drop(removed);
    }
}

/// Lets every task of this thread run that is ready. Unlike `tokio::task::yield_now`, which defers
/// the task: with that, writes of concurrent tasks hardly ever shared a commit.
async fn yield_once() {
    let mut is_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut is_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn received<T>(answer: Result<Answer<T>, oneshot::error::RecvError>) -> Answer<T> {
    answer.unwrap_or_else(|_| {
        Err(Error::Unavailable {
            place: "the database".into(),
            reason: "a write that shared the commit panicked".into(),
        })
    })
}

/// The right to commit. Dropping it, also by a panic, gives the right back.
struct Leader<'w> {
    writer: &'w Writer,
    committer: Option<Committer>,
}

impl Leader<'_> {
    /// Commits one group, in one transaction.
    fn lead(mut self) {
        let Some(committer) = &mut self.committer else {
            return;
        };
        let error = match committer.begin() {
            Ok(Begun::Transaction(transaction)) => {
                let mut group = {
                    let mut queue = self.writer.lock();
                    queue.busy = None;
                    queue.next_group()
                };
                if transaction.commit(&mut group) == Outcome::Retry {
                    let abandoned = self.writer.lock().put_back(group);
                    drop(abandoned);
                }
                return;
            }
            Ok(Begun::Busy(error)) => {
                let now = self.writer.clock.elapsed();
                if self.writer.lock().plan_retry(now) {
                    return;
                }
                error
            }
            Err(error) => error,
        };
        let writes = std::mem::take(&mut self.writer.lock().writes);
        Committer::refuse(writes, &error);
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let mut queue = self.writer.lock();
        queue.committer = self.committer.take();
        // Not only the first: its task may be busy elsewhere. Whichever is polled first leads.
        let wakers: Vec<_> = queue
            .writes
            .iter_mut()
            .filter_map(|write| write.waker.take())
            .collect();
        drop(queue);
        for waker in wakers {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests;
