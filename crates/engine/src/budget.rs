//! Enforces a workflow's budgets: steps, tokens, time, cost.
//!
//! The engine checks them before it starts anything new. It never aborts a running step for a
//! budget: its answer is paid for, so it is kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use segno_core::id::Name;
use segno_core::journal::{Limit, LimitNeared};
use segno_core::ports::Clock;
use segno_core::state::State;
use segno_core::usage::Usage;
use segno_spec::Budgets;

use crate::error::Error;

pub(crate) struct Budget {
    limits: Budgets,
    clock: Arc<dyn Clock>,
    started: Duration,
    /// How long earlier runs took.
    before: Duration,
    spent: Mutex<Spent>,
}

struct Spent {
    steps: u64,
    usage: Usage,
    by_agent: BTreeMap<String, Usage>,
    warned: Vec<Limit>,
}

impl Spent {
    /// The tokens of all agents; those of agents that report only money are estimated.
    fn tokens(&self) -> u64 {
        let agents = self.by_agent.values();
        let estimates = agents.filter_map(Usage::estimated_tokens);
        estimates.fold(self.usage.tokens(), u64::saturating_add)
    }
}

impl Budget {
    /// The budget after what earlier runs used.
    pub(crate) fn new(limits: Budgets, state: &State, clock: Arc<dyn Clock>) -> Self {
        Self {
            limits,
            started: clock.elapsed(),
            clock,
            before: Duration::from_millis(state.active_ms),
            spent: Mutex::new(Spent {
                steps: state.finished,
                usage: state.usage,
                by_agent: state.usage_by_agent.clone(),
                warned: state.warned_limits.iter().copied().collect(),
            }),
        }
    }

    /// Adds the usage of an attempt of an agent.
    pub(crate) fn spend(&self, agent: &str, usage: Usage) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.usage += usage;
        *spent.by_agent.entry(agent.to_owned()).or_default() += usage;
    }

    /// Counts a finished step.
    pub(crate) fn count_step(&self) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.steps += 1;
    }

    /// Refuses if a limit is reached. Otherwise returns the limits that came near since the last
    /// call.
    pub(crate) fn check(&self, name: &Name) -> Result<Vec<LimitNeared>, Error> {
        self.check_after(name, Duration::ZERO)
    }

    /// The same for the time after a wait: a wait after which nothing may start is pointless.
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
        let running = self.before + self.clock.elapsed().saturating_sub(self.started);
        let running = running.saturating_add(wait);
        let limits = &self.limits;
        let all = [
            (Limit::Steps, spent.steps, limits.max_steps),
            (Limit::Tokens, spent.tokens(), limits.max_tokens),
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
