//! A run that lost its lease appends nothing (P3).

use std::time::Duration;

use segno_core::error::{Diagnose, Kind};
use segno_core::lease::Lease;
use segno_core::store::Filter;
use segno_engine::StopToken;
use segno_sessions::start::start;
use segno_testkit::journal::owner;

use crate::harness::{chain, harness};

#[tokio::test]
async fn stale_run_stops_and_appends_nothing() {
    let harness = harness("default: {text: done, delay_ms: 1000}");
    let steps: Vec<String> = (0..50).map(|n| format!("question {n}")).collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let request = harness.request(&chain("", &steps));
    let (env, seen) = (harness.env.clone(), harness.seen.clone());
    let run = tokio::spawn(async move { start(&env, request, seen, StopToken::default()).await });
    let session = loop {
        tokio::task::yield_now().await;
        let count = harness.seen.entries.lock().unwrap().len();
        if let Some(Ok(summary)) = harness
            .env
            .store
            .list(Filter::default())
            .await
            .unwrap()
            .pop()
            && count > 6
        {
            break summary.id;
        }
    };
    let lease: Lease = harness.env.store.lease(session).await.unwrap();
    harness
        .env
        .store
        .acquire(lease, owner(8), Duration::from_secs(30))
        .await
        .unwrap();
    let before = harness.env.store.summary(session).await.unwrap().head;
    let error = run.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Fenced);
    assert_eq!(
        harness.env.store.summary(session).await.unwrap().head,
        before
    );
}
