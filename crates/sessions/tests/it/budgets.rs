//! Budgets: warnings, stops, and that a larger budget lets the session continue.

use segno_core::journal::{Event, Limit};
use segno_core::session::Status;
use segno_engine::Error;

use crate::harness::{Harness, chain, harness};

const SCRIPT: &str = "default: {text: x, delay_ms: 4000, usage: {input_tokens: 30, output_tokens: 10, cost_usd: 0.25}}";

fn limit_warnings(harness: &Harness) -> Vec<(Limit, u64, u64)> {
    let entries = harness.seen.entries.lock().unwrap();
    let near = |event: &Event| match event {
        Event::LimitNeared(event) => Some((event.limit, event.used, event.of)),
        _ => None,
    };
    entries
        .iter()
        .filter_map(|entry| near(&entry.event))
        .collect()
}

#[tokio::test]
async fn budget_warns_once_and_stops_before_the_next_step() {
    for (limit, budget, used, of) in [
        (Limit::Steps, "max_steps: 3", 2, 3),
        (Limit::Tokens, "max_tokens: 120", 80, 120),
        (Limit::Cost, "max_cost_usd: 0.75", 500_000, 750_000),
        (Limit::Duration, "max_duration_s: 12", 8, 12),
    ] {
        let harness = harness(SCRIPT);
        let budgets = |budget: &str| format!(", budgets: {{{budget}, warn_threshold: 0.5}}");
        let spec = |budget: &str| chain(&budgets(budget), &["a"; 5]);
        let error = harness.run(&spec(budget)).await.unwrap_err();
        assert!(matches!(error, Error::Budget { .. }), "{error}");
        assert_eq!(harness.started_steps().len(), 3, "{budget}");
        assert_eq!(limit_warnings(&harness), [(limit, used, of)], "{budget}");
        assert_eq!(harness.summary().await.status, Status::Paused);
        // The same budget again: no step starts, and there is no second warning.
        harness.resume().await.unwrap_err();
        assert_eq!(
            (harness.started_steps(), limit_warnings(&harness)),
            (Vec::new(), Vec::new())
        );
        harness.request(&spec("max_steps: 100"));
        let outcome = harness.resume().await.unwrap();
        assert_eq!((outcome.saved.steps, harness.started_steps().len()), (3, 2));
    }
}

#[tokio::test]
async fn failed_attempts_count_towards_the_budget() {
    let harness =
        harness("default: {text: x, fail: {kind: server, attempts: 1}, usage: {input_tokens: 90}}");
    let policy = ", failure_policy: {retries: 1, wait_min: 0}, budgets: {max_tokens: 100}";
    let error = harness.run(&chain(policy, &["a", "a"])).await.unwrap_err();
    assert!(matches!(error, Error::Budget { .. }), "{error}");
    assert_eq!(harness.started_steps(), ["steps/0", "steps/0"]);
}
