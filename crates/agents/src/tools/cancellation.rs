//! The blocking part of a tool, in a thread of its own: the run's thread keeps renewing its lease
//! and reacts to signals, whatever the tool waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use segno_core::ports::Clock;
use tokio::sync::oneshot;

const RUNNING: u8 = 0;
const COMMITTED: u8 = 1;
const CANCELLED: u8 = 2;

/// Whether work is still wanted. It is cancelled before its effect or not at all.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<AtomicU8>);

impl Cancellation {
    /// An error if the work is cancelled. Work calls this before each part that can take long.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.0.load(Ordering::Acquire) {
            CANCELLED => Err(cancelled()),
            _ => Ok(()),
        }
    }

    /// Work calls this once, right before its effect. From then on it is not cancelled.
    pub(crate) fn commit(&self) -> Result<(), String> {
        match self.change(COMMITTED) {
            Err(CANCELLED) => Err(cancelled()),
            _ => Ok(()),
        }
    }

    /// Returns whether nothing has happened and nothing will.
    fn cancel(&self) -> bool {
        self.change(CANCELLED) != Err(COMMITTED)
    }

    fn change(&self, to: u8) -> Result<u8, u8> {
        self.0
            .compare_exchange(RUNNING, to, Ordering::AcqRel, Ordering::Acquire)
    }
}

fn cancelled() -> String {
    "the call was cancelled".to_owned()
}

/// Cancels the work when the call is dropped.
struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs `work` in a thread of its own until it is done, `limit` has passed, or the future is
/// dropped. Then it is cancelled. A thread that hangs in the kernel is left behind: it has no effect
/// any more, and does not keep the process from ending.
pub async fn run_blocking<T: Send + 'static>(
    clock: &dyn Clock,
    limit: Duration,
    work: impl FnOnce(&Cancellation) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let cancellation = Cancellation::default();
    let (sender, done) = oneshot::channel();
    let inside = cancellation.clone();
    let thread = thread::Builder::new().name("segno-tool".to_owned());
    // The receiver is gone only if nobody wants the result.
    let started = thread.spawn(move || drop(sender.send(work(&inside))));
    started.map_err(|error| format!("no thread can be started: {error}"))?;
    let cancel = CancelOnDrop(cancellation);
    tokio::select! {
        result = done => result.unwrap_or_else(|_| Err("the tool failed unexpectedly".to_owned())),
        () = clock.sleep(limit) => Err(late(limit, cancel.0.cancel())),
    }
}

fn late(limit: Duration, cancelled: bool) -> String {
    let outcome = if cancelled {
        "it was cancelled and changed nothing"
    } else {
        "whether it took effect is unknown"
    };
    format!("not done within {} seconds: {outcome}", limit.as_secs())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use segno_core::ports::Boxed;
    use segno_core::time::Timestamp;

    use super::*;

    /// A clock whose sleeps end at once, or never.
    struct FixedClock {
        is_late: bool,
    }

    impl Clock for FixedClock {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }

        fn elapsed(&self) -> Duration {
            Duration::ZERO
        }

        fn sleep(&self, _: Duration) -> Boxed<'_, ()> {
            if self.is_late {
                Box::pin(std::future::ready(()))
            } else {
                Box::pin(std::future::pending())
            }
        }
    }

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn work_does_not_block_the_runtime_thread() {
        let (sender, received) = mpsc::channel();
        let clock = FixedClock { is_late: false };
        let work = run_blocking(&clock, LIMIT, move |_| {
            received.recv().map_err(|error| error.to_string())
        });
        let other = async { sender.send(7).unwrap() };
        let (done, ()) = tokio::join!(work, other);
        assert_eq!(done, Ok(7));
    }

    #[tokio::test]
    async fn late_work_is_cancelled_before_its_effect() {
        let (sender, received) = mpsc::channel::<()>();
        let (outcome, seen) = mpsc::channel();
        let clock = FixedClock { is_late: true };
        let done = run_blocking(&clock, LIMIT, move |cancellation| {
            let _ = received.recv();
            outcome.send(cancellation.commit()).unwrap();
            Ok(())
        });
        let late = "not done within 30 seconds: it was cancelled and changed nothing";
        assert_eq!(done.await, Err(late.to_owned()));
        drop(sender);
        assert_eq!(seen.recv().unwrap(), Err(cancelled()));
    }

    #[test]
    fn late_work_with_an_effect_says_so() {
        let cancellation = Cancellation::default();
        assert_eq!(cancellation.commit(), Ok(()));
        assert!(!cancellation.cancel());
        assert_eq!(cancellation.check(), Ok(()));
        assert!(late(LIMIT, false).ends_with("whether it took effect is unknown"));
    }

    #[tokio::test]
    async fn dropped_work_is_cancelled() {
        let (started, running) = oneshot::channel();
        let (outcome, seen) = mpsc::channel();
        let clock = FixedClock { is_late: false };
        let work = run_blocking(&clock, LIMIT, move |cancellation| {
            started.send(()).unwrap();
            while cancellation.check().is_ok() {
                thread::yield_now();
            }
            outcome.send(()).unwrap();
            Ok(())
        });
        tokio::select! {
            done = work => panic!("ended: {done:?}"),
            begun = running => begun.unwrap(),
        }
        seen.recv().unwrap();
    }
}
