//! Limits: what is warned of, what stops a run, and that a larger limit lets it go on.

use segno_core::journal::{Event, Limit};
use segno_core::session::Status;
use segno_engine::Error;

use crate::world::{Stage, chain, stage};

const SCRIPT: &str = "default: {text: x, delay_ms: 4000, usage: {input_tokens: 30, output_tokens: 10, cost_usd: 0.25}}";

fn neared(stage: &Stage) -> Vec<(Limit, u64, u64)> {
    let entries = stage.seen.entries.lock().unwrap();
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
async fn every_limit_warns_once_and_stops_before_the_next_step() {
    for (limit, budget, used, of) in [
        (Limit::Steps, "max_steps: 3", 2, 3),
        (Limit::Tokens, "max_tokens: 120", 80, 120),
        (Limit::Cost, "max_cost_usd: 0.75", 500_000, 750_000),
        (Limit::Duration, "max_duration_s: 12", 8, 12),
    ] {
        let stage = stage(SCRIPT);
        let budgets = |budget: &str| format!(", budgets: {{{budget}, warn_threshold: 0.5}}");
        let spec = |budget: &str| chain(&budgets(budget), &["a"; 5]);
        let error = stage.run(&spec(budget)).await.unwrap_err();
        assert!(matches!(error, Error::Budget { .. }), "{error}");
        assert_eq!(stage.begun().len(), 3, "{budget}");
        assert_eq!(neared(&stage), [(limit, used, of)], "{budget}");
        assert_eq!(stage.summary().await.status, Status::Paused);
        // The same budget again: nothing new is begun, and nobody is warned a second time.
        stage.resume().await.unwrap_err();
        assert_eq!((stage.begun(), neared(&stage)), (Vec::new(), Vec::new()));
        stage.request(&spec("max_steps: 100"));
        let outcome = stage.resume().await.unwrap();
        assert_eq!((outcome.saved.steps, stage.begun().len()), (3, 2));
    }
}

#[tokio::test]
async fn what_failed_counts_too() {
    let stage =
        stage("default: {text: x, fail: {kind: server, attempts: 1}, usage: {input_tokens: 90}}");
    let policy = ", failure_policy: {retries: 1, wait_min: 0}, budgets: {max_tokens: 100}";
    let error = stage.run(&chain(policy, &["a", "a"])).await.unwrap_err();
    assert!(matches!(error, Error::Budget { .. }), "{error}");
    assert_eq!(stage.begun(), ["steps/0", "steps/0"]);
}
