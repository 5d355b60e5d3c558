//! Decides what follows a failed attempt: retry, wait for a rate limit to end, suspend, or give up.
//!
//! A wait for a rate limit uses up none of a step's retries, because the step is not at fault. The
//! end of the wait is in the journal before the wait starts, so that a resumed run waits only for
//! the rest. Waits are bounded (P10): how long one wait may be, how long all waits of a session may
//! be together, and how many may follow each other without progress.

use std::sync::atomic::Ordering;
use std::time::Duration;

use segno_core::agent::{self, ErrorKind};
use segno_core::journal::Suspension;
use segno_core::retry::Policy;
use segno_core::state::OpenStep;
use segno_core::time::Timestamp;
use segno_spec::OnLimit;

use super::Runner;
use super::step::Step;
use crate::env::AgentDriver;
use crate::error::{Error, NoWaitReason};

/// How often a step waits for rate limits in a row, with no answer in between.
const MAX_WAITS: u32 = 50;

/// After how many refused calls the user learns how to make fewer at the same time.
const TIP_AFTER: u32 = 3;

/// How often a wait reads the clock, which may jump: a machine that slept wakes at another time.
const CLOCK_POLL: Duration = Duration::from_secs(30);

/// What follows a failed attempt.
pub(super) enum Next {
    /// Another attempt after this delay.
    Retry(Duration),
    /// Another attempt when the rate limit ends.
    WaitForLimit(Suspension),
    /// The run does not wait for the rate limit; it suspends the session.
    Suspend(Suspension, NoWaitReason),
    /// The budget does not allow another attempt.
    OverBudget(Option<Suspension>, Error),
    GiveUp,
}

impl Next {
    /// The wait in milliseconds from `now` on; `None` if there is no other attempt.
    pub(super) fn wait_ms(&self, now: Timestamp) -> Option<u64> {
        let wait = match self {
            Self::Retry(wait) => *wait,
            Self::WaitForLimit(suspension) => suspension.until.since(now),
            Self::Suspend(..) | Self::OverBudget(..) | Self::GiveUp => return None,
        };
        Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
    }

    /// The rate limit that blocks the step.
    pub(super) fn suspension(&self) -> Option<&Suspension> {
        match self {
            Self::WaitForLimit(suspension) | Self::Suspend(suspension, _) => Some(suspension),
            Self::OverBudget(suspension, _) => suspension.as_ref(),
            Self::Retry(_) | Self::GiveUp => None,
        }
    }
}

impl Runner {
    /// Decides what follows a failed attempt. `failed` counts the attempts of this run that failed
    /// for another reason than a rate limit.
    pub(super) async fn after_failure(
        &self,
        step: &Step<'_>,
        failed: u32,
        error: &agent::Error,
        now: Timestamp,
    ) -> Result<Next, Error> {
        if let ErrorKind::RateLimited(_) = error.kind {
            self.count_rate_limit();
        }
        let jitter = self.env.random.fraction();
        let (next, wait) = if let ErrorKind::RateLimited(Some(demanded)) = error.kind {
            self.journal.flush().await?;
            let state = self.journal.state();
            let waits = state
                .open_steps
                .get(&step.path)
                .map_or(0, |open| open.waits);
            // A server that says when to retry knows better than the backoff, unless it says "at
            // once" again and again.
            let unlimited = Policy {
                retries: u32::MAX,
                ..self.policy.retry
            };
            let least = unlimited.wait(waits + 1, jitter).unwrap_or_default();
            let wait = demanded.max(least);
            let suspension = Suspension {
                provider: self.provider(step),
                until: now.after(wait),
            };
            // If the budget is used up, waiting for the rate limit is pointless.
            if let Err(error) = self.check_budget_after(Duration::ZERO).await {
                return Ok(Next::OverBudget(Some(suspension), error));
            }
            let total = state.waits.adding(now, suspension.until).total_ms;
            match self.refuse_to_wait(wait, Duration::from_millis(total), waits) {
                Some(why) => return Ok(Next::Suspend(suspension, why)),
                None => (Next::WaitForLimit(suspension), wait),
            }
        } else {
            let wait = Some(error.kind).filter(|kind| kind.is_transient());
            let wait = wait.and_then(|_| self.policy.retry.wait(failed, jitter));
            match wait {
                Some(wait) => (Next::Retry(wait), wait),
                None => return Ok(Next::GiveUp),
            }
        };
        Ok(match self.check_budget_after(wait).await {
            Ok(()) => next,
            Err(error) => Next::OverBudget(next.suspension().cloned(), error),
        })
    }

