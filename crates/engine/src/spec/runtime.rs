//! The `runtime` block: who answers unless an agent says otherwise, and how patiently.

use std::time::Duration;

use segno_core::retry::{Backoff, Policy};

use super::agents::{Sort, argv, sort};
use super::fields::Keys;
use super::place::Place;

/// Longer waits are a slip of the unit.
const YEAR_S: f64 = 31_536_000.0;

/// Nothing answers in less.
const LEAST_TIMEOUT_S: f64 = 0.001;

const NO_MODEL: &str = "providers `scripted` and `command` choose no model, so it would be ignored";
const KEYS: Keys = Keys {
    required: &["provider"],
    optional: &[
        "script",
        "command",
        "failure_policy",
        "timeout_s",
        "max_parallel",
    ],
    later: &[
        ("model_id", NO_MODEL),
        ("region", NO_MODEL),
        ("host", NO_MODEL),
        ("temperature", NO_MODEL),
        ("top_p", NO_MODEL),
        ("max_tokens", NO_MODEL),
        ("budgets", "this version enforces no budgets"),
    ],
};
const POLICY_KEYS: Keys = Keys {
    required: &[],
    optional: &["retries", "backoff", "wait_min", "wait_max"],
    later: &[],
};

/// How patiently steps are run.
#[derive(Debug, Clone, PartialEq)]
pub struct Runtime {
    /// How often a failed step is tried again.
    pub retry: Policy,
    /// How long one attempt of a step may take; forever if `None`.
    pub timeout: Option<Duration>,
}

impl Default for Runtime {
    fn default() -> Self {
        Self {
            retry: policy(None),
            timeout: None,
        }
    }
}

/// What agents inherit.
pub(super) struct Defaults<'a> {
    pub(super) place: Place<'a>,
    /// `None` if it was refused.
    pub(super) sort: Option<Sort>,
    pub(super) script: Option<(Place<'a>, String)>,
    pub(super) command: Option<(Place<'a>, Vec<String>)>,
}

pub(super) fn read<'a>(place: &Place<'a>) -> (Runtime, Defaults<'a>) {
    let fields = place.fields(&KEYS);
    if let Some(most) = fields.get("max_parallel") {
        // A bound from above: a chain, one step at a time, keeps every one of them.
        most.integer(1..=u32::MAX);
    }
    let runtime = Runtime {
        retry: policy(fields.get("failure_policy").as_ref()),
        timeout: fields
            .get("timeout_s")
            .map(|place| seconds(&place, LEAST_TIMEOUT_S)),
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

fn seconds(place: &Place<'_>, least: f64) -> Duration {
    Duration::from_secs_f64(place.number(&(least..=YEAR_S)))
}
