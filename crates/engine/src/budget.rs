//! What a workflow may use up: steps, tokens, time, money.
//!
//! Looked at before anything new is begun. A step that is under way is never cut off for it: its
//! answer is paid for, so it is kept.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use segno_core::id::Name;
use segno_core::journal::{Limit, LimitNeared};
use segno_core::ports::Clock;
use segno_core::state::State;
use segno_core::usage::Usage;

use crate::error::Error;
use crate::spec::Budgets;

pub(crate) struct Budget {
    limits: Budgets,
    clock: Arc<dyn Clock>,
    begun: Duration,
    /// How long earlier runs took.
    before: Duration,
    spent: Mutex<Spent>,
}

struct Spent {
    steps: u64,
    usage: Usage,
    warned: Vec<Limit>,
}

impl Budget {
    /// What is left, given what earlier runs used.
    pub(crate) fn new(limits: Budgets, state: &State, clock: Arc<dyn Clock>) -> Self {
        Self {
            limits,
            begun: clock.elapsed(),
            clock,
            before: Duration::from_millis(state.active_ms),
            spent: Mutex::new(Spent {
                steps: state.finished,
                usage: state.usage,
                warned: state.warned.iter().copied().collect(),
            }),
        }
    }

    /// Counts what an attempt took, and whether it finished a step.
    pub(crate) fn spend(&self, usage: Usage, finished: bool) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.usage += usage;
        spent.steps += u64::from(finished);
    }

    /// Refuses if a limit is reached. Otherwise tells which limits came near since it was last asked.
    pub(crate) fn check(&self, name: &Name) -> Result<Vec<LimitNeared>, Error> {
        self.check_after(name, Duration::ZERO)
    }

    /// The same for when a wait is over: one after which nothing may be begun is not worth it.
    pub(crate) fn check_after(
        &self,
        name: &Name,
        wait: Duration,
    ) -> Result<Vec<LimitNeared>, Error> {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut neared = Vec::new();
        for (limit, used, of) in self.uses(&spent, wait) {
            if used >= of {
                return Err(exceeded(name, limit, used, of));
            }
            let near = used as f64 >= of as f64 * self.limits.warn_threshold;
            if near && !spent.warned.contains(&limit) {
                spent.warned.push(limit);
                neared.push(LimitNeared { limit, used, of });
            }
        }
        Ok(neared)
    }

    fn uses(&self, spent: &Spent, wait: Duration) -> Vec<(Limit, u64, u64)> {
        let running = self.before + self.clock.elapsed().saturating_sub(self.begun);
        let running = running.saturating_add(wait);
        let limits = &self.limits;
        let all = [
            (Limit::Steps, spent.steps, limits.max_steps),
            (Limit::Tokens, spent.usage.tokens(), limits.max_tokens),
            (Limit::Duration, running.as_secs(), limits.max_duration_s),
            (
                Limit::Cost,
                spent.usage.cost.0,
                limits.max_cost.map(|cost| cost.0),
            ),
        ];
        let set = |(limit, used, of): (Limit, u64, Option<u64>)| Some((limit, used, of?));
        all.into_iter().filter_map(set).collect()
    }
}

fn exceeded(name: &Name, limit: Limit, used: u64, of: u64) -> Error {
    Error::Budget {
        name: name.clone(),
        what: limit.name(),
        used: limit.amount(used),
        of: limit.amount(of),
    }
}
