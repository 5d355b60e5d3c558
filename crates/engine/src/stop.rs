//! Asking a run to stop, and hearing of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use segno_core::checkpoint::Trigger;
use segno_core::journal::{StopMode, StopRequested};
use segno_core::redact::Redactor;
use segno_core::session::Status;
use tokio::sync::watch;

/// Why a run should stop.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// Someone asked.
    Asked(StopRequested),
    /// Another run was granted: nothing may be written any more.
    Fenced(segno_core::store::Error),
}

impl Stop {
    /// A wish without further words.
    pub fn asked(by: &str, mode: StopMode, status: Status) -> Self {
        Self::Asked(StopRequested {
            by: by.to_owned(),
            mode,
            status,
            reason: None,
            checkpoint: None,
        })
    }

    /// The end of everything around it: the machine shuts down, or the terminal goes away. Nobody
    /// decided to pause; what there is, is kept.
    pub fn shutdown(by: &str, checkpoint: Trigger) -> Self {
        Self::Asked(StopRequested {
            by: by.to_owned(),
            mode: StopMode::Now,
            status: Status::Interrupted,
            reason: None,
            checkpoint: Some(checkpoint),
        })
    }

    /// A wish from the inbox. Whoever posted it may not have known all secrets that the run knows (P12).
    pub(crate) fn heard(asked: StopRequested, redactor: &Redactor) -> Self {
        let plain = |text: String| redactor.redact(&text).into_owned();
        Self::Asked(StopRequested {
            by: plain(asked.by),
            reason: asked.reason.map(plain),
            ..asked
        })
    }

    pub(crate) fn is_immediate(&self) -> bool {
        !matches!(self, Self::Asked(asked) if asked.mode == StopMode::Boundary)
    }

    /// Both wishes together. Who asked last is named, if that changed anything.
    fn and(self, other: Stop) -> Stop {
        let (first, again) = match (self, other) {
            (fenced @ Stop::Fenced(_), _) | (_, fenced @ Stop::Fenced(_)) => return fenced,
            (Stop::Asked(first), Stop::Asked(again)) => (first, again),
        };
        let mode = match again.mode {
            StopMode::Now => StopMode::Now,
            StopMode::Boundary => first.mode,
        };
        let status = match again.status {
            Status::Cancelled => Status::Cancelled,
            _ => first.status,
        };
        let changed = (mode, status) != (first.mode, first.status);
        Stop::Asked(StopRequested {
            by: if changed { again.by } else { first.by },
            mode,
            status,
            reason: again.reason.or(first.reason),
            checkpoint: first.checkpoint.or(again.checkpoint),
        })
    }
}

/// Asks. Clones ask the same run.
#[derive(Debug, Clone, Default)]
pub struct Brake {
    wish: watch::Sender<Option<Stop>>,
    in_task: Arc<AtomicBool>,
}

impl Brake {
    /// Asks the run to stop. Wishes add up: at once is stronger than at the next boundary, giving
    /// up is stronger than pausing, and being overtaken is stronger than everything.
    pub fn pull(&self, stop: Stop) {
        self.add(stop);
    }

    /// The same. Returns whether that changes anything.
    pub(crate) fn add(&self, stop: Stop) -> bool {
        let mut is_new = false;
        self.wish.send_if_modified(|current| {
            let sum = match current {
                None => stop,
                Some(current) => current.clone().and(stop),
            };
            is_new = current.as_ref() != Some(&sum);
            *current = Some(sum);
            // Whoever waits for the next wish hears of one that changes nothing, too.
            true
        });
        is_new
    }

    /// Says whether several steps are one piece of work from here on, which is not left in the middle
    /// unless at once.
    pub(crate) fn set_in_task(&self, in_task: bool) {
        self.in_task.store(in_task, Ordering::Relaxed);
    }

    pub(crate) fn in_task(&self) -> bool {
        self.in_task.load(Ordering::Relaxed)
    }

    /// What is brought to its end by a run that does not stop at once.
    pub fn last_piece(&self) -> &'static str {
        if self.in_task() {
            "this task"
        } else {
            "this step"
        }
    }

    /// What was asked so far.
    pub fn pulled(&self) -> Option<Stop> {
        self.wish.borrow().clone()
    }

    /// Returns when a stop at once was asked.
    pub async fn at_once(&self) -> Stop {
        let mut receiver = self.wish.subscribe();
        let stop = receiver
            .wait_for(|stop| stop.as_ref().is_some_and(Stop::is_immediate))
            .await;
        stop.expect("the sender lives in self")
            .clone()
            .expect("it was just seen")
    }

    /// Returns when one more stop is asked than were so far.
    pub(crate) async fn next(&self) {
        let mut receiver = self.wish.subscribe();
        receiver.changed().await.expect("the sender lives in self");
    }

    /// Returns when any stop was asked.
    pub async fn any(&self) -> Stop {
        let mut receiver = self.wish.subscribe();
        let stop = receiver.wait_for(Option::is_some).await;
        stop.expect("the sender lives in self")
            .clone()
            .expect("it was just seen")
    }
}
