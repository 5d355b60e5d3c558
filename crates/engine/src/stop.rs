//! Requests a run to stop, and delivers the request to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use segno_core::checkpoint::Trigger;
use segno_core::journal::{StopMode, StopRequested};
use segno_core::session::Status;
use segno_secrets::redact::Redactor;
use tokio::sync::watch;

/// Why a run should stop.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// A user or a program requested it.
    Requested(StopRequested),
    /// Another run has the lease: this run must not write any more.
    Fenced(segno_core::store::Error),
}

impl Stop {
    /// A request without a reason.
    pub fn request(by: &str, mode: StopMode, status: Status) -> Self {
        Self::Requested(StopRequested {
            by: by.to_owned(),
            mode,
            status,
            reason: None,
            checkpoint: None,
        })
    }

    /// A shutdown around the run: the machine shuts down, or the terminal closes. No one decided to
    /// pause; `checkpoint` keeps what there is.
    pub fn shutdown(by: &str, checkpoint: Trigger) -> Self {
        Self::Requested(StopRequested {
            by: by.to_owned(),
            mode: StopMode::Now,
            status: Status::Interrupted,
            reason: None,
            checkpoint: Some(checkpoint),
        })
    }

    /// A request from the inbox. The sender may not know all secrets that the run knows, so it is
    /// redacted (P12).
    pub(crate) fn from_inbox(asked: StopRequested, redactor: &Redactor) -> Self {
        let plain = |text: String| redactor.redact(&text).into_owned();
        Self::Requested(StopRequested {
            by: plain(asked.by),
            reason: asked.reason.map(plain),
            ..asked
        })
    }

    pub(crate) fn is_immediate(&self) -> bool {
        !matches!(self, Self::Requested(asked) if asked.mode == StopMode::Boundary)
    }

    /// Merges two requests. The later requester is named if the request changed anything.
    fn merge(self, other: Stop) -> Stop {
        let (first, later) = match (self, other) {
            (fenced @ Stop::Fenced(_), _) | (_, fenced @ Stop::Fenced(_)) => return fenced,
            (Stop::Requested(first), Stop::Requested(later)) => (first, later),
        };
        let mode = match later.mode {
            StopMode::Now => StopMode::Now,
            StopMode::Boundary => first.mode,
        };
        let status = match later.status {
            Status::Cancelled => Status::Cancelled,
            _ => first.status,
        };
        let changed = (mode, status) != (first.mode, first.status);
        Stop::Requested(StopRequested {
            by: if changed { later.by } else { first.by },
            mode,
            status,
            reason: later.reason.or(first.reason),
            checkpoint: first.checkpoint.or(later.checkpoint),
        })
    }
}

/// A stop token. Clones stop the same run.
#[derive(Debug, Clone, Default)]
pub struct StopToken {
    request: watch::Sender<Option<Stop>>,
    in_task: Arc<AtomicBool>,
}

impl StopToken {
    /// Requests the run to stop. Requests merge: immediate is stronger than at the next boundary,
    /// cancel is stronger than pause, and fencing is stronger than everything.
    pub fn request_stop(&self, stop: Stop) {
        // A user who repeats a request does not want to wait any longer.
        self.merge_and_notify(stop, true);
    }

    /// The same for a request that may have been merged before, and is not repeated by anybody.
    /// Returns whether it changed anything.
    pub(crate) fn merge(&self, stop: Stop) -> bool {
        self.merge_and_notify(stop, false)
    }

    fn merge_and_notify(&self, stop: Stop, is_repeated: bool) -> bool {
        let mut is_new = false;
        self.request.send_if_modified(|current| {
            let merged = match current {
                None => stop,
                Some(current) => current.clone().merge(stop),
            };
            is_new = current.as_ref() != Some(&merged);
            *current = Some(merged);
            is_new || is_repeated
        });
        is_new
    }

    /// Sets whether the following steps form one task, which only an immediate stop interrupts.
    pub(crate) fn set_in_task(&self, in_task: bool) {
        self.in_task.store(in_task, Ordering::Relaxed);
    }

    pub(crate) fn in_task(&self) -> bool {
        self.in_task.load(Ordering::Relaxed)
    }

    /// What a run finishes that does not stop immediately.
    pub fn stops_after(&self) -> &'static str {
        if self.in_task() {
            "this task"
        } else {
            "this step"
        }
    }

    /// The merged requests so far.
    pub(crate) fn requested(&self) -> Option<Stop> {
        self.request.borrow().clone()
    }

    /// Returns when an immediate stop was requested.
    pub(crate) async fn wait_immediate(&self) -> Stop {
        let mut receiver = self.request.subscribe();
        let stop = receiver
            .wait_for(|stop| stop.as_ref().is_some_and(Stop::is_immediate))
            .await;
        stop.expect("the sender lives in self")
            .clone()
            .expect("it was just seen")
    }

    /// Returns at the next request after this call.
    pub(crate) async fn next_request(&self) {
        let mut receiver = self.request.subscribe();
        receiver.changed().await.expect("the sender lives in self");
    }

    /// Returns when any stop was requested.
    pub(crate) async fn wait_any(&self) -> Stop {
        let mut receiver = self.request.subscribe();
        let stop = receiver.wait_for(Option::is_some).await;
        stop.expect("the sender lives in self")
            .clone()
            .expect("it was just seen")
    }
}
