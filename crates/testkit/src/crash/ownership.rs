//! Who owns a session is told by the lock of a living process and not by a clock (P15): while one
//! owner works or is stopped, others with wrong clocks ask for its session, by hours and by days. No
//! step may be executed twice, unless the owner was killed; then the next resume continues at once,
//! whatever its clock says.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

use rustix::process::{Pid, Signal, kill_process};

use super::tally::{Counted, run_jobs};
use super::trial::{Hit, Violation, describe, lines};
use crate::clock::Seeded;
use crate::sandbox::{Sandbox, run_to_end, wait_for_output, wait_until};

/// How many steps the session has.
const STEPS: usize = 4;
/// How often others ask for the session.
const ATTEMPTS: usize = 4;
/// How wrong the clocks are, in seconds.
const OFFSETS: [i64; 7] = [-172_800, -3600, -31, 0, 31, 3600, 172_800];

/// One session and those who want it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Draws clocks, moments and what happens to the owner.
    pub seed: u64,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ownership/{}", self.seed)
    }
}

impl FromStr for Trial {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("`{text}` is not ownership/SEED");
        let seed = text.strip_prefix("ownership/").ok_or_else(unknown)?;
        Ok(Self {
            seed: seed.parse().map_err(|_| unknown())?,
        })
    }
}

/// What happens to the owner while others ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Works,
    Stopped,
    Killed,
}

/// The result of a trial.
#[derive(Debug, Clone)]
pub struct Outcome {
    trial: Trial,
    fate: Fate,
    violations: Vec<Violation>,
}

impl Counted for Outcome {
    const COLUMNS: &'static [&'static str] = &["working owners", "stopped owners", "killed owners"];

    fn group(&self) -> String {
        "ownership".to_owned()
    }

    fn notation(&self) -> String {
        self.trial.to_string()
    }

    fn hit(&self) -> Hit {
        Hit::Segno
    }

    fn violations(&self) -> &[Violation] {
        &self.violations
    }

    fn count(&self, add: &mut dyn FnMut(&'static str, u64)) {
        let column = match self.fate {
            Fate::Works => "working owners",
            Fate::Stopped => "stopped owners",
            Fate::Killed => "killed owners",
        };
        add(column, 1);
    }
}

/// The trials, the same for the same seed.
pub fn trials(rounds: usize, seed: u64) -> Vec<Trial> {
    (seed..).take(rounds).map(|seed| Trial { seed }).collect()
}

/// Executes every trial, `workers` at a time, and passes each outcome to `report`.
pub fn attempt_all(
    segno: &Path,
    trials: &[Trial],
    workers: usize,
    report: impl Fn(&Outcome) + Sync,
) -> Vec<Outcome> {
    let library = faketime();
    let attempt = |(): &mut (), trial: &Trial| attempt(segno, &library, trial);
    run_jobs(trials, workers, || (), attempt, report)
}

/// The library that changes a program's wall clock.
fn faketime() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").unwrap().flatten();
    let library = |folder: PathBuf| folder.join("faketime/libfaketime.so.1");
    let mut libraries = folders.map(|folder| library(folder.path()));
    let found = libraries.find(|library| library.exists());
    found.expect("faketime is not installed: `make tools` installs it")
}

