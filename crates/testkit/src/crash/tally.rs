//! Many kills at once, and what they add up to.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use segno_core::fault::Point;

use super::deeds;
use super::kill::{Fault, Kill, Workload};
use super::model::Model;
use super::trial::{Hit, Outcome, Wrong, attempt};

/// Tries every kill, `workers` at a time, and tells `heard` of each as it is done.
pub fn attempt_all(
    binary: &Path,
    kills: &[Kill],
    workers: usize,
    heard: impl Fn(&Outcome) + Sync,
) -> Vec<Outcome> {
    let is_used = |workload: &&Workload| kills.iter().any(|kill| kill.workload == **workload);
    let used = Workload::ALL.iter().filter(is_used);
    let models: Vec<(Workload, Model)> = used
        .map(|workload| (*workload, Model::of(binary, *workload)))
        .collect();
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(kill) = kills.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let known = models
                        .iter()
                        .find(|(workload, _)| *workload == kill.workload);
                    let (_, model) = known.expect("there is a model of each workload in use");
                    let outcome = attempt(binary, kill, model);
                    heard(&outcome);
                    outcomes.lock().unwrap().push(outcome);
                }
            });
        }
    });
    outcomes.into_inner().unwrap()
}

/// What kills add up to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Kills at failpoints.
    pub points: u64,
    /// Kills at system calls.
    pub syscalls: u64,
    /// Of both, those that hit a process below segno.
    pub below: u64,
    /// Faults that did not come, or came before anything ran. They are not counted as kills.
    pub missed: u64,
    /// Entries or calls that were lost.
    pub losses: u64,
    /// Finished steps that were asked again.
    pub repeats: u64,
    /// Damage, and results that differ.
    pub damaged: u64,
    /// Sessions that did not go on.
    pub stuck: u64,
    /// Failpoints that were killed at.
    pub killed_at: BTreeSet<&'static str>,
}

impl Tally {
    /// Adds one.
    pub fn add(&mut self, outcome: &Outcome) {
        match outcome.hit {
            Hit::Missed | Hit::TooEarly => self.missed += 1,
            Hit::Segno | Hit::Below => {
                self.below += u64::from(outcome.hit == Hit::Below);
                if outcome.kill.has_syscall() {
                    self.syscalls += 1;
                } else {
                    self.points += 1;
                }
            }
        }
        if let (Hit::Segno, Some(Fault::Point { name, .. })) =
            (outcome.hit, outcome.kill.faults.last())
        {
            self.killed_at.insert(name);
        }
        for wrong in &outcome.wrongs {
            let count = match wrong {
                Wrong::Loss(_) => &mut self.losses,
                Wrong::Repeat(_) => &mut self.repeats,
                Wrong::Damage(_) => &mut self.damaged,
                Wrong::Stuck(_) => &mut self.stuck,
            };
            *count += 1;
        }
    }

    /// How many kills there were.
    pub fn kills(&self) -> u64 {
        self.points + self.syscalls
    }

    /// Whether every promise held.
    pub fn is_good(&self) -> bool {
        self.losses + self.repeats + self.damaged + self.stuck == 0
    }
}

impl<'a> FromIterator<&'a Outcome> for Tally {
    fn from_iter<T: IntoIterator<Item = &'a Outcome>>(outcomes: T) -> Self {
        let mut tally = Self::default();
        outcomes.into_iter().for_each(|outcome| tally.add(outcome));
        tally
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            points,
            syscalls,
            below,
            missed,
            losses,
            repeats,
            damaged,
            stuck,
            ..
        } = self;
        write!(
            f,
            "kills {} (failpoints {points}, syscalls {syscalls}, of these {below} below segno), missed {missed}, losses {losses}, repeats {repeats}, damaged {damaged}, stuck {stuck}",
            self.kills(),
        )
    }
}

/// Failpoints that nothing was killed at, by runs nor by deeds.
pub fn left_out(runs: &Tally, deeds: &deeds::Tally) -> Vec<&'static str> {
    let names = Point::ALL.iter().map(|point| point.name());
    let is_left = |name: &&str| !runs.killed_at.contains(name) && !deeds.killed_at.contains(name);
    names.filter(is_left).collect()
}

/// Everything that is needed to see it again.
pub fn explain(outcome: &Outcome) -> String {
    let kill = &outcome.kill;
    let wrongs = outcome.wrongs.iter().map(|wrong| format!("\n  {wrong:?}"));
    format!(
        "{kill} ({:?}): crash --segno PATH --only {kill}{}",
        outcome.hit,
        wrongs.collect::<String>()
    )
}
