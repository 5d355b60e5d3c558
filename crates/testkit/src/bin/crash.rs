//! `crash --segno PATH`: kills segno everywhere it can be killed, and counts what was lost.
//!
//! The binary at PATH must be built with `--features failpoints`. `--sample N` draws about N kills by
//! lot (`--seed S` draws the same again), `--only KILL` repeats a single one, and `--part runs`,
//! `--part checkpoints` or `--part agents` does only that.

#![expect(
    clippy::disallowed_methods,
    reason = "a program that measures itself looks at the clock"
)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, io, thread};

use segno_testkit::crash::{
    Fault, Hit, Home, Kill, Outcome, Tally, Workload, agents, at_every_position, at_points,
    at_points_again, at_syscalls, attempt_all, deeds, explain, left_out, require_strace, sample,
};
use segno_testkit::programs::Agent;

const USAGE: &str = "usage: crash --segno PATH [--sample N] [--seed S] [--only KILL] [--part runs|checkpoints|agents]";

/// How often progress is told.
const PAUSE: Duration = Duration::from_secs(5);

/// After which kill the resume is killed at every system call: in the middle, with an answer that
/// is not yet written down.
const MIDDLE: Fault = Fault::Point {
    name: "step.after_effect",
    visit: 3,
};

/// How many rounds of changing files, and of captures and sweeps at once.
const ROUNDS: usize = 15;

/// How often each agent is struck with each signal, and how many agents are at work at once: each of
/// them keeps a processor busy.
const STRIKES: usize = 30;
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
    /// What is done with checkpoints.
    Checkpoints,
    /// Agents at work.
    Agents,
}

impl Part {
    const ALL: &[Self] = &[Self::Runs, Self::Checkpoints, Self::Agents];
}

/// A single one to repeat.
enum Only {
    Kill(Kill),
    Trial(deeds::Trial),
    Strike(agents::Strike),
}

fn main() -> ExitCode {
    let args = match read(env::args().skip(1)) {
        Ok(args) => args,
        Err(problem) => {
            say(&format!("error: {problem}\n{USAGE}"));
            return ExitCode::from(2);
        }
    };
    require_strace();
    let seed = args.seed;
    say(&format!("seed {seed}"));
    let show = Show::new();
    match &args.only {
        Some(Only::Kill(kill)) => {
            show.attempt(&args.segno, std::slice::from_ref(kill));
        }
        Some(Only::Trial(trial)) => show.disturb(&args.segno, std::slice::from_ref(trial)),
        Some(Only::Strike(strike)) => show.strike(&args.segno, std::slice::from_ref(strike)),
        None => {
            for part in &args.parts {
                match part {
                    Part::Runs => runs(&args, &show),
                    Part::Checkpoints => checkpoints(&args, &show),
                    Part::Agents => at_work(&args, &show),
                }
            }
        }
    }
    let is_whole = args.only.is_none() && args.sample.is_none() && args.parts == Part::ALL;
    show.end(is_whole)
}

/// Kills runs of sessions, and the resumes of them.
fn runs(args: &Args, show: &Show) {
    let draw = |kills: Vec<Kill>, parts: usize| args.draw(kills, parts);
    let firsts: Vec<Kill> = Workload::CHAINS
        .iter()
        .flat_map(|workload| at_points(&args.segno, *workload))
        .collect();
    let outcomes = show.attempt(&args.segno, &draw(firsts, 4));
    for workload in Workload::PATTERNS {
        let kills = at_every_position(&args.segno, *workload);
        say(&format!(
            "{}: {} journal positions to kill at",
            workload.word(),
            kills.len()
        ));
        show.attempt(&args.segno, &draw(kills, 8));
    }
    let seconds: Vec<Kill> = middles(&outcomes).flat_map(at_points_again).collect();
    show.attempt(&args.segno, &draw(seconds, 4));
    let syscalls = syscalls(&args.segno);
    show.attempt(&args.segno, &draw(syscalls, 2));
}

/// Disturbs what is done with checkpoints.
fn checkpoints(args: &Args, show: &Show) {
    let (mut kills, mut rounds) = (Vec::new(), Vec::new());
    for deed in deeds::Deed::ALL {
        let ground = deeds::Ground::new(&args.segno, *deed);
        let points = deeds::at_points(&ground);
        let (calls, hidden) = deeds::at_syscalls(&ground);
        say(&format!(
            "{}: {} visits of failpoints and {} calls to kill at, {} hidden {hidden:?}",
            deed.word(),
            points.len(),
            calls.len(),
            hidden.len(),
        ));
        kills.extend(points.into_iter().chain(calls));
        rounds.extend(deeds::on_full_disks(*deed));
    }
    for seed in (args.seed..).take(ROUNDS) {
        rounds.push(deeds::Trial::Changing { seed });
        rounds.push(deeds::Trial::Together { seed });
    }
    let mut trials = args.draw(kills, 2);
    trials.extend(args.draw(rounds, 2));
    show.disturb(&args.segno, &trials);
}

/// Strikes agents at work, and the segno above them.
fn at_work(args: &Args, show: &Show) {
    let mut strikes = Vec::new();
    for agent in Agent::ALL {
        for blow in agents::Blow::ALL {
            strikes.extend(agents::strikes(agent, blow, STRIKES, args.seed));
        }
    }
    show.strike(&args.segno, &args.draw(strikes, 1));
}