    /// Counts a call that a rate limit refused while other steps were open, and tells the user once
    /// how to make fewer calls at the same time.
    fn count_rate_limit(&self) {
        let open = self.journal.with_state(|state| state.open_steps.len());
        if open < 2 || self.limits.max_parallel < 2 {
            return;
        }
        let counted = self.limits.rate_limited.fetch_add(1, Ordering::Relaxed) + 1;
        if counted == TIP_AFTER {
            self.observer.notice(&format!(
                "{TIP_AFTER} calls were refused because of rate limits while several steps were open; a `runtime.max_parallel` below {} in the spec makes fewer calls at the same time",
                self.limits.max_parallel
            ));
        }
    }

    /// Checks that the budget allows another attempt after a wait.
    async fn check_budget_after(&self, wait: Duration) -> Result<(), Error> {
        for neared in self.limits.budget.check_after(&self.id.name, wait)? {
            self.journal.enqueue(neared).await;
        }
        Ok(())
    }

    /// Why the run does not wait; `None` if it waits.
    fn refuse_to_wait(&self, wait: Duration, total: Duration, waits: u32) -> Option<NoWaitReason> {
        let policy = self.policy.rate_limits;
        if policy.on_limit == OnLimit::Pause {
            Some(NoWaitReason::Pause)
        } else if wait > policy.max_wait {
            Some(NoWaitReason::MaxWait(policy.max_wait))
        } else if total > policy.max_total_wait {
            Some(NoWaitReason::MaxTotalWait(policy.max_total_wait))
        } else if waits >= MAX_WAITS {
            Some(NoWaitReason::TooManyWaits(waits))
        } else {
            None
        }
    }

    /// Waits for the rest of the time that a provider demanded in an earlier run.
    pub(super) async fn finish_earlier_wait(
        &self,
        step: &Step<'_>,
        open: &OpenStep,
    ) -> Result<(), Error> {
        let now = self.env.clock.now();
        let Some(until) = open.not_before.filter(|until| *until > now) else {
            return Ok(());
        };
        let provider = open.limited_by.clone();
        // The limit of one provider does not hold for another.
        let other = provider
            .as_ref()
            .is_some_and(|of| *of != self.provider(step));
        if self.earlier.overrides.skip_earlier_wait || other {
            return Ok(());
        }
        let left = until.since(now);
        self.check_budget_after(Duration::ZERO).await?;
        if let Some(provider) = provider {
            let suspension = Suspension { provider, until };
            if let Some(why) = self.refuse_to_wait(left, Duration::ZERO, 0) {
                return Err(self.suspended_error(step, suspension, why));
            }
            self.check_budget_after(left).await?;
            self.observer
                .suspended(self.id.session, &step.path, &suspension);
        }
        self.sleep_until(until).await
    }

    pub(super) fn suspended_error(
        &self,
        step: &Step<'_>,
        suspension: Suspension,
        why: NoWaitReason,
    ) -> Error {
        Error::Suspended {
            name: self.id.name.clone(),
            path: step.path.clone(),
            provider: suspension.provider,
            until: suspension.until,
            why,
        }
    }

    /// Sleeps until a timestamp or a stop request. A clock that is set forward ends the sleep, as
    /// does a machine that slept; a clock that is set back does not extend it.
    pub(super) async fn sleep_until(&self, until: Timestamp) -> Result<(), Error> {
        let clock = &self.env.clock;
        let started = clock.elapsed();
        let max = until.since(clock.now());
        loop {
            let waited = clock.elapsed().saturating_sub(started);
            let left = until.since(clock.now()).min(max.saturating_sub(waited));
            if left.is_zero() {
                return Ok(());
            }
            tokio::select! {
                () = clock.sleep(left.min(CLOCK_POLL)) => {}
                stop = self.stop_token.wait_any() => return Err(self.stop_error(stop)),
            }
        }
    }

    /// The provider whose limits the agent is subject to.
    fn provider(&self, step: &Step<'_>) -> String {
        match self.replacement(step) {
            Some(AgentDriver::CliAgent(cli_agent)) => cli_agent.kind().to_string(),
            _ => step.provider_name.to_owned(),
        }
    }
}
