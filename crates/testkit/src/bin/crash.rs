//! `crash --segno PATH`: kills segno at every point where it can be killed, and counts what was
//! lost.
//!
//! The binary at PATH must be built with `--features failpoints`. `--sample N` draws about N kills
//! at random (`--seed S` draws the same again), `--only KILL` repeats a single one, and
//! `--part runs`, `one-home`, `ownership`, `server`, `checkpoints`, `agents`, `obstacles`,
//! `transcripts` or `hooks` does only that part.

#![expect(
    clippy::disallowed_methods,
    reason = "the crash runner measures its own run time"
)]

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, thread};

use segno_testkit::crash::{
    Counted, Fault, Hit, Home, Kill, Model, Outcome, Tally, Workload, agents, at_every_position,
    at_points, at_points_again, at_syscalls, attempt, attempt_all, checkpoints, explain, hooks,
    one_home, ownership, require_strace, sample, server, transcripts, unhit_failpoints,
};
use segno_testkit::programs::Agent;

const USAGE: &str = "usage: crash --segno PATH [--sample N] [--seed S] [--only KILL] [--part runs|one-home|ownership|server|checkpoints|agents|obstacles|transcripts|hooks]";

/// How often progress is reported.
const PAUSE: Duration = Duration::from_secs(5);

/// The kill after which the resume is killed at every system call: in the middle, with an answer
/// that is not in the journal yet.
const MIDDLE: Fault = Fault::Point {
    name: "step.after_effect",
    visit: 3,
};

/// How many rounds of changing files, and of concurrent captures and sweeps.
const ROUNDS: usize = 15;

/// How often 200 runs of one home are killed together, and how many sessions are asked for with wrong
/// clocks.
const TOGETHER: usize = 10;
const OWNERSHIPS: usize = 100;

/// How often a server is killed while it runs 20 sessions.
const SERVER_KILLS: usize = 200;

/// How often each agent is killed with each signal, and how often its resume meets an obstacle; and how
/// many agents run at once: each of them keeps a processor busy.
const STRIKES: usize = 30;
const OBSTRUCTED: usize = 100;
const AGENTS: usize = 2;

struct Args {
    segno: PathBuf,
    sample: Option<usize>,
    seed: u64,
    only: Option<Only>,
    parts: Vec<Part>,
}

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Runs of sessions.
    Runs,
    /// Many runs of one home at once.
    OneHome,
    /// Nothing, or the owner of a session, while others ask for the session.
    Ownership,
    /// A server, its workers, and the runs that they started.
    Server,
    /// Checkpoint commands.
    Checkpoints,
    /// Running agents.
    Agents,
    /// Running agents; then obstacles stand in the way of the resume.
    Obstacles,
    /// Commands that read and write the transcripts of agents.
    Records,
    /// Commands that change the settings of agents.
    Hooks,
}

impl Part {
    const ALL: &[Self] = &[
        Self::Runs,
        Self::OneHome,
        Self::Ownership,
        Self::Server,
        Self::Checkpoints,
        Self::Agents,
        Self::Obstacles,
        Self::Records,
        Self::Hooks,
    ];

    fn named(word: &str) -> Option<Self> {
        match word {
            "runs" => Some(Self::Runs),
            "one-home" => Some(Self::OneHome),
            "ownership" => Some(Self::Ownership),
            "server" => Some(Self::Server),
            "checkpoints" => Some(Self::Checkpoints),
            "agents" => Some(Self::Agents),
            "obstacles" => Some(Self::Obstacles),
            "transcripts" => Some(Self::Records),
            "hooks" => Some(Self::Hooks),
            _ => None,
        }
    }
}

/// A single trial to repeat.
enum Only {
    Kill(Kill),
    OneHome(one_home::Trial),
    Ownership(ownership::Trial),
    Server(server::Trial),
    Trial(checkpoints::Trial),
    Strike(agents::Strike),
    Record(transcripts::Trial),
    Hook(hooks::Trial),
}

