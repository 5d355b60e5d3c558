//! (b) Many sessions at once: sixteen that append as fast as they can, and two hundred that do what
//! runs do. Each has a thread and a store of its own, as it has a process in reality.

use std::path::Path;
use std::time::{Duration, Instant};

use segno_core::store::{Batch, Journal, NewSession, Sessions};

use crate::disk::Disk;
use crate::figures::{Bar, Row, Samples, Table, millis};
use crate::{Plan, bare, parts};

const SESSIONS: u8 = 16;

/// How many appends each session does in a round.
const APPENDS: usize = 250;

/// Records in an append.
const RECORDS: usize = 2;

/// The runs of a busy home, and how often each of them appends.
const BUSY: u8 = 200;
const PACE: Duration = Duration::from_millis(333);

pub(crate) fn measure(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    let (mut ours, mut baseline) = (Samples::default(), Samples::default());
    let rate =
        |time: Duration| (usize::from(SESSIONS) * APPENDS * RECORDS) as f64 / time.as_secs_f64();
    // The first round warms the machine up; its figures are dropped.
    for round in 0..=plan.rounds() {
        disk.probe();
        let work: Vec<_> = (1..=SESSIONS).map(|n| parts::session(n, APPENDS)).collect();
        let batches: Vec<_> = work.iter().map(|(_, batches)| batches.clone()).collect();
        let folder = plan.fresh();
        let bare = bare::concurrently(folder.path(), &batches);
        let folder = plan.fresh();
        let begun = Instant::now();
        concurrently(folder.path(), work, None);
        if round > 0 {
            baseline.push(rate(bare));
            ours.push(rate(begun.elapsed()));
        }
    }
    let row = Row::pair("b", "16 concurrent sessions, rows", "1/s", ours, baseline);
    table.add(row.bar(Bar::AtLeast(0.7)));
    let appends = if plan.quick { 15 } else { 60 };
    for (sessions, most) in [(1, 5.0), (BUSY, 50.0)] {
        let mut slowest = Samples::default();
        for _ in 0..plan.rounds().min(5) {
            let folder = plan.fresh();
            let work = (1..=sessions).map(|n| parts::session(n, appends)).collect();
            let mut times = concurrently(folder.path(), work, Some(PACE));
            times.sort_unstable();
            slowest.push(millis(times[times.len() * 99 / 100]));
        }
        let what = format!("answer to durable, {sessions} busy runs, 99th percentile");
        let row = Row::single("b", what, "ms", slowest);
        table.add(row.bar(Bar::AtMost(most)));
    }
}

/// A thread and a store for each session. Returns how long each append took.
fn concurrently(
    folder: &Path,
    sessions: Vec<(NewSession, Vec<Batch>)>,
    pace: Option<Duration>,
) -> Vec<Duration> {
    let run = |number: usize, new: NewSession, batches: Vec<Batch>| {
        let store = parts::store(folder);
        parts::runtime().block_on(async {
            store.create(new).await.unwrap();
            if let Some(pace) = pace {
                // Not all in the same instant.
                let share = u32::try_from(number % 100).unwrap();
                tokio::time::sleep(pace * share / 100).await;
            }
            let mut times = Vec::new();
            for batch in batches {
                let begun = Instant::now();
                store.append(batch).await.unwrap();
                times.push(begun.elapsed());
                if let Some(pace) = pace {
                    tokio::time::sleep(pace).await;
                }
            }
            times
        })
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = sessions
            .into_iter()
            .enumerate()
            .map(|(number, (new, batches))| scope.spawn(move || run(number, new, batches)))
            .collect();
        let times = threads.into_iter().map(|thread| thread.join().unwrap());
        times.flatten().collect()
    })
}
