//! Many runs in one home, all killed at the same moment: each waits for its model most of the time,
//! as real runs do, and all of them commit to the same disk. A model server outside of segno knows
//! when each answer was complete, so an answer that is asked for again after the kill was lost on
//! its way to the journal, and its age is known.

use std::collections::HashMap;
use std::fmt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::tally::{Counted, run_jobs};
use super::trial::{Hit, Violation, lines};
use crate::clock::Seeded;
use crate::model::{ModelResponse, ModelServer};
use crate::sandbox::{Sandbox, is_overdue, run_to_end, wait_for_output};

/// How many steps a session has.
const STEPS: usize = 8;
/// How long the model takes for an answer.
const THINKING: Duration = Duration::from_millis(500);
/// About how long an answer is.
const ANSWER_BYTES: usize = 2048;
/// The age from which on no answer may be lost.
const OLDEST: Duration = Duration::from_millis(100);
/// How many sessions are resumed at the same time.
const AT_ONCE: usize = 16;

/// Many runs that are killed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    pub sessions: usize,
    /// Draws the moment of the kill.
    pub seed: u64,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one-home/{}/{}", self.sessions, self.seed)
    }
}

impl FromStr for Trial {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("`{text}` is not one-home/SESSIONS/SEED");
        let words: Vec<&str> = text.split('/').collect();
        let ["one-home", sessions, seed] = words[..] else {
            return Err(unknown());
        };
        Ok(Self {
            sessions: sessions.parse().map_err(|_| unknown())?,
            seed: seed.parse().map_err(|_| unknown())?,
        })
    }
}

/// The result of a trial.
#[derive(Debug, Clone)]
pub struct Outcome {
    trial: Trial,
    /// How many answers were complete when the runs were killed.
    pub answered: usize,
    /// The ages, at the kill, of the answers that were asked for again.
    pub lost: Vec<Duration>,
    violations: Vec<Violation>,
}

impl Outcome {
    /// How many answers of at least this age were asked for again.
    pub fn lost_after(&self, age: Duration) -> usize {
        self.lost.iter().filter(|lost| **lost >= age).count()
    }
}

impl Counted for Outcome {
    const COLUMNS: &'static [&'static str] = &[
        "sessions",
        "answered calls",
        "asked again",
        "of these older than 10 ms",
        "older than 50 ms",
        "older than 100 ms",
    ];

    fn group(&self) -> String {
        "one home".to_owned()
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
        let after = |millis| self.lost_after(Duration::from_millis(millis));
        let counts = [
            self.trial.sessions,
            self.answered,
            self.lost.len(),
            after(10),
            after(50),
            after(100),
        ];
        for (column, count) in Self::COLUMNS.iter().zip(counts) {
            add(column, count as u64);
        }
    }
}

/// The trials: `rounds` kills of 200 sessions.
pub fn trials(rounds: usize, seed: u64) -> Vec<Trial> {
    let trial = |seed| Trial {
        sessions: 200,
        seed,
    };
    (seed..).take(rounds).map(trial).collect()
}

/// Executes every trial, one at a time: each keeps the whole machine busy.
pub fn attempt_all(
    segno: &Path,
    trials: &[Trial],
    report: impl Fn(&Outcome) + Sync,
) -> Vec<Outcome> {
    let attempt = |(): &mut (), trial: &Trial| attempt(segno, trial);
    run_jobs(trials, 1, || (), attempt, report)
}

/// The answer to a question: different for every session and step.
fn answer(question: &str) -> String {
    let digest = segno_core::digest::Digest::of(question.as_bytes()).to_string();
    digest.repeat(ANSWER_BYTES / digest.len() + 1)
}

/// What a session's last answer must be.
fn last_answer(session: usize) -> String {
    let first = answer(&format!("{session} begins"));
    (1..STEPS).fold(first, |before, step| {
        answer(&format!("{session} {step} {}", &before[..32]))
    })
}

fn spec(host: &str, session: usize) -> String {
    use std::fmt::Write;
    let mut spec = format!(
        "version: 0\nname: s{session}\nruntime: {{provider: openai, host: \"{host}\"}}\nagents: {{a: {{prompt: Answer.}}}}\npattern:\n  type: chain\n  config:\n    steps:\n      - {{agent: a, input: {session} begins}}\n"
    );
    for step in 1..STEPS {
        let before = step - 1;
        let _ = writeln!(
            spec,
            "      - {{agent: a, input: \"{session} {step} {{{{ steps[{before}].response[:32] }}}}\"}}"
        );
    }
    spec
}