fn attempt(segno: &Path, library: &Path, trial: &Trial) -> Outcome {
    let rng = Seeded::new(trial.seed);
    let held = usize::try_from(rng.below(STEPS as u64)).unwrap();
    // Each fate in turn, so that a few consecutive trials have them all.
    let fate = [Fate::Works, Fate::Stopped, Fate::Killed][usize::try_from(trial.seed % 3).unwrap()];
    let sandbox = Sandbox::new(segno);
    sandbox.command_chain(
        STEPS,
        &format!("while [ \"$SEGNO_STEP\" = steps/{held} ] && [ ! -e go ]; do sleep 0.01; done"),
    );
    let mut session = Session {
        sandbox: &sandbox,
        library,
        rng: &rng,
        violations: Vec::new(),
    };
    let owner = session.start(&["run", "chain.yaml", "--name", "one"]);
    wait_until("the step that waits is asked", || {
        sandbox.calls().len() == held + 1
    });
    if fate == Fate::Stopped {
        signal(&owner, Signal::STOP);
    }
    for _ in 0..ATTEMPTS {
        session.ask_for_it(held + 1);
    }
    let last = match fate {
        Fate::Works => owner,
        Fate::Stopped => {
            signal(&owner, Signal::CONT);
            owner
        }
        Fate::Killed => {
            signal(&owner, Signal::KILL);
            wait_for_output(owner);
            let resumed = session.start(&["resume", "one"]);
            wait_until("the step in flight is asked again", || {
                sandbox.calls().len() == held + 2
            });
            resumed
        }
    };
    sandbox.write("go", "");
    session.check_end(last, held, fate);
    Outcome {
        trial: trial.clone(),
        fate,
        violations: session.violations,
    }
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

struct Session<'a> {
    sandbox: &'a Sandbox,
    library: &'a Path,
    rng: &'a Seeded,
    violations: Vec<Violation>,
}

impl Session<'_> {
    /// A command whose wall clock is wrong by a drawn offset.
    fn command(&self, words: &[&str]) -> Command {
        let offset = OFFSETS[usize::try_from(self.rng.below(OFFSETS.len() as u64)).unwrap()];
        let mut command = self.sandbox.command(words);
        command
            .env("LD_PRELOAD", self.library)
            .env("FAKETIME", format!("{offset:+}s"))
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command
    }

    fn start(&self, words: &[&str]) -> Child {
        let mut command = self.command(words);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Someone with a wrong clock asks for the session, which has a living owner.
    fn ask_for_it(&mut self, calls: usize) {
        let asks = [&["resume", "one"][..], &["doctor", "--recover"]];
        let words = asks[usize::try_from(self.rng.below(2)).unwrap()];
        let said = run_to_end(self.command(words));
        if words[0] == "resume" && said.status.code() != Some(21) {
            let what = format!("a resume beside a living owner: {}", describe(&said));
            self.violations.push(Violation::Repeat(what));
        }
        let now = self.sandbox.calls().len();
        if now != calls {
            let what = format!("{words:?} beside a living owner made {now} calls of {calls}");
            self.violations.push(Violation::Repeat(what));
        }
        let status = self.sandbox.segno(&["status", "--json"]);
        let status = lines(&status.stdout);
        if status.first().is_none_or(|one| one["status"] != "running") {
            let what = format!("{words:?} beside a living owner left {status:?}");
            self.violations.push(Violation::Damage(what));
        }
    }

    /// The last owner finishes the session, and every step was asked once, except the one that was
    /// in flight when its owner was killed.
    fn check_end(&mut self, last: Child, held: usize, fate: Fate) {
        let said = wait_for_output(last);
        if !said.status.success() {
            let what = format!("the owner did not finish: {}", describe(&said));
            self.violations.push(Violation::Stuck(what));
        }
        let mut expected: Vec<String> = (0..STEPS).map(|step| format!("steps/{step}")).collect();
        if fate == Fate::Killed {
            expected.insert(held, format!("steps/{held}"));
        }
        let calls = self.sandbox.calls();
        if calls != expected {
            let what = format!("the calls are {calls:?}");
            self.violations.push(Violation::Repeat(what));
        }
        let said = self.sandbox.segno(&["doctor"]);
        if !said.status.success() {
            let what = format!("doctor: {}", describe(&said));
            self.violations.push(Violation::Damage(what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trial_notation_round_trips() {
        assert_eq!(
            "ownership/7".parse::<Trial>().unwrap().to_string(),
            "ownership/7"
        );
        "ownership/x".parse::<Trial>().unwrap_err();
    }
}
