//! Retry policy: how long to wait before the next attempt.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How the wait grows from one attempt to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// Always the shortest wait.
    Constant,
    /// Doubles each time, up to the longest wait.
    Exponential,
    /// Random between the shortest and the exponential wait, so that many clients do not retry at once.
    Jittered,
}

/// How often and after which waits a failed step is retried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// Further attempts after the first.
    pub retries: u32,
    pub backoff: Backoff,
    pub shortest: Duration,
    pub longest: Duration,
}

impl Policy {
    /// The wait before attempt `failed + 1`, after `failed` attempts of this run failed; `None` if there
    /// is no further attempt. `jitter` in 0..1 selects a jittered wait within its range.
    pub fn wait(&self, failed: u32, jitter: f64) -> Option<Duration> {
        if failed > self.retries {
            return None;
        }
        let longest = self.longest.max(self.shortest);
        let doubled = 2_u32
            .checked_pow(failed.saturating_sub(1))
            .and_then(|factor| self.shortest.checked_mul(factor))
            .map_or(longest, |wait| wait.min(longest));
        Some(match self.backoff {
            Backoff::Constant => self.shortest,
            Backoff::Exponential => doubled,
            Backoff::Jittered => {
                self.shortest
                    + doubled
                        .saturating_sub(self.shortest)
                        .mul_f64(jitter.clamp(0.0, 1.0))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(backoff: Backoff, jitter: f64) -> Vec<Option<u64>> {
        let policy = Policy {
            retries: 4,
            backoff,
            shortest: Duration::from_secs(1),
            longest: Duration::from_secs(5),
        };
        (1..=5)
            .map(|n| policy.wait(n, jitter).map(|wait| wait.as_secs()))
            .collect()
    }

    #[test]
    fn waits_follow_the_backoff_until_retries_end() {
        assert_eq!(
            waits(Backoff::Constant, 0.9),
            [Some(1), Some(1), Some(1), Some(1), None]
        );
        assert_eq!(
            waits(Backoff::Exponential, 0.9),
            [Some(1), Some(2), Some(4), Some(5), None]
        );
        assert_eq!(waits(Backoff::Jittered, 0.0)[3], Some(1));
        assert_eq!(waits(Backoff::Jittered, 1.0)[3], Some(5));
    }

    #[test]
    fn a_thousand_failures_do_not_overflow() {
        let policy = Policy {
            retries: u32::MAX,
            backoff: Backoff::Exponential,
            shortest: Duration::from_secs(1),
            longest: Duration::from_mins(1),
        };
        assert_eq!(policy.wait(1000, 0.5), Some(Duration::from_mins(1)));
    }
}
