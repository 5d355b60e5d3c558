//! Retries transient errors.

use std::time::Duration;

use segno_core::retry::{Backoff, Policy};

use super::ObjectRemote;
use super::fault::Fault;

/// How long retries may take in total.
const LONGEST: Duration = Duration::from_mins(2);

/// The retries if the server answers.
const RETRIES: Policy = Policy {
    retries: 7,
    backoff: Backoff::Jittered,
    shortest: Duration::from_millis(100),
    longest: Duration::from_secs(10),
};

/// The retries if there is no answer.
const UNREACHABLE_RETRIES: Policy = Policy {
    retries: 2,
    ..RETRIES
};

impl ObjectRemote {
    /// Retries until the attempt succeeds, a retry would not help, or it took too long.
    pub(super) async fn retry<T, F>(
        &self,
        mut attempt: impl FnMut() -> F + Send,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>> + Send,
    {
        let begun = self.clock.elapsed();
        for failed in 1.. {
            let fault = match attempt().await {
                Ok(done) => return Ok(done),
                Err(fault) => fault,
            };
            let policy = match fault {
                Fault::Transient(_) => RETRIES,
                Fault::Unreachable(_) => UNREACHABLE_RETRIES,
                _ => return Err(fault),
            };
            match policy.wait(failed, self.random.fraction()) {
                Some(wait) if self.clock.elapsed() + wait < begun + LONGEST => {
                    self.clock.sleep(wait).await;
                }
                _ => return Err(fault),
            }
        }
        unreachable!("a retry policy is finite")
    }
}
