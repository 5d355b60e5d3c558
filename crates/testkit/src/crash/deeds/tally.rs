//! Many trials at once, and what they add up to.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::deed::Trial;
use super::ground::Ground;
use super::trial::{Outcome, attempt};
use crate::crash::kill::Fault;
use crate::crash::trial::{Hit, Wrong};

/// Goes through every trial, `workers` at a time, and tells `heard` of each as it is done.
pub fn attempt_all(
    binary: &Path,
    trials: &[Trial],
    workers: usize,
    heard: impl Fn(&Outcome) + Sync,
) -> Vec<Outcome> {
    // Those of one deed after each other: the ground is made once for all of them.
    let mut trials: Vec<&Trial> = trials.iter().collect();
    trials.sort_by_key(|trial| trial.deed());
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let mut ground: Option<Ground> = None;
                while let Some(trial) = trials.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let made = ground.take().filter(|made| made.deed == trial.deed());
                    let made = made.unwrap_or_else(|| Ground::new(binary, trial.deed()));
                    let outcome = attempt(&made, trial);
                    ground = Some(made);
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
    /// Kills at failpoints.
    pub points: u64,
    /// Kills at system calls.
    pub syscalls: u64,
    /// Of these, those that hit a process below segno.
    pub below: u64,
    /// Deeds on a disk that was too full for them.
    pub full: u64,
    /// Rounds of files that change while they are kept.
    pub changing: u64,
    /// Rounds of two captures and a sweep at once.
    pub together: u64,
    /// Faults that did not come, and disks that had room enough. They are not counted above.
    pub missed: u64,
    /// Checkpoints or files that were lost.
    pub losses: u64,
    /// Damage, and files that differ.
    pub damaged: u64,
    /// Deeds that could not be repeated.
    pub stuck: u64,
    /// Failpoints that were killed at.
    pub killed_at: BTreeSet<&'static str>,
}

impl Tally {
    /// Adds one.
    pub fn add(&mut self, outcome: &Outcome) {
        let count = match (&outcome.trial, outcome.hit) {
            (_, Hit::Missed | Hit::TooEarly) => &mut self.missed,
            (Trial::Full { .. }, _) => &mut self.full,
            (Trial::Changing { .. }, _) => &mut self.changing,
            (Trial::Together { .. }, _) => &mut self.together,
            (Trial::Killed { fault, .. }, hit) => match fault {
                Fault::Point { name, .. } => {
                    self.killed_at.insert(name);
                    &mut self.points
                }
                Fault::Syscall { .. } => {
                    self.below += u64::from(hit == Hit::Below);
                    &mut self.syscalls
                }
            },
        };
        *count += 1;
        for wrong in &outcome.wrongs {
            let count = match wrong {
                Wrong::Loss(_) => &mut self.losses,
                Wrong::Damage(_) | Wrong::Repeat(_) => &mut self.damaged,
                Wrong::Stuck(_) => &mut self.stuck,
            };
            *count += 1;
        }
    }

    /// How many trials came to something.
    pub fn disturbed(&self) -> u64 {
        self.points + self.syscalls + self.full + self.changing + self.together
    }

    /// Whether every promise held.
    pub fn is_good(&self) -> bool {
        self.losses + self.damaged + self.stuck == 0
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
            full,
            changing,
            together,
            missed,
            losses,
            damaged,
            stuck,
            ..
        } = self;
        write!(
            f,
            "checkpoints: kills {} (failpoints {points}, syscalls {syscalls}, of these {below} below segno), full disks {full}, changing files {changing}, at once {together}, missed {missed}, losses {losses}, damaged {damaged}, stuck {stuck}",
            points + syscalls,
        )
    }
}

/// Everything that is needed to see it again.
pub fn explain(outcome: &Outcome) -> String {
    let trial = &outcome.trial;
    let wrongs = outcome.wrongs.iter().map(|wrong| format!("\n  {wrong:?}"));
    format!(
        "{trial} ({:?}): crash --segno PATH --only {trial}{}",
        outcome.hit,
        wrongs.collect::<String>()
    )
}
