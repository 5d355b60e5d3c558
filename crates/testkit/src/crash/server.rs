//! Kills `segno serve` while it runs sessions that clients started over HTTP, in all eight patterns,
//! and follow by server-sent events. A session may be started once, however often its client had to
//! repeat the request; every client must get every event once and in order; every session must be
//! completed; no answer that was journaled may be asked for again; and no process may be left.
//!
//! There are three kinds of trials: the server is killed at seeded moments, in some trials together
//! with runs; the server shares its home with two workers, and any of the three is killed; and one
//! process, the server or a run, is killed at a failpoint.

mod checker;
mod client;
mod fixture;
mod points;
mod processes;

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::tally::{Counted, run_jobs};
use super::trial::{Hit, Violation};
use crate::clock::Seeded;
use crate::sandbox::is_overdue;
use checker::{Checker, Repeats};
use client::{Report, SESSIONS, Shared};
use fixture::{Expected, Fixture};
use points::Armed;
use processes::{Kills, Processes};

pub use points::{Process, at_points};

/// How many clients a trial has; each starts four sessions.
const CLIENTS: usize = 5;
/// How many clients a trial at a failpoint has: they start one session of each pattern.
const CLIENTS_AT_POINTS: usize = 2;
/// How often a process is killed in a trial.
pub const MOMENTS: usize = 4;
/// How many workers share a home with the server.
const WORKERS: usize = 2;
/// How long the runner waits before it looks again.
const PAUSE: Duration = Duration::from_millis(1);

/// What is killed, and what else draws its seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// The server, and in two of three trials runs.
    Server { seed: u64 },
    /// The server, or one of two workers of the same home, and in every second trial a run.
    Workers { seed: u64 },
    /// One process at a failpoint.
    Point {
        process: Process,
        point: &'static str,
        visit: u64,
    },
}

impl Trial {
    const fn seed(&self) -> u64 {
        match self {
            Self::Server { seed } | Self::Workers { seed } => *seed,
            Self::Point { visit, .. } => *visit,
        }
    }

    const fn clients(&self) -> usize {
        match self {
            Self::Server { .. } | Self::Workers { .. } => CLIENTS,
            Self::Point { .. } => CLIENTS_AT_POINTS,
        }
    }

    /// The same at an earlier visit, if it is at a failpoint.
    fn earlier(&self) -> Option<Self> {
        let mut earlier = self.clone();
        let Self::Point { visit, .. } = &mut earlier else {
            return None;
        };
        *visit /= 2;
        (*visit > 0).then_some(earlier)
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server { seed } => write!(f, "server/{seed}"),
            Self::Workers { seed } => write!(f, "server-and-workers/{seed}"),
            Self::Point {
                process,
                point,
                visit,
            } => write!(f, "server/{}/{point}:{visit}", process.word()),
        }
    }
}

impl FromStr for Trial {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "`{text}` is not server/SEED, server-and-workers/SEED or server/PROCESS/POINT:VISIT"
            )
        };
        let seed = |word: &str| word.parse().map_err(|_| unknown());
        let words: Vec<&str> = text.split('/').collect();
        match words[..] {
            ["server", word] => Ok(Self::Server { seed: seed(word)? }),
            ["server-and-workers", word] => Ok(Self::Workers { seed: seed(word)? }),
            ["server", process, fault] => {
                let process = Process::from_word(process).ok_or_else(unknown)?;
                points::parse(process, fault).ok_or_else(unknown)
            }
            _ => Err(unknown()),
        }
    }
}

/// The result of a trial.
#[derive(Debug, Clone)]
pub struct Outcome {
    trial: Trial,
    hit: Hit,
    sessions: u64,
    calls: u64,
    kills: Kills,
    repeats: u64,
    reconnects: u64,
    events: u64,
    violations: Vec<Violation>,
}

impl Counted for Outcome {
    const COLUMNS: &'static [&'static str] = &[
        "sessions",
        "servers killed",
        "workers killed",
        "runs killed",
        "calls",
        "starts repeated",
        "streams resumed",
        "events streamed",
    ];

    fn group(&self) -> String {
        let group = match self.trial {
            Trial::Server { .. } => "server",
            Trial::Workers { .. } => "server and workers",
            Trial::Point { .. } => "server at failpoints",
        };
        group.to_owned()
    }

    fn notation(&self) -> String {
        self.trial.to_string()
    }

    fn hit(&self) -> Hit {
        self.hit
    }

    fn violations(&self) -> &[Violation] {
        &self.violations
    }

    fn count(&self, add: &mut dyn FnMut(&'static str, u64)) {
        let counts = [
            self.sessions,
            self.kills.servers,
            self.kills.workers,
            self.kills.runs,
            self.calls,
            self.repeats,
            self.reconnects,
            self.events,
        ];
        for (column, count) in Self::COLUMNS.iter().zip(counts) {
            add(column, count);
        }
    }

    fn point(&self) -> Option<&'static str> {
        match (&self.trial, self.hit) {
            (Trial::Point { point, .. }, Hit::Segno) => Some(point),
            _ => None,
        }
    }
}

