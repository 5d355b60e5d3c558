//! Attempts that fail, the waits between them, and when it is enough.

use segno_core::agent::ErrorKind;
use segno_core::journal::Event;
use segno_core::session::Status;
use segno_engine::Error;

use crate::world::{Stage, chain, stage};

pub(crate) fn waits(stage: &Stage) -> Vec<Option<u64>> {
    let entries = stage.seen.entries.lock().unwrap();
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
    let stage = stage(&format!(
        "default: {{text: done, fail: {{kind: server, message: busy, attempts: {failing}}}}}"
    ));
    let spec = chain(&format!(", failure_policy: {policy}"), &["question"]);
    let outcome = stage.run(&spec).await.map(|outcome| outcome.output);
    (waits(&stage), outcome)
}

#[tokio::test]
async fn waits_follow_the_three_back_offs() {
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
async fn two_retries_are_the_default_and_then_the_run_fails() {
    let stage = stage("default: {fail: {kind: network, message: gone}}");
    let error = stage.run(&chain("", &["question"])).await.unwrap_err();
    assert_eq!(waits(&stage), [Some(1000), Some(2000), None]);
    assert_eq!(
        error.to_string(),
        "step steps/0 (agent `a`) failed after 3 attempts: gone"
    );
    let state = stage.world.store.list().await.unwrap().remove(0).unwrap();
    assert_eq!(state.status, Status::Failed);
}

#[tokio::test]
async fn what_will_not_pass_is_not_tried_again() {
    for kind in ["auth", "not_found", "invalid", "context_full"] {
        let stage = stage(&format!("default: {{fail: {{kind: {kind}, message: no}}}}"));
        let error = stage.run(&chain("", &["question"])).await.unwrap_err();
        assert!(
            matches!(error, Error::Step { attempts: 1, .. }),
            "{kind}: {error}"
        );
        assert_eq!(waits(&stage), [None], "{kind}");
    }
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_a_failed_attempt() {
    let stage = stage("default: {text: late, delay_ms: 60000}");
    let spec = chain(
        ", timeout_s: 2, failure_policy: {retries: 0}",
        &["question"],
    );
    let error = stage.run(&spec).await.unwrap_err();
    match error {
        Error::Step { error, .. } => assert_eq!(error.kind, ErrorKind::Timeout),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_result_and_the_next_intent_share_a_commit() {
    let stage = stage("default: {text: done}");
    stage
        .run(&chain("", &["one", "two {{ steps[0].response }}"]))
        .await
        .unwrap();
    assert_eq!(
        stage.kinds(),
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
    let entries = stage.seen.entries.lock().unwrap();
    assert_eq!(entries[3].at, entries[4].at);
}