/// One kill of each workload at each failpoint: the one at its latest visit but the last, if there
/// are several. After these the resume has most to do and to skip.
fn middles(outcomes: &[Outcome]) -> impl Iterator<Item = &Outcome> {
    let place = |outcome: &Outcome| match &outcome.kill.faults[..] {
        [Fault::Point { name, visit }, ..] => (outcome.kill.workload, *name, *visit),
        _ => unreachable!("first kills are at failpoints"),
    };
    let is_later = move |one: &Outcome, other: &Outcome| {
        let ((workload, name, visit), (its, own, later)) = (place(one), place(other));
        (workload, name) == (its, own) && visit < later
    };
    outcomes.iter().filter(move |outcome| {
        let later = outcomes.iter().filter(|other| is_later(outcome, other));
        let earlier = outcomes.iter().any(|other| is_later(other, outcome));
        outcome.hit == Hit::Segno && matches!((later.count(), earlier), (1, _) | (0, false))
    })
}

/// Every kill at a system call. Says which calls cannot be aimed at.
fn syscalls(segno: &Path) -> Vec<Kill> {
    let mut kills = Vec::new();
    for workload in Workload::CHAINS {
        for (home, before) in [
            (Home::Fresh, None),
            (Home::Used, None),
            (Home::Fresh, Some(&MIDDLE)),
        ] {
            let (aimed, hidden) = at_syscalls(segno, *workload, home, before);
            say(&format!(
                "{}/{}{}: {} calls to kill at, {} hidden {hidden:?}",
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

/// Tells how it goes.
struct Show {
    begun: Instant,
    inside: Mutex<Heard>,
}

/// What was heard so far, and when that was last told.
struct Heard {
    runs: Tally,
    checkpoints: deeds::Tally,
    agents: agents::Tally,
    told: Instant,
}

impl Show {
    fn new() -> Self {
        let begun = Instant::now();
        let heard = Heard {
            runs: Tally::default(),
            checkpoints: deeds::Tally::default(),
            agents: agents::Tally::default(),
            told: begun,
        };
        Self {
            begun,
            inside: Mutex::new(heard),
        }
    }

    fn attempt(&self, segno: &Path, kills: &[Kill]) -> Vec<Outcome> {
        attempt_all(segno, kills, workers(), |outcome| {
            let wrong = (!outcome.wrongs.is_empty()).then(|| explain(outcome));
            self.hear(wrong, |heard| {
                heard.runs.add(outcome);
                heard.runs.to_string()
            });
        })
    }

    fn disturb(&self, segno: &Path, trials: &[deeds::Trial]) {
        deeds::attempt_all(segno, trials, workers(), |outcome| {
            let wrong = (!outcome.wrongs.is_empty()).then(|| deeds::explain(outcome));
            self.hear(wrong, |heard| {
                heard.checkpoints.add(outcome);
                heard.checkpoints.to_string()
            });
        });
    }

    fn strike(&self, segno: &Path, strikes: &[agents::Strike]) {
        agents::attempt_all(segno, strikes, AGENTS, |outcome| {
            let wrong = (!outcome.is_good()).then(|| agents::explain(outcome));
            self.hear(wrong, |heard| {
                heard.agents.add(outcome);
                heard.agents.to_string()
            });
        });
    }

    /// Counts an outcome, and tells what is wrong with it and, now and then, how it goes.
    fn hear(&self, wrong: Option<String>, count: impl FnOnce(&mut Heard) -> String) {
        let mut heard = self.inside.lock().expect("no one panics while holding it");
        let tally = count(&mut heard);
        if let Some(wrong) = wrong {
            say(&format!("WRONG {wrong}"));
        }
        if heard.told.elapsed() >= PAUSE {
            heard.told = Instant::now();
            say(&format!("{} s: {tally}", self.begun.elapsed().as_secs()));
        }
    }

    /// `is_whole` if no failpoint may have been left out.
    fn end(self, is_whole: bool) -> ExitCode {
        let heard = self.inside.into_inner();
        let heard = heard.expect("no one panics while holding it");
        let (runs, checkpoints, agents) = (&heard.runs, &heard.checkpoints, &heard.agents);
        if runs.kills() + runs.missed > 0 {
            let _ = writeln!(io::stdout(), "{runs}");
        }
        if checkpoints.disturbed() + checkpoints.missed > 0 {
            let _ = writeln!(io::stdout(), "{checkpoints}");
        }
        if agents.kills() + agents.missed() > 0 {
            for line in agents.each() {
                let _ = writeln!(io::stdout(), "{line}");
            }
            let _ = writeln!(io::stdout(), "{agents}");
        }
        say(&format!("took {} s", self.begun.elapsed().as_secs()));
        let left_out = left_out(runs, checkpoints);
        if is_whole && !left_out.is_empty() {
            say(&format!("error: nothing was killed at {left_out:?}"));
            return ExitCode::FAILURE;
        }
        if runs.is_good() && checkpoints.is_good() && agents.is_good() {
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
    /// All of them, or a part of what was asked for.
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
                // Commands are started in folders of their own.
                let path = std::path::absolute(&value).map_err(|error| error.to_string())?;
                segno = Some(path);
            }
            "--sample" => size = Some(usize::try_from(number()?).unwrap_or(usize::MAX)),
            "--seed" => seed = number()?,
            "--only" => {
                let kill = value.parse().map(Only::Kill);
                let trial = kill.or_else(|_| value.parse().map(Only::Trial));
                only = Some(trial.or_else(|_| value.parse().map(Only::Strike))?);
            }
            "--part" if value == "runs" => parts = vec![Part::Runs],
            "--part" if value == "checkpoints" => parts = vec![Part::Checkpoints],
            "--part" if value == "agents" => parts = vec![Part::Agents],
            _ => return Err(format!("`{word}` is unknown")),
        }
    }
    Ok(Args {
        segno: segno.ok_or("--segno is missing")?,
        sample: size,
        seed,
        only,
        parts,
    })
}

fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
