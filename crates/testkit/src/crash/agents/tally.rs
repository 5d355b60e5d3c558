//! Many strikes, and what they add up to.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::strike::{Blow, Strike, word};
use super::trial::{Outcome, attempt};
use crate::crash::trial::{Hit, Wrong};

/// Goes through every strike, `workers` at a time, and tells `heard` of each as it is done.
pub fn attempt_all(
    segno: &Path,
    strikes: &[Strike],
    workers: usize,
    heard: impl Fn(&Outcome) + Sync,
) -> Vec<Outcome> {
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(strike) = strikes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = attempt(segno, strike);
                    heard(&outcome);
                    outcomes.lock().unwrap().push(outcome);
                }
            });
        }
    });
    outcomes.into_inner().unwrap()
}

/// What strikes with one signal at one agent add up to, or all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    kills: u64,
    /// Of these, those that hit the program and not segno.
    below: u64,
    missed: u64,
    completed: u64,
    native: u64,
    repaired: u64,
    compiled: u64,
    other: u64,
    in_flight: u64,
    last_again: u64,
    begun_again: u64,
    mended: u64,
    drafts: u64,
    orphans: u64,
    losses: u64,
    repeats: u64,
    damaged: u64,
    stuck: u64,
}

impl Counts {
    fn add(&mut self, outcome: &Outcome) {
        match outcome.hit {
            Hit::Missed | Hit::TooEarly => self.missed += 1,
            Hit::Segno => self.kills += 1,
            Hit::Below => {
                self.kills += 1;
                self.below += 1;
            }
        }
        let is_stuck = |wrong: &Wrong| matches!(wrong, Wrong::Stuck(_));
        if outcome.hit != Hit::Missed {
            self.completed += u64::from(!outcome.wrongs.iter().any(is_stuck));
        }
        for rung in &outcome.rungs {
            *match rung.as_str() {
                "native" => &mut self.native,
                "repaired" => &mut self.repaired,
                "compiled" => &mut self.compiled,
                _ => &mut self.other,
            } += 1;
        }
        self.in_flight += outcome.in_flight;
        self.last_again += outcome.last_again;
        self.begun_again += outcome.begun_again;
        self.mended += outcome.mended;
        self.drafts += outcome.drafts;
        self.orphans += outcome.orphans;
        for wrong in &outcome.wrongs {
            *match wrong {
                Wrong::Loss(_) => &mut self.losses,
                Wrong::Repeat(_) => &mut self.repeats,
                Wrong::Damage(_) => &mut self.damaged,
                Wrong::Stuck(_) => &mut self.stuck,
            } += 1;
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kills,
            below,
            missed,
            completed,
            native,
            repaired,
            compiled,
            other,
            in_flight,
            last_again,
            begun_again,
            mended,
            drafts,
            orphans,
            losses,
            repeats,
            damaged,
            stuck,
        } = self;
        write!(
            f,
            "kills {kills} ({below} of the program), missed {missed}, completed {completed}; went on natively {native}, repaired {repaired}, compiled {compiled}, otherwise {other}; turns in flight paid again {in_flight}, last words said again {last_again}, commands cut off and begun again {begun_again}, turns looked after {mended}, drafts of files left {drafts}; orphans {orphans}, losses {losses}, repeats {repeats}, damaged {damaged}, stuck {stuck}"
        )
    }
}

/// What strikes add up to, by agent and signal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    counts: BTreeMap<(&'static str, Blow), Counts>,
    all: Counts,
}

impl Tally {
    /// Adds one.
    pub fn add(&mut self, outcome: &Outcome) {
        let Strike { agent, blow, .. } = outcome.strike;
        self.counts
            .entry((word(agent), blow))
            .or_default()
            .add(outcome);
        self.all.add(outcome);
    }

    /// How many strikes hit somebody.
    pub fn kills(&self) -> u64 {
        self.all.kills
    }

    /// How many came too late.
    pub fn missed(&self) -> u64 {
        self.all.missed
    }

    /// Whether every promise held.
    pub fn is_good(&self) -> bool {
        let all = &self.all;
        all.orphans + all.losses + all.repeats + all.damaged + all.stuck == 0
    }

    /// A line for each agent and signal.
    pub fn each(&self) -> Vec<String> {
        let line = |((agent, blow), counts): (&(&str, Blow), &Counts)| {
            format!("{agent} {}: {counts}", blow.name())
        };
        self.counts.iter().map(line).collect()
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
        write!(f, "agents: {}", self.all)
    }
}

/// Everything that is needed to see it again.
pub fn explain(outcome: &Outcome) -> String {
    let strike = &outcome.strike;
    let wrongs = outcome.wrongs.iter().map(|wrong| format!("\n  {wrong:?}"));
    format!(
        "{strike} ({:?}, {:?}, orphans {}): crash --segno PATH --only {strike}{}",
        outcome.hit,
        outcome.rungs,
        outcome.orphans,
        wrongs.collect::<String>()
    )
}