/// Trials with so many kills of the server, and as many beside workers.
pub fn trials(moments: usize, seed: u64) -> Vec<Trial> {
    let servers = (seed..).take(moments.div_ceil(MOMENTS));
    let workers = (seed..).take(moments.div_ceil(MOMENTS));
    let servers = servers.map(|seed| Trial::Server { seed });
    let workers = workers.map(|seed| Trial::Workers { seed });
    servers.chain(workers).collect()
}

/// Executes every trial, one at a time: each keeps the whole machine busy.
pub fn attempt_all(
    segno: &Path,
    trials: &[Trial],
    report: impl Fn(&Outcome) + Sync,
) -> Vec<Outcome> {
    let expected = Expected::new(segno);
    let attempt = |(): &mut (), trial: &Trial| attempt(segno, &expected, trial);
    run_jobs(trials, 1, || (), attempt, report)
}

/// Executes a trial, or one with an earlier visit if that comes too late.
fn attempt(segno: &Path, expected: &Expected, trial: &Trial) -> Outcome {
    let outcome = attempt_once(segno, expected, trial);
    match trial.earlier() {
        Some(earlier) if outcome.is_miss() => attempt(segno, expected, &earlier),
        _ => outcome,
    }
}

fn attempt_once(segno: &Path, expected: &Expected, trial: &Trial) -> Outcome {
    let fixture = Fixture::new(segno, trial.clients() * SESSIONS);
    let armed = Armed::new(&fixture, trial);
    let workers = match trial {
        Trial::Workers { .. } => WORKERS,
        Trial::Server { .. } | Trial::Point { .. } => 0,
    };
    let processes = Processes::start(&fixture, workers, armed.faults());
    let mut disturbed = disturb(&fixture, processes, trial);
    let kills = disturbed.processes.kills;
    let is_hit = match trial {
        Trial::Point { .. } => armed.has_hit(),
        _ => kills.servers + kills.workers > 0,
    };
    let has_killed_run = kills.runs > 0 || armed.has_killed_run(trial);
    let mut checker = Checker {
        fixture: &fixture,
        expected,
        repeats: if has_killed_run {
            Repeats::InFlight
        } else {
            Repeats::None
        },
        violations: std::mem::take(&mut disturbed.violations),
    };
    // A trial that is stuck says so; its journals would only say it again.
    if checker.violations.is_empty() {
        checker.check(&disturbed.reports);
        checker.violations.extend(disturbed.processes.stop());
    }
    let reports = &disturbed.reports;
    let followed = reports.iter().flat_map(|report| &report.followed);
    Outcome {
        trial: trial.clone(),
        hit: if is_hit { Hit::Segno } else { Hit::Missed },
        sessions: fixture.sessions as u64,
        calls: fixture.count() as u64,
        kills,
        repeats: reports.iter().map(|report| report.repeats).sum(),
        reconnects: reports.iter().map(|report| report.reconnects).sum(),
        events: followed.map(|it| it.events.len() as u64).sum(),
        violations: checker.violations,
    }
}

/// What is left when all clients are done.
struct Disturbed<'a> {
    processes: Processes<'a>,
    reports: Vec<Report>,
    violations: Vec<Violation>,
}

/// Lets the clients work, and kills processes meanwhile.
fn disturb<'a>(fixture: &'a Fixture, mut processes: Processes<'a>, trial: &Trial) -> Disturbed<'a> {
    let clients = trial.clients();
    let shared = Shared {
        fixture,
        address: Mutex::new(processes.address()),
        sent: AtomicUsize::new(0),
        following: AtomicUsize::new(0),
        left: AtomicUsize::new(clients),
        begun: Instant::now(),
    };
    let shared = &shared;
    let reports: Vec<Report> = thread::scope(|scope| {
        let working: Vec<_> = (0..clients)
            .map(|number| scope.spawn(move || client::run(shared, number, trial.seed())))
            .collect();
        if let Trial::Workers { .. } = trial {
            processes.start_second_server();
        }
        for strike in strikes(fixture, trial) {
            if wait_for(&strike, shared, &mut processes) {
                strike.execute(&mut processes, shared);
            }
        }
        while shared.left.load(Ordering::SeqCst) > 0 {
            processes.restart_ended(shared);
            thread::sleep(PAUSE);
        }
        let reports = working.into_iter().map(|client| client.join().unwrap());
        reports.collect()
    });
    let mut violations = std::mem::take(&mut processes.violations);
    for report in &reports {
        violations.extend(report.violations.iter().cloned());
    }
    Disturbed {
        processes,
        reports,
        violations,
    }
}

