//! Failed attempts, the waits between them, and when a step finally fails.

use std::sync::Arc;
use std::time::Duration;

use segno_core::agent::ErrorKind;
use segno_core::journal::Event;
use segno_core::ports::{Boxed, Clock};
use segno_core::session::Status;
use segno_core::store::Filter;
use segno_core::time::Timestamp;
use segno_engine::Error;
use segno_testkit::clock::ManualClock;

use crate::harness::{Harness, chain, harness};

pub(crate) fn waits(harness: &Harness) -> Vec<Option<u64>> {
    let entries = harness.seen.entries.lock().unwrap();
    let wait = |event: &Event| match event {
        Event::StepFailed(event) => Some(event.retry_in_ms),
        _ => None,
    };
    entries
        .iter()
        .filter_map(|entry| wait(&entry.event))
        .collect()
}

async fn waits_of(policy: &str, failing: u32) -> (Vec<Option<u64>>, Result<String, Error>) {
    let harness = harness(&format!(
        "default: {{text: done, fail: {{kind: server, message: busy, attempts: {failing}}}}}"
    ));
    let spec = chain(&format!(", failure_policy: {policy}"), &["question"]);
    let outcome = harness.run(&spec).await.map(|outcome| outcome.output);
    (waits(&harness), outcome)
}

#[tokio::test]
async fn waits_follow_the_backoff() {
    let (constant, outcome) = waits_of(
        "{retries: 3, backoff: constant, wait_min: 2, wait_max: 9}",
        3,
    )
    .await;
    assert_eq!(constant, [Some(2000), Some(2000), Some(2000)]);
    assert_eq!(outcome.unwrap(), "done");
    let (exponential, _) = waits_of(
        "{retries: 5, backoff: exponential, wait_min: 1, wait_max: 5}",
        5,
    )
    .await;
    assert_eq!(
        exponential,
        [Some(1000), Some(2000), Some(4000), Some(5000), Some(5000)]
    );
    let (jittered, _) = waits_of(
        "{retries: 5, backoff: jittered, wait_min: 1, wait_max: 60}",
        5,
    )
    .await;
    for (wait, most) in jittered.iter().zip([1000, 2000, 4000, 8000, 16_000]) {
        assert!((1000..=most).contains(&wait.unwrap()), "{jittered:?}");
    }
    assert_ne!(jittered[4], Some(16_000), "chance moves it");
}

#[tokio::test]
async fn default_is_two_retries() {
    let harness = harness("default: {fail: {kind: network, message: gone}}");
    let error = harness.run(&chain("", &["question"])).await.unwrap_err();
    assert_eq!(waits(&harness), [Some(1000), Some(2000), None]);
    assert_eq!(
        error.to_string(),
        "step steps/0 (agent `a`) failed after 3 attempts: gone"
    );
    let state = harness
        .env
        .store
        .list(Filter::default())
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    assert_eq!(state.status, Status::Failed);
}

#[tokio::test]
async fn permanent_errors_are_not_retried() {
    for kind in ["auth", "not_found", "invalid", "context_full"] {
        let harness = harness(&format!("default: {{fail: {{kind: {kind}, message: no}}}}"));
        let error = harness.run(&chain("", &["question"])).await.unwrap_err();
        assert!(
            matches!(error, Error::Step { attempts: 1, .. }),
            "{kind}: {error}"
        );
        assert_eq!(waits(&harness), [None], "{kind}");
    }
}

#[tokio::test]
async fn timeout_is_a_failed_attempt() {
    let harness = harness("default: {text: late, delay_ms: 60000}");
    let spec = chain(
        ", timeout_s: 2, failure_policy: {retries: 0}",
        &["question"],
    );
    let error = harness.run(&spec).await.unwrap_err();
    match error {
        Error::Step { error, .. } => assert_eq!(error.kind, ErrorKind::Timeout),
        other => panic!("{other}"),
    }
}

/// A clock that advances whenever it is read. The journal writer reads it once per commit, so events
/// have the same time if and only if they share a commit.
struct TickingClock(Arc<ManualClock>);

impl Clock for TickingClock {
    fn now(&self) -> Timestamp {
        self.0.advance(1);
        self.0.now()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Boxed<'_, ()> {
        self.0.sleep(duration)
    }
}

#[tokio::test]
async fn result_and_next_intent_share_a_commit() {
    let mut harness = harness("default: {text: done}");
    harness.env.clock = Arc::new(TickingClock(Arc::clone(&harness.clock)));
    harness
        .run(&chain("", &["one", "two {{ steps[0].response }}"]))
        .await
        .unwrap();
    assert_eq!(
        harness.event_kinds(),
        [
            "session_created",
            "run_started",
            "step_started steps/0",
            "step_finished steps/0",
            "step_started steps/1",
            "step_finished steps/1",
            "run_ended"
        ]
    );
    let entries = harness.seen.entries.lock().unwrap();
    let at: Vec<Timestamp> = entries.iter().map(|entry| entry.at).collect();
    assert_ne!(at[2], at[3], "an intent is durable before its result");
    assert_eq!(
        at[3], at[4],
        "a result shares a commit with the next intent"
    );
    assert_ne!(at[4], at[5]);
}
