//! Runs many trials of any kind in parallel, and counts their results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fmt, thread};

use segno_core::fault::Point;

use super::trial::{Hit, Violation};

/// The countable result of a trial.
pub trait Counted {
    /// The columns of this kind of trial beside the common ones, in printing order.
    const COLUMNS: &'static [&'static str];

    /// The group in which it is counted.
    fn group(&self) -> String;

    /// The notation that repeats it.
    fn notation(&self) -> String;

    /// What the fault hit.
    fn hit(&self) -> Hit;

    /// The violations found.
    fn violations(&self) -> &[Violation];

    /// Whether it hit no process and found nothing.
    fn is_miss(&self) -> bool {
        self.hit() == Hit::Missed && self.violations().is_empty()
    }

    /// Adds to the columns. Called only for trials that hit a process.
    fn count(&self, add: &mut dyn FnMut(&'static str, u64));

    /// The failpoint that segno was killed at.
    fn point(&self) -> Option<&'static str> {
        None
    }
}

/// Executes every job, `workers` at a time, and passes each outcome to `report`. `begin` creates the
/// state that a worker keeps for all its jobs.
pub(super) fn run_jobs<J: Sync, S, O: Send>(
    jobs: &[J],
    workers: usize,
    begin: impl Fn() -> S + Sync,
    attempt: impl Fn(&mut S, &J) -> O + Sync,
    report: impl Fn(&O) + Sync,
) -> Vec<O> {
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let mut own = begin();
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = attempt(&mut own, job);
                    report(&outcome);
                    outcomes.lock().unwrap().push(outcome);
                }
            });
        }
    });
    outcomes.into_inner().unwrap()
}

/// The sums over many trials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Trials in which a process was hit.
    pub hits: u64,
    /// Of these, those that hit a process below segno.
    pub below: u64,
    /// Trials that hit no process, because they came too late, or before anything ran, or had
    /// nothing to disturb. They are not counted above.
    pub missed: u64,
    /// Acknowledged data that was lost.
    pub losses: u64,
    /// Finished work that was done again.
    pub repeats: u64,
    /// Damage, and results that differ.
    pub damaged: u64,
    /// Processes that were left running.
    pub orphans: u64,
    /// Sessions or commands that could not be continued.
    pub stuck: u64,
    /// Failpoints that segno was killed at.
    pub killed_at: BTreeSet<&'static str>,
    columns: &'static [&'static str],
    counts: BTreeMap<&'static str, u64>,
}

impl Tally {
    pub fn add<O: Counted>(&mut self, outcome: &O) {
        self.columns = O::COLUMNS;
        match outcome.hit() {
            Hit::Missed | Hit::TooEarly => self.missed += 1,
            hit @ (Hit::Segno | Hit::Below) => {
                self.hits += 1;
                self.below += u64::from(hit == Hit::Below);
                outcome.count(&mut |column, count| {
                    *self.counts.entry(column).or_default() += count;
                });
            }
        }
        self.killed_at.extend(outcome.point());
        for wrong in outcome.violations() {
            *match wrong {
                Violation::Loss(_) => &mut self.losses,
                Violation::Repeat(_) => &mut self.repeats,
                Violation::Damage(_) => &mut self.damaged,
                Violation::Orphan(_) => &mut self.orphans,
                Violation::Stuck(_) => &mut self.stuck,
            } += 1;
        }
    }

    /// The sum of a column.
    pub fn count(&self, column: &str) -> u64 {
        self.counts.get(column).copied().unwrap_or_default()
    }

    /// Whether all guarantees hold.
    pub fn is_good(&self) -> bool {
        self.losses + self.repeats + self.damaged + self.orphans + self.stuck == 0
    }
}

impl<'a, O: Counted + 'a> FromIterator<&'a O> for Tally {
    fn from_iter<T: IntoIterator<Item = &'a O>>(outcomes: T) -> Self {
        let mut tally = Self::default();
        outcomes.into_iter().for_each(|outcome| tally.add(outcome));
        tally
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            hits,
            below,
            missed,
            losses,
            repeats,
            damaged,
            orphans,
            stuck,
            ..
        } = self;
        write!(f, "hits {hits} ({below} below segno), ")?;
        for column in self.columns {
            write!(f, "{column} {}, ", self.count(column))?;
        }
        write!(
            f,
            "missed {missed}; losses {losses}, repeats {repeats}, damaged {damaged}, orphans {orphans}, stuck {stuck}"
        )
    }
}

/// Failpoints at which nothing was killed.
pub fn unhit_failpoints(tallies: &[&Tally]) -> Vec<&'static str> {
    let names = Point::ALL.iter().map(|point| point.name());
    let is_left = |name: &&str| !tallies.iter().any(|tally| tally.killed_at.contains(name));
    names.filter(is_left).collect()
}

/// Describes an outcome, with the command that repeats it.
pub fn explain(outcome: &impl Counted) -> String {
    let words = outcome.notation();
    let wrongs = outcome
        .violations()
        .iter()
        .map(|wrong| format!("\n  {wrong:?}"));
    format!(
        "{words} ({:?}): crash --segno PATH --only {words}{}",
        outcome.hit(),
        wrongs.collect::<String>()
    )
}
