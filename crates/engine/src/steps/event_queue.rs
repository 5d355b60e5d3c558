//! The queue between a driver, which reports events, and the task that journals them.
//!
//! A push never waits, because drivers report from synchronous code. The bound is kept by the
//! driver: it awaits [`Sender::room`] before it reads the next message of its agent. So the queue
//! holds at most [`MAX_QUEUED`] events and those of one message (P10).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// How many events may wait before the driver waits.
pub(super) const MAX_QUEUED: usize = 64;

/// A new queue.
pub(super) fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let queue = Arc::new(Queue {
        state: Mutex::new(State {
            items: VecDeque::new(),
            is_closed: false,
        }),
        arrived: Notify::new(),
        taken: Notify::new(),
    });
    (Sender(Arc::clone(&queue)), Receiver(queue))
}

struct Queue<T> {
    state: Mutex<State<T>>,
    /// Notified after a push, and when the sender is dropped.
    arrived: Notify,
    /// Notified after the queue was emptied, and when the receiver is dropped.
    taken: Notify,
}

struct State<T> {
    items: VecDeque<T>,
    /// Set when either end is gone.
    is_closed: bool,
}

impl<T> Queue<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Sender<T>(Arc<Queue<T>>);

impl<T> Sender<T> {
    /// Adds an item. Without a receiver it is dropped.
    pub(super) fn push(&self, item: T) {
        let mut state = self.0.state();
        if !state.is_closed {
            state.items.push_back(item);
            self.0.arrived.notify_one();
        }
    }

    /// Returns when fewer than [`MAX_QUEUED`] items wait, or no one takes them any more.
    pub(super) async fn room(&self) {
        loop {
            {
                let state = self.0.state();
                if state.is_closed || state.items.len() < MAX_QUEUED {
                    return;
                }
            }
            self.0.taken.notified().await;
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.arrived.notify_one();
    }
}

pub(super) struct Receiver<T>(Arc<Queue<T>>);

impl<T> Receiver<T> {
    /// Returns all waiting items, at least one; `None` when the sender is gone and none is left.
    pub(super) async fn take_all(&mut self) -> Option<VecDeque<T>> {
        loop {
            {
                let mut state = self.0.state();
                if !state.items.is_empty() {
                    self.0.taken.notify_one();
                    return Some(std::mem::take(&mut state.items));
                }
                if state.is_closed {
                    return None;
                }
            }
            self.0.arrived.notified().await;
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.taken.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn full_queue_has_room_after_it_is_emptied() {
        let (sender, mut receiver) = channel();
        for number in 0..MAX_QUEUED {
            assert_eq!(sender.room().now_or_never(), Some(()), "{number}");
            sender.push(number);
        }
        assert_eq!(sender.room().now_or_never(), None);
        let taken = receiver.take_all().now_or_never().flatten().unwrap();
        assert_eq!(taken, (0..MAX_QUEUED).collect::<Vec<_>>());
        assert_eq!(sender.room().now_or_never(), Some(()));
    }

    #[test]
    fn waiting_ends_when_the_other_side_is_gone() {
        let (sender, receiver) = channel();
        (0..MAX_QUEUED).for_each(|number| sender.push(number));
        drop(receiver);
        assert_eq!(sender.room().now_or_never(), Some(()));

        let (sender, mut receiver) = channel();
        sender.push(1);
        drop(sender);
        assert_eq!(receiver.take_all().now_or_never(), Some(Some([1].into())));
        assert_eq!(receiver.take_all().now_or_never(), Some(None));
    }

    #[tokio::test]
    async fn slow_receiver_holds_the_sender_back() {
        let (sender, mut receiver) = channel();
        let writing = tokio::spawn(async move {
            for number in 0..10_000 {
                sender.room().await;
                sender.push(number);
            }
        });
        let mut received = Vec::new();
        while let Some(items) = receiver.take_all().await {
            assert!(items.len() <= MAX_QUEUED, "{}", items.len());
            received.extend(items);
        }
        writing.await.unwrap();
        assert_eq!(received, (0..10_000).collect::<Vec<_>>());
    }
}
