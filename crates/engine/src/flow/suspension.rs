//! Limits of providers that say when they are lifted: waiting for that, within bounds, or not at all.
//!
//! Such a wait uses up none of a step's retries: it failed for no fault of its own. Until when it lasts is
//! in the journal before it begins, so that a run that is lost meanwhile waits for no more than the rest
//! in its next life. It has bounds of its own (P10): how long one wait may be, how long all of a session
//! are together, and how often one may follow another while nothing comes on.

use std::time::Duration;

use segno_core::agent::{self, ErrorKind};
use segno_core::journal::Suspension;
use segno_core::retry::Policy;
use segno_core::state::Open;
use segno_core::time::Timestamp;

use super::Flow;
use super::step::Ask;
use crate::error::{Error, Impatience};
use crate::spec::OnLimit;
use crate::world::Speaker;

/// How often a step waits for limits to be lifted, one after another, with no answer in between.
const MOST_WAITS: u32 = 50;

/// The clock is looked at this often, since it may jump: a machine that slept wakes to another time.
const LOOK: Duration = Duration::from_secs(30);

/// What follows from a failed attempt.
pub(super) enum Next {
    /// Another one, after this long.
    Again(Duration),
    /// Another one, when a limit is lifted.
    Wait(Suspension),
    /// A limit is not waited for.
    Leave(Suspension, Impatience),
    /// What is left to use up does not allow another one.
    Stop(Option<Suspension>, Error),
    /// None.
    GiveUp,
}

impl Next {
    /// How long is waited from `now` on; `None` if there is no other attempt.
    pub(super) fn wait_ms(&self, now: Timestamp) -> Option<u64> {
        let wait = match self {
            Self::Again(wait) => *wait,
            Self::Wait(suspension) => suspension.until.since(now),
            Self::Leave(..) | Self::Stop(..) | Self::GiveUp => return None,
        };
        Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
    }

    /// The limit that is in the way.
    pub(super) fn suspension(&self) -> Option<&Suspension> {
        match self {
            Self::Wait(suspension) | Self::Leave(suspension, _) => Some(suspension),
            Self::Stop(suspension, _) => suspension.as_ref(),
            Self::Again(_) | Self::GiveUp => None,
        }
    }
}

impl Flow {
    /// What follows from a failed attempt: `failed` of this run failed in ways of their own.
    pub(super) async fn next(
        &self,
        ask: &Ask<'_>,
        failed: u32,
        error: &agent::Error,
        now: Timestamp,
    ) -> Result<Next, Error> {
        let chance = self.world.random.chance();
        let (next, wait) = if let ErrorKind::RateLimited(Some(told)) = error.kind {
            self.pen.flush().await?;
            let state = self.pen.state();
            let waits = state.open.get(&ask.path).map_or(0, |open| open.waits);
            // A server that says when to come back knows better than the back-off, unless it says
            // "at once" again and again.
            let patient = Policy {
                retries: u32::MAX,
                ..self.retry
            };
            let least = patient.wait(waits + 1, chance).unwrap_or_default();
            let wait = told.max(least);
            let suspension = Suspension {
                provider: self.provider(ask),
                until: now.after(wait),
            };
            // Whoever has used up what there is need not come back when a limit is lifted.
            if let Err(error) = self.afford(Duration::ZERO) {
                return Ok(Next::Stop(Some(suspension), error));
            }
            let together = state.waits.with(now, suspension.until).total_ms;
            match self.impatience(wait, Duration::from_millis(together), waits) {
                Some(why) => return Ok(Next::Leave(suspension, why)),
                None => (Next::Wait(suspension), wait),
            }
        } else {
            let wait = Some(error.kind).filter(|kind| kind.is_passing());
            let wait = wait.and_then(|_| self.retry.wait(failed, chance));
            match wait {
                Some(wait) => (Next::Again(wait), wait),
                None => return Ok(Next::GiveUp),
            }
        };
        Ok(match self.afford(wait) {
            Ok(()) => next,
            Err(error) => Next::Stop(next.suspension().cloned(), error),
        })
    }

    /// Whether something may be begun after a wait, as far as budgets say.
    fn afford(&self, wait: Duration) -> Result<(), Error> {
        for neared in self.budget.check_after(&self.name, wait)? {
            self.pen.note(neared);
        }
        Ok(())
    }

    /// Why a wait is not made; `None` if it is.
    fn impatience(&self, wait: Duration, together: Duration, waits: u32) -> Option<Impatience> {
        let patience = self.patience;
        if patience.on_limit == OnLimit::Pause {
            Some(Impatience::Pause)
        } else if wait > patience.longest {
            Some(Impatience::Longest(patience.longest))
        } else if together > patience.together {
            Some(Impatience::Together(patience.together))
        } else if waits >= MOST_WAITS {
            Some(Impatience::Vain(waits))
        } else {
            None
        }
    }

    /// Waits for what is left of the time that an earlier run was told to wait.
    pub(super) async fn wait_out(&self, ask: &Ask<'_>, open: &Open) -> Result<(), Error> {
        let now = self.world.clock.now();
        let Some(until) = open.not_before.filter(|until| *until > now) else {
            return Ok(());
        };
        let provider = open.limited_by.clone();
        // What was told holds for nobody else.
        let other = provider
            .as_ref()
            .is_some_and(|of| *of != self.provider(ask));
        if self.wish.asks_at_once || other {
            return Ok(());
        }
        let left = until.since(now);
        self.afford(Duration::ZERO)?;
        if let Some(provider) = provider {
            let suspension = Suspension { provider, until };
            if let Some(why) = self.impatience(left, Duration::ZERO, 0) {
                return Err(self.suspended(ask, suspension, why));
            }
            self.afford(left)?;
            self.observer
                .suspended(self.session, &ask.path, &suspension);
        }
        self.sleep_until(until).await
    }

    pub(super) fn suspended(
        &self,
        ask: &Ask<'_>,
        suspension: Suspension,
        why: Impatience,
    ) -> Error {
        Error::Suspended {
            name: self.name.clone(),
            path: ask.path.clone(),
            provider: suspension.provider,
            until: suspension.until,
            why,
        }
    }

    /// Returns at a moment, or when it is asked to stop. A clock that is set forward ends it, as sleep of
    /// the machine does; one that is set back does not make it longer than it was to be.
    pub(super) async fn sleep_until(&self, until: Timestamp) -> Result<(), Error> {
        let clock = &self.world.clock;
        let begun = clock.elapsed();
        let most = until.since(clock.now());
        loop {
            let waited = clock.elapsed().saturating_sub(begun);
            let left = until.since(clock.now()).min(most.saturating_sub(waited));
            if left.is_zero() {
                return Ok(());
            }
            tokio::select! {
                () = clock.sleep(left.min(LOOK)) => {}
                stop = self.brake.any() => return Err(self.stopped(stop)),
            }
        }
    }

    /// Whose limits an agent runs into.
    fn provider(&self, ask: &Ask<'_>) -> String {
        match self.stand_in(ask) {
            Some(Speaker::Companion(companion)) => companion.program().to_string(),
            _ => ask.provider_name.to_owned(),
        }
    }
}
