//! `crash --segno PATH`: kills segno everywhere it can be killed, and counts what was lost.
//!
//! The binary at PATH must be built with `--features failpoints`. `--sample N` draws about N kills by
//! lot (`--seed S` draws the same again), `--only KILL` repeats a single one.

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
    Fault, Hit, Home, Kill, Outcome, Tally, Workload, at_every_position, at_points,
    at_points_again, at_syscalls, attempt_all, explain, require_strace, sample,
};

const USAGE: &str = "usage: crash --segno PATH [--sample N] [--seed S] [--only KILL]";

/// How often progress is told.
const PAUSE: Duration = Duration::from_secs(5);

/// After which kill the resume is killed at every system call: in the middle, with an answer that
/// is not yet written down.
const MIDDLE: Fault = Fault::Point {
    name: "step.after_effect",
    visit: 3,
};

struct Args {
    segno: PathBuf,
    sample: Option<usize>,
    seed: u64,
    only: Option<Kill>,
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
    if let Some(kill) = &args.only {
        show.attempt(&args.segno, std::slice::from_ref(kill));
        return show.end(false);
    }
    let draw = |kills: Vec<Kill>, parts: usize| match args.sample {
        Some(size) => sample(kills, size.div_ceil(parts), seed),
        None => kills,
    };
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
    show.end(args.sample.is_none())
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
    inside: Mutex<(Tally, Instant)>,
}

impl Show {
    fn new() -> Self {
        let begun = Instant::now();
        Self {
            begun,
            inside: Mutex::new((Tally::default(), begun)),
        }
    }

    fn attempt(&self, segno: &Path, kills: &[Kill]) -> Vec<Outcome> {
        let workers = thread::available_parallelism().map_or(2, usize::from);
        attempt_all(segno, kills, workers, |outcome| self.hear(outcome))
    }

    fn hear(&self, outcome: &Outcome) {
        let mut inside = self.inside.lock().expect("no one panics while holding it");
        let (tally, told) = &mut *inside;
        tally.add(outcome);
        if !outcome.wrongs.is_empty() {
            say(&format!("WRONG {}", explain(outcome)));
        }
        if told.elapsed() >= PAUSE {
            *told = Instant::now();
            say(&format!("{} s: {tally}", self.begun.elapsed().as_secs()));
        }
    }

    /// `is_whole` if no failpoint may have been left out.
    fn end(self, is_whole: bool) -> ExitCode {
        let (tally, _) = self
            .inside
            .into_inner()
            .expect("no one panics while holding it");
        let _ = writeln!(io::stdout(), "{tally}");
        say(&format!("took {} s", self.begun.elapsed().as_secs()));
        let left_out = tally.left_out();
        if is_whole && !left_out.is_empty() {
            say(&format!("error: nothing was killed at {left_out:?}"));
            return ExitCode::FAILURE;
        }
        if tally.is_good() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

fn read(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let (mut segno, mut size, mut seed, mut only) = (None, None, now.as_secs(), None);
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
            "--only" => only = Some(value.parse()?),
            _ => return Err(format!("`{word}` is unknown")),
        }
    }
    Ok(Args {
        segno: segno.ok_or("--segno is missing")?,
        sample: size,
        seed,
        only,
    })
}

fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
