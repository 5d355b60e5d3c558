//! Retention: what it prunes, how long a pruned checkpoint can be restored, and when it is deleted.

use segno_core::checkpoint::Manifest;
use segno_core::id::CheckpointId;
use segno_core::time::Timestamp;
use segno_engine::{checkpoint, retention};
use segno_testkit::journal;

use crate::harness::{Harness, chain, harness};

/// A session with three checkpoints, of which it keeps two.
async fn session_with_checkpoints() -> (Harness, Vec<Manifest>) {
    let mut harness = harness("default: {text: x}");
    harness.run(&chain("", &["a"])).await.unwrap();
    harness.env.retention.count = 2;
    let session = harness.summary().await.id;
    let now = harness.env.clock.now();
    let made = (0..3).map(|second| journal::checkpoint(session, Timestamp(now.0 + second * 1000)));
    let made: Vec<Manifest> = made.collect();
    for manifest in &made {
        let put = checkpoint::put_manifest(&harness.env, manifest).await;
        put.unwrap();
    }
    (harness, made)
}

fn ids(manifests: &[Manifest]) -> Vec<CheckpointId> {
    manifests.iter().map(|manifest| manifest.id).collect()
}

async fn listed(harness: &Harness) -> Vec<CheckpointId> {
    let summary = harness.summary().await;
    let (listed, damaged) = checkpoint::list(&harness.env, Some(&summary))
        .await
        .unwrap();
    assert!(damaged.is_empty(), "{damaged:?}");
    ids(&listed)
}

#[tokio::test]
async fn pruned_checkpoint_is_deletable_after_a_week() {
    let (harness, made) = session_with_checkpoints().await;
    let (env, summary) = (&harness.env, harness.summary().await);
    assert!(retention::enforce(env, &summary).await.unwrap());
    assert_eq!(listed(&harness).await, ids(&made[1..]));
    assert!(!retention::enforce(env, &summary).await.unwrap(), "again");
    let deletable = async || ids(&retention::deletable(env).await.unwrap());
    let week = env.retention.restore_within.as_millis();
    harness.clock.advance(i64::try_from(week).unwrap());
    assert_eq!(deletable().await, []);
    harness.clock.advance(1);
    assert_eq!(deletable().await, ids(&made[..1]));
}

#[tokio::test]
async fn pruned_checkpoint_can_be_restored() {
    let (harness, made) = session_with_checkpoints().await;
    let (env, summary) = (&harness.env, harness.summary().await);
    retention::enforce(env, &summary).await.unwrap();
    let pruned = retention::pruned(env).await.unwrap();
    assert_eq!(ids(&pruned), ids(&made[..1]));
    retention::restore(env, &pruned).await.unwrap();
    assert_eq!(listed(&harness).await, ids(&made));
    assert_eq!(retention::pruned(env).await.unwrap(), []);
}
