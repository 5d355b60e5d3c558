//! Trying again what may work a moment later.

use std::time::Duration;

use segno_core::retry::{Backoff, Policy};

use super::Warehouse;
use super::fault::Fault;

/// For how long anything is tried.
const LONGEST: Duration = Duration::from_mins(2);

/// How often, if somebody answers there.
const RETRIES: Policy = Policy {
    retries: 7,
    backoff: Backoff::Jittered,
    shortest: Duration::from_millis(100),
    longest: Duration::from_secs(10),
};

/// How often, if nobody does.
const KNOCKS: Policy = Policy {
    retries: 2,
    ..RETRIES
};

impl Warehouse {
    /// Tries until it works, it is known that it will not, or it took too long.
    pub(super) async fn patiently<T, F>(
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
                Fault::Passing(_) => RETRIES,
                Fault::Unreachable(_) => KNOCKS,
                _ => return Err(fault),
            };
            match policy.wait(failed, self.random.chance()) {
                Some(wait) if self.clock.elapsed() + wait < begun + LONGEST => {
                    self.clock.sleep(wait).await;
                }
                _ => return Err(fault),
            }
        }
        unreachable!("policies end")
    }
}
