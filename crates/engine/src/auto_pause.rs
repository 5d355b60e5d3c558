//! Pauses a run automatically after a number of steps or an amount of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use segno_core::checkpoint::Trigger;
use segno_core::journal::{StopMode, StopRequested};
use segno_core::ports::Clock;
use segno_core::session::Status;
use segno_core::time::format_duration;
use segno_spec::PausePolicy;

use crate::stop::Stop;

pub(crate) struct AutoPause {
    pauses: PausePolicy,
    /// What is counted: steps, or the tasks of a plan.
    unit: &'static str,
    clock: Arc<dyn Clock>,
    started: Duration,
    steps: AtomicU32,
}

impl AutoPause {
    pub(crate) fn new(pauses: PausePolicy, unit: &'static str, clock: Arc<dyn Clock>) -> Self {
        Self {
            pauses,
            unit,
            started: clock.elapsed(),
            clock,
            steps: AtomicU32::new(0),
        }
    }

    /// Counts a finished step.
    pub(crate) fn count_step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// The stop request, if a pause is due. Checked before anything new starts.
    pub(crate) fn due_stop(&self) -> Option<Stop> {
        let steps = self.steps.load(Ordering::Relaxed);
        if self.pauses.after_steps.is_some_and(|limit| steps >= limit) {
            let unit = self.unit;
            let reason = match steps {
                1 => format!("1 {unit} finished"),
                steps => format!("{steps} {unit}s finished"),
            };
            return Some(stop(
                "continuity.pause.after_steps",
                reason,
                Trigger::TaskComplete,
            ));
        }
        let active = self.clock.elapsed().saturating_sub(self.started);
        if self.pauses.after.is_some_and(|limit| active >= limit) {
            let reason = format!("the run was active for {}", format_duration(active));
            return Some(stop("continuity.pause.after_s", reason, Trigger::Timeout));
        }
        None
    }
}

fn stop(by: &str, reason: String, checkpoint: Trigger) -> Stop {
    Stop::Requested(StopRequested {
        by: by.to_owned(),
        mode: StopMode::Boundary,
        status: Status::Paused,
        reason: Some(reason),
        checkpoint: Some(checkpoint),
    })
}