fn main() -> ExitCode {
    let args = match read(env::args().skip(1)) {
        Ok(args) => args,
        Err(problem) => {
            log(&format!("error: {problem}\n{USAGE}"));
            return ExitCode::from(2);
        }
    };
    require_strace();
    let seed = args.seed;
    log(&format!("seed {seed}"));
    let progress = Progress::new();
    match &args.only {
        Some(Only::Kill(kill)) => progress.record(&attempt(
            &args.segno,
            kill,
            &Model::of(&args.segno, kill.workload),
        )),
        Some(Only::OneHome(trial)) => progress.record(&one_home::attempt(&args.segno, trial)),
        Some(Only::Ownership(trial)) => {
            ownership::attempt_all(&args.segno, std::slice::from_ref(trial), 1, |one| {
                progress.record(one);
            });
        }
        Some(Only::Server(trial)) => {
            server::attempt_all(&args.segno, std::slice::from_ref(trial), |one| {
                progress.record(one);
            });
        }
        Some(Only::Trial(trial)) => {
            let fixture = checkpoints::Fixture::new(&args.segno, trial.operation());
            progress.record(&checkpoints::attempt(&fixture, trial));
        }
        Some(Only::Strike(strike)) => progress.record(&agents::attempt(&args.segno, strike)),
        Some(Only::Record(trial)) => progress.record(&transcripts::attempt(&args.segno, trial)),
        Some(Only::Hook(trial)) => progress.record(&hooks::attempt(&args.segno, trial)),
        None => {
            for part in &args.parts {
                match part {
                    Part::Runs => runs(&args, &progress),
                    Part::OneHome => {
                        let trials = args.draw(one_home::trials(TOGETHER, seed), 10);
                        one_home::attempt_all(&args.segno, &trials, |one| progress.record(one));
                    }
                    Part::Ownership => {
                        let trials = args.draw(ownership::trials(OWNERSHIPS, seed), 2);
                        ownership::attempt_all(&args.segno, &trials, workers(), |one| {
                            progress.record(one);
                        });
                    }
                    Part::Server => {
                        let moments = server::trials(SERVER_KILLS, seed);
                        let mut trials = args.draw(moments, 2);
                        trials.extend(args.draw(server::at_points(&args.segno), 2));
                        server::attempt_all(&args.segno, &trials, |one| progress.record(one));
                    }
                    Part::Checkpoints => checkpoints(&args, &progress),
                    Part::Agents => strike_agents(&args, &progress),
                    Part::Obstacles => obstruct_agents(&args, &progress),
                    Part::Records => {
                        let trials = args.draw(transcripts::trials(), 1);
                        transcripts::attempt_all(&args.segno, &trials, AGENTS, |one| {
                            progress.record(one);
                        });
                    }
                    Part::Hooks => {
                        let trials = args.draw(hooks::trials(&args.segno), 1);
                        hooks::attempt_all(&args.segno, &trials, workers(), |one| {
                            progress.record(one);
                        });
                    }
                }
            }
        }
    }
    let is_whole = args.only.is_none() && args.sample.is_none() && args.parts == Part::ALL;
    progress.end(is_whole)
}

/// Kills runs of sessions, and the resumes of them.
fn runs(args: &Args, progress: &Progress) {
    let draw = |kills: Vec<Kill>, parts: usize| args.draw(kills, parts);
    let firsts: Vec<Kill> = Workload::CHAINS
        .iter()
        .flat_map(|workload| at_points(&args.segno, *workload))
        .collect();
    let kill =
        |kills: &[Kill]| attempt_all(&args.segno, kills, workers(), |one| progress.record(one));
    let outcomes = kill(&draw(firsts, 4));
    for workload in Workload::PATTERNS {
        let kills = at_every_position(&args.segno, *workload);
        log(&format!(
            "{}: {} journal positions to kill at",
            workload.word(),
            kills.len()
        ));
        kill(&draw(kills, 8));
    }
    let seconds: Vec<Kill> = middles(&outcomes).flat_map(at_points_again).collect();
    kill(&draw(seconds, 4));
    let syscalls = syscalls(&args.segno);
    kill(&draw(syscalls, 2));
}

