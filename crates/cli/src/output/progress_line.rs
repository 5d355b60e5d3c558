//! A progress line for commands that may take long.

use std::sync::Arc;
use std::time::Duration;

use segno_core::ports::Clock;

use super::{is_live, live_line};

/// Nothing is shown before this much time has passed.
const DELAY: Duration = Duration::from_secs(1);

/// A progress line on a terminal, shown only if the work takes longer than a moment. It is removed
/// on drop.
pub(crate) struct ProgressLine {
    clock: Arc<dyn Clock>,
    begun: Duration,
    shown: bool,
}

impl ProgressLine {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            begun: clock.elapsed(),
            clock,
            shown: false,
        }
    }

    fn is_long(&self) -> bool {
        self.clock.elapsed().saturating_sub(self.begun) >= DELAY
    }

    /// Updates the line.
    pub(crate) fn update(&mut self, line: &str) {
        if is_live() && self.is_long() {
            live_line(line);
            self.shown = true;
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.shown {
            live_line("");
        }
    }
}

#[cfg(test)]
mod tests {
    use segno_testkit::clock::ManualClock;

    use super::*;

    #[test]
    fn short_work_shows_no_progress_line() {
        let clock = Arc::new(ManualClock::default());
        clock.advance(5000);
        let line = ProgressLine::new(clock.clone());
        clock.advance(999);
        assert!(!line.is_long());
        clock.advance(1);
        assert!(line.is_long());
    }
}
