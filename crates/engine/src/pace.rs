//! When a run pauses by itself: after so many steps, or so much time, of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use segno_core::checkpoint::Trigger;
use segno_core::journal::{StopMode, StopRequested};
use segno_core::ports::Clock;
use segno_core::session::Status;
use segno_core::time::human;

use crate::spec::Pauses;
use crate::stop::Stop;

pub(crate) struct Pace {
    pauses: Pauses,
    /// What is counted: steps, or the tasks of a plan.
    unit: &'static str,
    clock: Arc<dyn Clock>,
    begun: Duration,
    steps: AtomicU32,
}

impl Pace {
    pub(crate) fn new(pauses: Pauses, unit: &'static str, clock: Arc<dyn Clock>) -> Self {
        Self {
            pauses,
            unit,
            begun: clock.elapsed(),
            clock,
            steps: AtomicU32::new(0),
        }
    }

    /// A step is done.
    pub(crate) fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it is time: looked at before anything new is begun.
    pub(crate) fn due(&self) -> Option<Stop> {
        let steps = self.steps.load(Ordering::Relaxed);
        if self.pauses.after_steps.is_some_and(|most| steps >= most) {
            let unit = self.unit;
            let reason = match steps {
                1 => format!("1 {unit} is done"),
                steps => format!("{steps} {unit}s are done"),
            };
            return Some(stop(
                "continuity.pause.after_steps",
                reason,
                Trigger::TaskComplete,
            ));
        }
        let long = self.clock.elapsed().saturating_sub(self.begun);
        if self.pauses.after.is_some_and(|most| long >= most) {
            let reason = format!("it ran for {}", human(long));
            return Some(stop("continuity.pause.after_s", reason, Trigger::Timeout));
        }
        None
    }
}

fn stop(by: &str, reason: String, checkpoint: Trigger) -> Stop {
    Stop::Asked(StopRequested {
        by: by.to_owned(),
        mode: StopMode::Boundary,
        status: Status::Paused,
        reason: Some(reason),
        checkpoint: Some(checkpoint),
    })
}
