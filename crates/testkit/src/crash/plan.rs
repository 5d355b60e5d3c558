//! Plans the kills, and draws a random sample of them.

use std::collections::BTreeMap;
use std::path::Path;

use segno_core::fault::Point;

use super::kill::{Fault, Home, Kill, Workload};
use super::trace::{Profile, count_visits};
use super::trial::Outcome;
use crate::clock::Seeded;

/// F1: every failpoint that a run of this workload visits, at its first, second, middle and last
/// visit.
pub fn at_points(binary: &Path, workload: Workload) -> Vec<Kill> {
    let once = |fault| Kill::once(workload, Home::Fresh, fault);
    faults(&count_visits(binary, workload)).map(once).collect()
}

/// F1: every visit of the failpoints between which the journal grows: before and after each commit,
/// and after each answer that is not yet in the journal.
pub fn at_every_position(binary: &Path, workload: Workload) -> Vec<Kill> {
    let visits = count_visits(binary, workload);
    let points = [
        Point::JournalBeforeCommit,
        Point::JournalAfterCommit,
        Point::StepAfterEffect,
    ];
    let kills = points.into_iter().flat_map(|point| {
        let last = visits.get(point.name()).copied().unwrap_or_default();
        (1..=last).map(move |visit| {
            let name = point.name();
            Kill::once(workload, Home::Fresh, Fault::Point { name, visit })
        })
    });
    kills.collect()
}

/// F1 on the second level: the resume after `outcome` is killed as well, at every failpoint that it
/// visits.
pub fn at_points_again(outcome: &Outcome) -> Vec<Kill> {
    let again = |fault| outcome.kill.then(fault);
    faults(&outcome.visits).map(again).collect()
}

fn faults(visits: &BTreeMap<String, u64>) -> impl Iterator<Item = Fault> {
    Point::ALL.iter().flat_map(|point| {
        let name = point.name();
        let last = visits.get(name).copied().unwrap_or_default();
        let mut turns = vec![1, 2, last.div_ceil(2), last];
        turns.sort_unstable();
        turns.dedup();
        turns.retain(|turn| (1..=last).contains(turn));
        turns
            .into_iter()
            .map(move |visit| Fault::Point { name, visit })
    })
}

/// F2: every write-like system call of a run of this workload, or of the resume after `before`.
/// Also returns the calls that cannot be targeted.
pub fn at_syscalls(
    binary: &Path,
    workload: Workload,
    home: Home,
    before: Option<&Fault>,
) -> (Vec<Kill>, Vec<String>) {
    let (faults, hidden) = Profile::of(binary, workload, home, before).faults();
    let kill = |fault| Kill {
        workload,
        home,
        faults: before.cloned().into_iter().chain([fault]).collect(),
    };
    (faults.into_iter().map(kill).collect(), hidden)
}

/// A random sample of the kills, the same for the same seed.
pub fn sample<T>(mut kills: Vec<T>, size: usize, seed: u64) -> Vec<T> {
    let rng = Seeded::new(seed);
    let size = size.min(kills.len());
    for index in 0..size {
        let left = (kills.len() - index) as u64;
        let drawn = usize::try_from(rng.below(left)).expect("the number is below a length");
        kills.swap(index, index + drawn);
    }
    kills.truncate(size);
    kills
}