/// Disturbs checkpoint commands.
fn checkpoints(args: &Args, progress: &Progress) {
    let (mut kills, mut rounds) = (Vec::new(), Vec::new());
    for operation in checkpoints::Operation::ALL {
        let fixture = checkpoints::Fixture::new(&args.segno, *operation);
        let points = checkpoints::at_points(&fixture);
        let (calls, hidden) = checkpoints::at_syscalls(&fixture);
        log(&format!(
            "{}: {} failpoint visits and {} system calls to kill at, {} hidden {hidden:?}",
            operation.word(),
            points.len(),
            calls.len(),
            hidden.len(),
        ));
        kills.extend(points.into_iter().chain(calls));
        rounds.extend(checkpoints::on_full_disks(*operation));
    }
    for seed in (args.seed..).take(ROUNDS) {
        rounds.push(checkpoints::Trial::Changing { seed });
        rounds.push(checkpoints::Trial::Concurrent { seed });
    }
    let mut trials = args.draw(kills, 2);
    trials.extend(args.draw(rounds, 2));
    checkpoints::attempt_all(&args.segno, &trials, workers(), |one| progress.record(one));
}

/// Kills running agents, and the segno that runs them.
fn strike_agents(args: &Args, progress: &Progress) {
    let mut strikes = Vec::new();
    for agent in Agent::ALL {
        for signal in agents::StrikeSignal::ALL {
            strikes.extend(agents::strikes(agent, signal, STRIKES, args.seed));
        }
        strikes.extend(agents::strikes_again(agent, STRIKES, args.seed));
    }
    let strikes = args.draw(strikes, 1);
    agents::attempt_all(&args.segno, &strikes, AGENTS, |one| progress.record(one));
}

/// Kills running agents, and puts obstacles in the way of the resume.
fn obstruct_agents(args: &Args, progress: &Progress) {
    let mut strikes = Vec::new();
    for driver in agents::Driver::ALL {
        for agent in Agent::ALL {
            let own = agents::strikes_with_obstacles(agent, driver, OBSTRUCTED, args.seed);
            strikes.extend(own);
        }
    }
    let strikes = args.draw(strikes, 1);
    agents::attempt_all(&args.segno, &strikes, AGENTS, |one| progress.record(one));
}

/// One kill of each workload at each failpoint: the one at its last visit but one, if there are
/// several. After these the resume has most to do and to skip.
fn middles(outcomes: &[Outcome]) -> impl Iterator<Item = &Outcome> {
    let failpoint = |outcome: &Outcome| match &outcome.kill.faults[..] {
        [Fault::Point { name, visit }, ..] => (outcome.kill.workload, *name, *visit),
        _ => unreachable!("first kills are at failpoints"),
    };
    let is_later = move |one: &Outcome, other: &Outcome| {
        let ((workload, name, visit), (its, own, later)) = (failpoint(one), failpoint(other));
        (workload, name) == (its, own) && visit < later
    };
    outcomes.iter().filter(move |outcome| {
        let later = outcomes.iter().filter(|other| is_later(outcome, other));
        let earlier = outcomes.iter().any(|other| is_later(other, outcome));
        outcome.hit == Hit::Segno && matches!((later.count(), earlier), (1, _) | (0, false))
    })
}

/// Every kill at a system call. Prints which calls cannot be targeted.
fn syscalls(segno: &Path) -> Vec<Kill> {
    let mut kills = Vec::new();
    for workload in Workload::CHAINS {
        for (home, before) in [
            (Home::Fresh, None),
            (Home::Used, None),
            (Home::Fresh, Some(&MIDDLE)),
        ] {
            let (aimed, hidden) = at_syscalls(segno, *workload, home, before);
            log(&format!(
                "{}/{}{}: {} system calls to kill at, {} hidden {hidden:?}",
                workload.word(),
                home.word(),
                before.map_or(String::new(), |fault| format!("/{fault}")),
                aimed.len(),
                hidden.len(),
            ));
            kills.extend(aimed);
        }
    }
    kills
}