/// Starts all sessions, kills all of them at a drawn moment, resumes them, and compares.
pub fn attempt(segno: &Path, trial: &Trial) -> Outcome {
    let answered: Arc<Mutex<HashMap<String, Vec<Instant>>>> = Arc::default();
    let seen = Arc::clone(&answered);
    let server = ModelServer::start(move |_, asked| {
        let question = asked.last_message();
        std::thread::sleep(THINKING);
        let text = answer(&question);
        let mut answered = seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Earlier than the client has it: the age of a lost answer is never understated.
        answered.entry(question).or_default().push(Instant::now());
        ModelResponse::Text(text)
    });
    let sandbox = Sandbox::new(segno);
    sandbox.segno(&["doctor"]).expect_success();
    for session in 0..trial.sessions {
        sandbox.write(&format!("s{session}.yaml"), &spec(&server.host(), session));
    }
    let mut children = Vec::new();
    let mut group = 0;
    for session in 0..trial.sessions {
        let mut command = sandbox.command(&["run", &format!("s{session}.yaml"), "--json"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.process_group(group).spawn().unwrap();
        if group == 0 {
            group = i32::try_from(child.id()).unwrap();
        }
        children.push(child);
    }
    let count = || {
        answered
            .lock()
            .unwrap()
            .values()
            .map(Vec::len)
            .sum::<usize>()
    };
    let all = (trial.sessions * STEPS) as u64;
    let moment = all / 4 + Seeded::new(trial.seed).below(all / 2);
    let begun = Instant::now();
    while (count() as u64) < moment {
        assert!(!is_overdue(begun), "{} of {moment} answers", count());
        std::thread::sleep(Duration::from_millis(1));
    }
    let killed_at = Instant::now();
    kill_process_group(Pid::from_raw(group).unwrap(), Signal::KILL).unwrap();
    for mut child in children {
        child.wait().unwrap();
    }
    let before = answered.lock().unwrap().clone();
    let mut checker = Checker {
        sandbox: &sandbox,
        trial,
        violations: Vec::new(),
    };
    let journaled = checker.journaled();
    checker.resume();
    let after = answered.lock().unwrap();
    let mut lost = Vec::new();
    for (question, times) in &before {
        if after[question].len() == times.len() {
            continue;
        }
        if journaled.contains(question) {
            let what = format!("the answer to `{question}` was journaled and asked for again");
            checker.violations.push(Violation::Repeat(what));
        }
        // An answer that was not complete at the kill was not lost.
        let complete = times
            .iter()
            .filter_map(|at| killed_at.checked_duration_since(*at));
        lost.extend(complete.max());
    }
    if let Some(age) = lost.iter().find(|age| **age >= OLDEST) {
        let what = format!("an answer was lost {} ms after it came", age.as_millis());
        checker.violations.push(Violation::Loss(what));
    }
    Outcome {
        trial: trial.clone(),
        answered: before
            .values()
            .flatten()
            .filter(|at| **at <= killed_at)
            .count(),
        lost,
        violations: checker.violations,
    }
}

struct Checker<'a> {
    sandbox: &'a Sandbox,
    trial: &'a Trial,
    violations: Vec<Violation>,
}

impl Checker<'_> {
    /// The questions whose answers are in the journals. Nobody has written to them since the kill.
    fn journaled(&mut self) -> Vec<String> {
        let mut journaled = Vec::new();
        for session in 0..self.trial.sessions {
            let said = self
                .sandbox
                .segno(&["logs", &format!("s{session}"), "--json"]);
            if !matches!(said.status.code(), Some(0 | 17)) {
                let what = format!("logs of s{session}: {said:?}");
                self.violations.push(Violation::Damage(what));
            }
            let events = lines(&said.stdout);
            let finished = |path: &Value| {
                let is_end =
                    |event: &Value| event["kind"] == "step_finished" && event["path"] == *path;
                events.iter().any(is_end)
            };
            let is_finished =
                |event: &&Value| event["kind"] == "step_started" && finished(&event["path"]);
            let questions = events.iter().filter(is_finished);
            journaled
                .extend(questions.filter_map(|event| Some(event["input"].as_str()?.to_owned())));
        }
        journaled
    }

    /// Resumes every session, or starts it where the kill came before it existed, and compares its
    /// output.
    fn resume(&mut self) {
        let all: Vec<usize> = (0..self.trial.sessions).collect();
        for part in all.chunks(AT_ONCE) {
            let started = part.iter().map(|session| {
                let name = format!("s{session}");
                let exists = run_to_end(self.sandbox.command(&["show", &name]))
                    .status
                    .success();
                let spec = format!("{name}.yaml");
                let words = if exists {
                    ["resume", &name, "--json"]
                } else {
                    ["run", &spec, "--json"]
                };
                (*session, self.sandbox.start(&words))
            });
            let started: Vec<_> = started.collect();
            for (session, child) in started {
                let said = wait_for_output(child);
                let result = lines(&said.stdout)
                    .into_iter()
                    .find(|line| line["kind"] == "result");
                match result {
                    Some(result) if result["output"] == last_answer(session) => {}
                    Some(result) => {
                        let what = format!("s{session} ended with {}", result["output"]);
                        self.violations.push(Violation::Damage(what));
                    }
                    // It was over before the kill.
                    None if said.status.code() == Some(17) => {}
                    None => {
                        let what = format!("s{session}: {said:?}");
                        self.violations.push(Violation::Stuck(what));
                    }
                }
            }
        }
        let said = self.sandbox.segno(&["doctor"]);
        if !said.status.success() {
            let what = format!("doctor: {}", said.stdout);
            self.violations.push(Violation::Damage(what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trial_notation_round_trips() {
        let words = "one-home/200/7";
        assert_eq!(words.parse::<Trial>().unwrap().to_string(), words);
        "one-home/200".parse::<Trial>().unwrap_err();
    }
}