/// One kill, and the condition that it waits for.
struct Strike {
    /// How many starts were sent before it, and how many clients followed their sessions.
    sent: usize,
    following: usize,
    /// Of the calls that remain then, how many are made before it, in thousandths.
    share: usize,
    /// How long after that.
    delay: Duration,
    victim: Victim,
}

enum Victim {
    /// The server, and up to so many runs. It comes back after a while.
    Server { runs: usize, down: Duration },
    /// The worker with this number.
    Worker(usize),
    /// One run.
    Run,
}

impl Strike {
    fn execute(&self, processes: &mut Processes<'_>, shared: &Shared<'_>) {
        match self.victim {
            Victim::Server { runs, down } => processes.kill_server(runs, down, shared),
            Victim::Worker(index) => processes.kill_worker(index),
            Victim::Run => processes.kill_runs(1),
        }
    }
}

/// Waits for the moment of a strike. False if all clients were done before it.
fn wait_for(strike: &Strike, shared: &Shared<'_>, processes: &mut Processes<'_>) -> bool {
    let calls = || shared.fixture.count();
    let is_ready = || {
        shared.sent.load(Ordering::SeqCst) >= strike.sent
            && shared.following.load(Ordering::SeqCst) >= strike.following
    };
    let mut due = None;
    while due.is_none_or(|due| calls() < due) {
        if due.is_none() && is_ready() {
            let left = shared.fixture.least().saturating_sub(calls());
            due = Some(calls() + left * strike.share / 1000);
            continue;
        }
        processes.restart_ended(shared);
        if shared.left.load(Ordering::SeqCst) == 0 || is_overdue(shared.begun) {
            return false;
        }
        thread::sleep(PAUSE);
    }
    thread::sleep(strike.delay);
    true
}

/// The kills of a trial in their order, the same for the same seed.
fn strikes(fixture: &Fixture, trial: &Trial) -> Vec<Strike> {
    let rng = Seeded::new(trial.seed());
    let below = |bound: usize| usize::try_from(rng.below(bound as u64)).unwrap_or_default();
    let millis = |bound: usize| Duration::from_millis(rng.below(bound as u64));
    // A lost run, so that the server resumes one by itself.
    if let Trial::Point { .. } = trial {
        return vec![Strike {
            sent: 0,
            following: 0,
            share: 125 + below(250),
            delay: Duration::ZERO,
            victim: Victim::Run,
        }];
    }
    let mut strikes: Vec<Strike> = (0..MOMENTS)
        .map(|moment| Strike {
            // The first one comes while sessions are started, and the later ones while all clients
            // read their streams.
            sent: if moment == 0 {
                below(fixture.sessions)
            } else {
                0
            },
            following: if moment < MOMENTS / 2 { 0 } else { CLIENTS },
            share: if moment == 0 { 0 } else { below(500) },
            delay: millis(20),
            victim: match trial {
                Trial::Workers { .. } => match (below(WORKERS + 1), trial.seed() % 2) {
                    (WORKERS, runs) => Victim::Server {
                        runs: usize::try_from(runs).unwrap_or_default(),
                        down: millis(200),
                    },
                    (worker, _) => Victim::Worker(worker),
                },
                _ => Victim::Server {
                    runs: [0, 1, usize::MAX][usize::try_from(trial.seed() % 3).unwrap_or_default()],
                    down: millis(200),
                },
            },
        })
        .collect();
    if let Trial::Workers { seed } = trial
        && seed % 2 == 1
    {
        strikes.push(Strike {
            sent: 0,
            following: CLIENTS,
            share: below(500),
            delay: millis(20),
            victim: Victim::Run,
        });
    }
    strikes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trial_notation_round_trips() {
        for words in [
            "server/7",
            "server-and-workers/7",
            "server/serve/request.after_intent:2",
            "server/run/lease.after_acquire:1",
        ] {
            assert_eq!(words.parse::<Trial>().unwrap().to_string(), words);
        }
        for words in ["server", "server/x", "server/run/nowhere:1", "server/run/x"] {
            words.parse::<Trial>().unwrap_err();
        }
    }

    #[test]
    fn moments_are_counted() {
        let trials = trials(200, 1);
        let servers = trials
            .iter()
            .filter(|it| matches!(it, Trial::Server { .. }));
        assert_eq!(servers.count() * MOMENTS, 200);
    }
}
