//! Many trials at once, of whatever sort, and what they add up to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use segno_core::fault::Point;

use super::trial::{Hit, Wrong};

/// What a trial came to, as far as it is counted.
pub trait Counted {
    /// What is counted of this sort of trial beside what is of every sort, in the order in which it is
    /// told.
    const COLUMNS: &'static [&'static str];

    /// Among which trials it is summed up.
    fn sort(&self) -> String;

    /// The words that repeat it.
    fn words(&self) -> String;

    /// Whom it hit.
    fn hit(&self) -> Hit;

    /// What is wrong.
    fn wrongs(&self) -> &[Wrong];

    /// Whether it hit nobody, and shows nothing.
    fn is_vain(&self) -> bool {
        self.hit() == Hit::Missed && self.wrongs().is_empty()
    }

    /// Adds to the columns; asked only of those that hit somebody.
    fn count(&self, add: &mut dyn FnMut(&'static str, u64));

    /// The failpoint that segno was killed at.
    fn point(&self) -> Option<&'static str> {
        None
    }
}

/// Goes through every job, `workers` at a time, and tells `heard` of each as it is done. Each worker
/// begins with what `begin` gives it, and has it for all its jobs.
pub(super) fn go_through<J: Sync, S, O: Send>(
    jobs: &[J],
    workers: usize,
    begin: impl Fn() -> S + Sync,
    attempt: impl Fn(&mut S, &J) -> O + Sync,
    heard: impl Fn(&O) + Sync,
) -> Vec<O> {
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let mut own = begin();
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = attempt(&mut own, job);
                    heard(&outcome);
                    outcomes.lock().unwrap().push(outcome);
                }
            });
        }
    });
    outcomes.into_inner().unwrap()
}

/// What trials add up to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Trials in which somebody was hit.
    pub hits: u64,
    /// Of these, those that hit a process below segno.
    pub below: u64,
    /// Those that hit nobody, because they came too late, or before anything ran, or had nothing to
    /// disturb. They are not counted above.
    pub missed: u64,
    /// Something that was lost.
    pub losses: u64,
    /// What was finished and done again.
    pub repeats: u64,
    /// Damage, and results that differ.
    pub damaged: u64,
    /// Processes that were left running.
    pub orphans: u64,
    /// What did not go on.
    pub stuck: u64,
    /// Failpoints that segno was killed at.
    pub killed_at: BTreeSet<&'static str>,
    columns: &'static [&'static str],
    counts: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Adds one.
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
        for wrong in outcome.wrongs() {
            *match wrong {
                Wrong::Loss(_) => &mut self.losses,
                Wrong::Repeat(_) => &mut self.repeats,
                Wrong::Damage(_) => &mut self.damaged,
                Wrong::Orphan(_) => &mut self.orphans,
                Wrong::Stuck(_) => &mut self.stuck,
            } += 1;
        }
    }

    /// How much there is in a column.
    pub fn of(&self, column: &str) -> u64 {
        self.counts.get(column).copied().unwrap_or_default()
    }

    /// Whether every promise held.
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
            write!(f, "{column} {}, ", self.of(column))?;
        }
        write!(
            f,
            "missed {missed}; losses {losses}, repeats {repeats}, damaged {damaged}, orphans {orphans}, stuck {stuck}"
        )
    }
}

/// Failpoints that nothing was killed at.
pub fn left_out(tallies: &[&Tally]) -> Vec<&'static str> {
    let names = Point::ALL.iter().map(|point| point.name());
    let is_left = |name: &&str| !tallies.iter().any(|tally| tally.killed_at.contains(name));
    names.filter(is_left).collect()
}

/// Everything that is needed to see it again.
pub fn explain(outcome: &impl Counted) -> String {
    let words = outcome.words();
    let wrongs = outcome
        .wrongs()
        .iter()
        .map(|wrong| format!("\n  {wrong:?}"));
    format!(
        "{words} ({:?}): crash --segno PATH --only {words}{}",
        outcome.hit(),
        wrongs.collect::<String>()
    )
}
