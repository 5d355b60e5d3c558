//! The `runtime` block: the default provider, retries, timeouts and budgets.

use std::time::Duration;

use segno_core::retry::{Backoff, Policy};
use segno_core::usage::Cost;

use super::cursor::Cursor;
use super::fields::Keys;
use super::provider::{Defaults, Inference, argv, base, provider_kind, region};

/// A longer wait is probably a wrong unit.
const YEAR_S: f64 = 31_536_000.0;

/// No provider answers faster.
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
/// Keys about models.
const MODEL_SETTINGS: [&str; 6] = [
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

/// The limits of a workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct Budgets {
    pub max_steps: Option<u64>,
    /// Input and output tokens together.
    pub max_tokens: Option<u64>,
    /// The duration of all runs together.
    pub max_duration_s: Option<u64>,
    pub max_cost: Option<Cost>,
    /// The part of a limit from which the user is warned.
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

/// How steps are executed.
#[derive(Debug, Clone, PartialEq)]
pub struct Runtime {
    pub retry: Policy,
    /// The limit for one attempt of a step; unlimited if `None`.
    pub timeout: Option<Duration>,
    /// How many agents may run at the same time.
    pub max_parallel: usize,
    pub budgets: Budgets,
}

/// The default of `max_parallel`.
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

pub(super) fn read<'a>(cursor: &Cursor<'a>) -> (Runtime, Defaults<'a>) {
    let fields = cursor.fields(&KEYS);
    let runtime = Runtime {
        retry: policy(fields.get("failure_policy").as_ref()),
        timeout: fields
            .get("timeout_s")
            .map(|cursor| seconds(&cursor, LEAST_TIMEOUT_S)),
        max_parallel: fields
            .get("max_parallel")
            .map_or(MAX_PARALLEL, |cursor| cursor.integer(1..=u32::MAX) as usize),
        budgets: fields.read("budgets", |cursor| budgets(&cursor)),
    };
    let defaults = Defaults {
        cursor: cursor.clone(),
        kind: fields.read("provider", |cursor| provider_kind(&cursor)),
        script: fields.get("script").map(|cursor| {
            let script = cursor.single_line();
            (cursor, script)
        }),
        command: fields.get("command").map(|cursor| {
            let command = argv(&cursor);
            (cursor, command)
        }),
        model: fields.get("model_id").map(|cursor| cursor.single_line()),
        base: fields.get("host").map(|cursor| base(&cursor)),
        region: fields.get("region").map(|cursor| {
            let region = region(&cursor);
            (cursor, region)
        }),
        inference: Inference::read(&fields),
        model_settings: MODEL_SETTINGS
            .iter()
            .filter_map(|key| fields.get(key))
            .collect(),
    };
    (runtime, defaults)
}

fn policy(cursor: Option<&Cursor<'_>>) -> Policy {
    let mut policy = Policy {
        retries: 2,
        backoff: Backoff::Exponential,
        shortest: Duration::from_secs(1),
        longest: Duration::from_mins(1),
    };
    let Some(cursor) = cursor else { return policy };
    let fields = cursor.fields(&POLICY_KEYS);
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
        cursor.invalid(format!(
            "`wait_min` ({least} s) is longer than `wait_max` ({most} s)"
        ));
    }
    policy
}

fn budgets(cursor: &Cursor<'_>) -> Budgets {
    let fields = cursor.fields(&BUDGET_KEYS);
    let count = |key: &str| fields.get(key).map(|cursor| cursor.count(1));
    Budgets {
        max_steps: count("max_steps"),
        max_tokens: count("max_tokens"),
        max_duration_s: count("max_duration_s"),
        max_cost: fields
            .get("max_cost_usd")
            .and_then(|cursor| Cost::from_usd(cursor.number(&(0.000_001..=1e9)))),
        warn_threshold: fields
            .get("warn_threshold")
            .map_or(0.8, |cursor| cursor.number(&(0.0..=1.0))),
    }
}

fn seconds(cursor: &Cursor<'_>, least: f64) -> Duration {
    Duration::from_secs_f64(cursor.number(&(least..=YEAR_S)))
}
