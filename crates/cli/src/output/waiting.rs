//! What a command says while it takes its time.

use std::sync::Arc;
use std::time::Duration;

use segno_core::ports::Clock;

use super::{is_live, passing};

/// Nothing is said before this much time has passed.
const PATIENCE: Duration = Duration::from_secs(1);

/// A line about how far something is, on a terminal, if it takes longer than a moment. It is gone
/// when this is dropped.
pub(crate) struct Waiting {
    clock: Arc<dyn Clock>,
    begun: Duration,
    shown: bool,
}

impl Waiting {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            begun: clock.elapsed(),
            clock,
            shown: false,
        }
    }

    fn is_long(&self) -> bool {
        self.clock.elapsed().saturating_sub(self.begun) >= PATIENCE
    }

    /// So far it is.
    pub(crate) fn tell(&mut self, line: &str) {
        if is_live() && self.is_long() {
            passing(line);
            self.shown = true;
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.shown {
            passing("");
        }
    }
}

#[cfg(test)]
mod tests {
    use segno_testkit::clock::HandClock;

    use super::*;

    #[test]
    fn nothing_is_said_about_a_moment() {
        let clock = Arc::new(HandClock::default());
        clock.turn(5000);
        let waiting = Waiting::new(clock.clone());
        clock.turn(999);
        assert!(!waiting.is_long());
        clock.turn(1);
        assert!(waiting.is_long());
    }
}
