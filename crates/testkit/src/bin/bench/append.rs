//! (a) One session: a step's answer and the next step's start, durable in one commit. The bare loop
//! also runs behind a thread, so that two wake-ups are part of a step: this shows what they cost
//! here.

use std::path::Path;
use std::time::{Duration, Instant};

use segno_core::store::{Batch, Journal, NewSession, Sessions};

use crate::disk::Disk;
use crate::figures::{Row, Samples, Table, millis};
use crate::{Plan, bare, parts};

/// How many appends a round has.
const APPENDS: usize = 1000;

/// A statistic of the appends of a round.
type Figure = fn(&Samples) -> f64;

pub(crate) fn measure(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    let mut ours: Vec<Samples> = Vec::new();
    let mut baseline: Vec<Samples> = Vec::new();
    // The first round warms the machine up; its figures are dropped.
    for _ in 0..=plan.rounds() {
        disk.probe();
        let (new, batches) = parts::session(1, APPENDS);
        let folder = plan.fresh();
        baseline.push(samples(&bare::one_by_one(folder.path(), &batches)));
        let folder = plan.fresh();
        ours.push(samples(&appends(folder.path(), new, batches)));
    }
    let of = |rounds: &[Samples], figure: Figure| -> Samples {
        rounds.iter().skip(1).map(figure).collect()
    };
    let figures: [(&str, Figure); 3] = [
        ("p50", Samples::median),
        ("p99", |samples| samples.quantile(0.99)),
        ("mean", |samples| {
            samples.0.iter().sum::<f64>() / samples.0.len() as f64
        }),
    ];
    for (name, figure) in figures {
        table.add(Row::pair(
            "a",
            format!("append of a 2 KB step, one session, {name}"),
            "ms",
            of(&ours, figure),
            of(&baseline, figure),
        ));
    }
}

fn samples(times: &[Duration]) -> Samples {
    times.iter().map(|time| millis(*time)).collect()
}

/// Appends the batches one after the other through the store; returns how long each took.
fn appends(folder: &Path, new: NewSession, batches: Vec<Batch>) -> Vec<Duration> {
    let store = parts::store(folder);
    parts::runtime().block_on(async {
        store.create(new).await.unwrap();
        let mut times = Vec::with_capacity(batches.len());
        for batch in batches {
            let begun = Instant::now();
            store.append(batch).await.unwrap();
            times.push(begun.elapsed());
        }
        times
    })
}