/// Reports progress.
struct Progress {
    begun: Instant,
    counts: Mutex<Counts>,
}

/// The outcomes so far, by kind, and when progress was last reported.
struct Counts {
    tallies: BTreeMap<String, Tally>,
    reported_at: Instant,
}

impl Progress {
    fn new() -> Self {
        let begun = Instant::now();
        let counts = Counts {
            tallies: BTreeMap::new(),
            reported_at: begun,
        };
        Self {
            begun,
            counts: Mutex::new(counts),
        }
    }

    /// Counts an outcome; reports what is wrong with it, and progress from time to time.
    fn record<O: Counted>(&self, outcome: &O) {
        let mut counts = self
            .counts
            .lock()
            .expect("no thread panics while it holds the lock");
        let group = outcome.group();
        let tally = counts.tallies.entry(group.clone()).or_default();
        tally.add(outcome);
        let so_far = format!("{group}: {tally}");
        if !outcome.violations().is_empty() {
            log(&format!("WRONG {}", explain(outcome)));
        }
        if counts.reported_at.elapsed() >= PAUSE {
            counts.reported_at = Instant::now();
            log(&format!("{} s: {so_far}", self.begun.elapsed().as_secs()));
        }
    }

    /// `is_whole` if every failpoint must have been hit.
    fn end(self, is_whole: bool) -> ExitCode {
        let counts = self.counts.into_inner();
        let Counts { tallies, .. } = counts.expect("no thread panics while it holds the lock");
        for (group, tally) in &tallies {
            let _ = writeln!(io::stdout(), "{group}: {tally}");
        }
        log(&format!("took {} s", self.begun.elapsed().as_secs()));
        let unhit = unhit_failpoints(&tallies.values().collect::<Vec<_>>());
        if is_whole && !unhit.is_empty() {
            log(&format!("error: no trial hit the failpoints {unhit:?}"));
            return ExitCode::FAILURE;
        }
        if tallies.values().all(Tally::is_good) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

fn workers() -> usize {
    thread::available_parallelism().map_or(2, usize::from)
}

impl Args {
    /// All of them, or a part of the requested sample.
    fn draw<T>(&self, kills: Vec<T>, parts: usize) -> Vec<T> {
        match self.sample {
            Some(size) => sample(kills, size.div_ceil(parts), self.seed),
            None => kills,
        }
    }
}

fn read(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let (mut segno, mut size, mut seed, mut only) = (None, None, now.as_secs(), None);
    let mut parts = Part::ALL.to_vec();
    while let Some(word) = words.next() {
        let value = words
            .next()
            .ok_or_else(|| format!("`{word}` needs a value"))?;
        let number = || {
            value
                .parse::<u64>()
                .map_err(|_| format!("`{value}` is not a number"))
        };
        match word.as_str() {
            "--segno" => {
                // Commands are started in other folders.
                let path = std::path::absolute(&value).map_err(|error| error.to_string())?;
                segno = Some(path);
            }
            "--sample" => size = Some(usize::try_from(number()?).unwrap_or(usize::MAX)),
            "--seed" => seed = number()?,
            "--only" => {
                let kill = value.parse().map(Only::Kill);
                let trial = kill.or_else(|_| value.parse().map(Only::Trial));
                let trial = trial.or_else(|_| value.parse().map(Only::Record));
                let trial = trial.or_else(|_| value.parse().map(Only::Hook));
                let trial = trial.or_else(|_| value.parse().map(Only::OneHome));
                let trial = trial.or_else(|_| value.parse().map(Only::Ownership));
                let trial = trial.or_else(|_| value.parse().map(Only::Server));
                only = Some(trial.or_else(|_| value.parse().map(Only::Strike))?);
            }
            "--part" => {
                let part = Part::named(&value);
                parts = vec![part.ok_or_else(|| format!("unknown part `{value}`"))?];
            }
            _ => return Err(format!("unknown option `{word}`")),
        }
    }
    Ok(Args {
        segno: segno.ok_or("`--segno` is required")?,
        sample: size,
        seed,
        only,
        parts,
    })
}

fn log(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
