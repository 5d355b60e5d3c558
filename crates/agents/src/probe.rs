//! Shared by the fuzzing entry points. An entry point feeds bytes to a parser as a program or a
//! server would, and renders the events and the outcome as text, so that two results can be
//! compared.

use std::fmt::{Debug, Write};
use std::sync::Mutex;
use std::time::Duration;

use segno_core::agent::{Event, Listener};
use segno_core::ports::{Boxed, Clock};
use segno_core::time::Timestamp;

/// Records every event as text.
#[derive(Default)]
pub(crate) struct EventLog(Mutex<String>);

impl EventLog {
    /// The recorded events, followed by the outcome.
    pub(crate) fn with_outcome(self, outcome: &impl Debug) -> String {
        let log = self
            .0
            .into_inner()
            .expect("no thread panics while it holds the lock");
        format!("{log}{outcome:?}")
    }
}

impl Listener for EventLog {
    fn on_event(&self, event: Event<'_>) {
        let mut log = self
            .0
            .lock()
            .expect("no thread panics while it holds the lock");
        let _ = writeln!(log, "{event:?}");
    }
}

/// A clock that does not advance.
pub(crate) struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> Boxed<'_, ()> {
        Box::pin(std::future::pending())
    }
}
