//! The `runtime` block: who answers unless an agent says otherwise, and how patiently.

use std::time::Duration;

use segno_core::retry::{Backoff, Policy};
use segno_core::usage::Cost;

use super::fields::Keys;
use super::place::Place;
use super::provider::{Defaults, Inference, argv, base, region, sort};

/// Longer waits are a slip of the unit.
const YEAR_S: f64 = 31_536_000.0;

/// Nothing answers in less.
const LEAST_TIMEOUT_S: f64 = 0.001;

const KEYS: Keys = Keys {
    required: &["provider"],
    optional: &[
        "script",
        "command",
        "failure_policy",
        "timeout_s",
        "max_parallel",
        "budgets",
        "model_id",
        "region",
        "host",
        "temperature",
        "top_p",
        "max_tokens",
    ],
};
/// What is said about models.
const OF_MODELS: [&str; 6] = [
    "model_id",
    "region",
    "host",
    "temperature",
    "top_p",
    "max_tokens",
];
const POLICY_KEYS: Keys = Keys {
    required: &[],
    optional: &["retries", "backoff", "wait_min", "wait_max"],
};

const BUDGET_KEYS: Keys = Keys {
    required: &[],
    optional: &[
        "max_steps",
        "max_tokens",
        "max_duration_s",
        "max_cost_usd",
        "warn_threshold",
    ],
};

/// What a workflow may use up.
#[derive(Debug, Clone, PartialEq)]
pub struct Budgets {
    /// Steps that may be finished.
    pub max_steps: Option<u64>,
    /// Tokens, in and out.
    pub max_tokens: Option<u64>,
    /// Seconds that runs may go on, all together.
    pub max_duration_s: Option<u64>,
    /// Money.
    pub max_cost: Option<Cost>,
    /// From which part of a limit on people are warned.
    pub warn_threshold: f64,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            max_steps: None,
            max_tokens: None,
            max_duration_s: None,
            max_cost: None,
            warn_threshold: 0.8,
        }
    }
}

/// How patiently steps are run.
#[derive(Debug, Clone, PartialEq)]
pub struct Runtime {
    /// How often a failed step is tried again.
    pub retry: Policy,
    /// How long one attempt of a step may take; forever if `None`.
    pub timeout: Option<Duration>,
    /// How many agents may be asked at once.
    pub max_parallel: usize,
    /// What may be used up.
    pub budgets: Budgets,
}

/// How many agents are asked at once unless a spec says otherwise.
const MAX_PARALLEL: usize = 5;

impl Default for Runtime {
    fn default() -> Self {
        Self {
            retry: policy(None),
            timeout: None,
            max_parallel: MAX_PARALLEL,
            budgets: Budgets::default(),
        }
    }
}

pub(super) fn read<'a>(place: &Place<'a>) -> (Runtime, Defaults<'a>) {
    let fields = place.fields(&KEYS);
    let runtime = Runtime {
        retry: policy(fields.get("failure_policy").as_ref()),
        timeout: fields
            .get("timeout_s")
            .map(|place| seconds(&place, LEAST_TIMEOUT_S)),
        max_parallel: fields
            .get("max_parallel")
            .map_or(MAX_PARALLEL, |place| place.integer(1..=u32::MAX) as usize),
        budgets: fields.read("budgets", |place| budgets(&place)),
    };
    let defaults = Defaults {
        place: place.clone(),
        sort: fields.read("provider", |place| sort(&place)),
        script: fields.get("script").map(|place| {
            let script = place.line_of_text();
            (place, script)
        }),
        command: fields.get("command").map(|place| {
            let command = argv(&place);
            (place, command)
        }),
        model: fields.get("model_id").map(|place| place.line_of_text()),
        base: fields.get("host").map(|place| base(&place)),
        region: fields.get("region").map(|place| {
            let region = region(&place);
            (place, region)
        }),
        inference: Inference::read(&fields),
        of_models: OF_MODELS.iter().filter_map(|key| fields.get(key)).collect(),
    };
    (runtime, defaults)
}

fn policy(place: Option<&Place<'_>>) -> Policy {
    let mut policy = Policy {
        retries: 2,
        backoff: Backoff::Exponential,
        shortest: Duration::from_secs(1),
        longest: Duration::from_mins(1),
    };
    let Some(place) = place else { return policy };
    let fields = place.fields(&POLICY_KEYS);
    if let Some(retries) = fields.get("retries") {
        policy.retries = retries.integer(0..=u32::MAX);
    }
    if let Some(backoff) = fields.get("backoff") {
        policy.backoff = backoff.choice(&[
            ("constant", Backoff::Constant),
            ("exponential", Backoff::Exponential),
            ("jittered", Backoff::Jittered),
        ]);
    }
    if let Some(shortest) = fields.get("wait_min") {
        policy.shortest = seconds(&shortest, 0.0);
    }
    if let Some(longest) = fields.get("wait_max") {
        policy.longest = seconds(&longest, 0.0);
    }
    if policy.shortest > policy.longest {
        let (least, most) = (policy.shortest.as_secs_f64(), policy.longest.as_secs_f64());
        place.invalid(format!(
            "`wait_min` ({least} s) is longer than `wait_max` ({most} s)"
        ));
    }
    policy
}

fn budgets(place: &Place<'_>) -> Budgets {
    let fields = place.fields(&BUDGET_KEYS);
    let count = |key: &str| fields.get(key).map(|place| place.count(1));
    Budgets {
        max_steps: count("max_steps"),
        max_tokens: count("max_tokens"),
        max_duration_s: count("max_duration_s"),
        max_cost: fields
            .get("max_cost_usd")
            .and_then(|place| Cost::from_usd(place.number(&(0.000_001..=1e9)))),
        warn_threshold: fields
            .get("warn_threshold")
            .map_or(0.8, |place| place.number(&(0.0..=1.0))),
    }
}

fn seconds(place: &Place<'_>, least: f64) -> Duration {
    Duration::from_secs_f64(place.number(&(least..=YEAR_S)))
}
