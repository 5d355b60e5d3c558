//! (b) Sixteen sessions at once, each appending as fast as it can.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use segno_core::store::{Batch, Journal, NewSession, Sessions};

use crate::disk::Disk;
use crate::figures::{Bar, Row, Samples, Table};
use crate::{Plan, bare, parts};

const SESSIONS: u8 = 16;

/// How many appends each session does in a round.
const APPENDS: usize = 250;

/// Records in an append.
const RECORDS: usize = 2;

pub(crate) fn measure(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    let (mut ours, mut baseline) = (Samples::default(), Samples::default());
    let rate =
        |time: Duration| (usize::from(SESSIONS) * APPENDS * RECORDS) as f64 / time.as_secs_f64();
    // The first round warms the machine up; its figures are dropped.
    for round in 0..=plan.rounds() {
        disk.probe();
        let (new, work): (Vec<_>, Vec<_>) =
            (1..=SESSIONS).map(|n| parts::session(n, APPENDS)).unzip();
        let folder = plan.fresh();
        let bare = bare::concurrently(folder.path(), work.clone());
        let folder = plan.fresh();
        let store = concurrently(folder.path(), new, work);
        if round > 0 {
            baseline.push(rate(bare));
            ours.push(rate(store));
        }
    }
    let row = Row::pair("b", "16 concurrent sessions, rows", "1/s", ours, baseline);
    table.add(row.bar(Bar::AtLeast(0.7)));
}

/// One task per session, one store. Returns how long all of it took.
fn concurrently(folder: &Path, new: Vec<NewSession>, work: Vec<Vec<Batch>>) -> Duration {
    let store = Arc::new(parts::store(folder));
    parts::runtime().block_on(async {
        for new in new {
            store.create(new).await.unwrap();
        }
        let begun = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for batches in work {
            let store = Arc::clone(&store);
            tasks.spawn(async move {
                for batch in batches {
                    store.append(batch).await.unwrap();
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        begun.elapsed()
    })
}
