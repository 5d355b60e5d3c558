//! A run that was overtaken writes nothing more (P3).

use std::time::Duration;

use segno_core::error::{Diagnose, Kind};
use segno_core::lease::Lease;
use segno_engine::Brake;
use segno_engine::start::start;
use segno_testkit::journal::owner;

use crate::world::{chain, stage};

#[tokio::test]
async fn an_overtaken_run_stops_asking_and_says_so() {
    let stage = stage("default: {text: done, delay_ms: 1000}");
    let steps: Vec<String> = (0..50).map(|n| format!("question {n}")).collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let request = stage.request(&chain("", &steps));
    let (world, seen) = (stage.world.clone(), stage.seen.clone());
    let run = tokio::spawn(async move { start(&world, request, seen, Brake::default()).await });
    let session = loop {
        tokio::task::yield_now().await;
        let count = stage.seen.entries.lock().unwrap().len();
        if let Some(Ok(summary)) = stage.world.store.list().await.unwrap().pop()
            && count > 6
        {
            break summary.id;
        }
    };
    let lease: Lease = stage.world.store.lease(session).await.unwrap();
    stage
        .world
        .store
        .acquire(lease, owner(8), Duration::from_secs(30))
        .await
        .unwrap();
    let before = stage.world.store.summary(session).await.unwrap().head;
    let error = run.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Fenced);
    assert_eq!(
        stage.world.store.summary(session).await.unwrap().head,
        before
    );
}
