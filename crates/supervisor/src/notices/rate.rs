//! A token bucket per target, stored between processes.

use segno_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::target::Rate;

/// How many messages a target may get now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bucket {
    available: u32,
    /// The time up to which messages were added.
    at: Timestamp,
}

impl Bucket {
    pub(super) fn full(rate: Rate, now: Timestamp) -> Self {
        Self {
            available: rate.burst,
            at: now,
        }
    }

    /// Adds what the time since the last call allows, and returns how many messages are allowed. A
    /// clock that was set back neither adds nor blocks.
    pub(super) fn available(&mut self, rate: Rate, now: Timestamp) -> u32 {
        let every = rate.every.as_millis().max(1);
        let passed = now.since(self.at).as_millis() / every;
        let added = u32::try_from(passed).unwrap_or(u32::MAX);
        self.available = self.available.saturating_add(added).min(rate.burst);
        let is_full = self.available == rate.burst;
        self.at = if is_full || now < self.at {
            now
        } else {
            self.at.after(rate.every * added)
        };
        self.available
    }

    pub(super) fn consume(&mut self) {
        self.available = self.available.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const RATE: Rate = Rate {
        burst: 3,
        every: Duration::from_secs(10),
    };

    #[test]
    fn burst_is_followed_by_one_per_interval() {
        let mut bucket = Bucket::full(RATE, Timestamp(0));
        let mut sent = Vec::new();
        for second in 0..40 {
            if bucket.available(RATE, Timestamp(second * 1000)) > 0 {
                bucket.consume();
                sent.push(second);
            }
        }
        assert_eq!(sent, [0, 1, 2, 10, 20, 30]);
    }

    #[test]
    fn clock_set_back_does_not_block() {
        let mut bucket = Bucket::full(RATE, Timestamp(1_000_000));
        for _ in 0..3 {
            bucket.consume();
        }
        assert_eq!(bucket.available(RATE, Timestamp(0)), 0);
        assert_eq!(bucket.available(RATE, Timestamp(10_000)), 1);
    }
}
