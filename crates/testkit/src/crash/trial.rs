//! Executes one kill: runs, dies, checks, resumes, checks again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::kill::{Fault, Kill, Workload};
use super::model::{self, Model, WorkloadSandbox};
use super::tally::{Counted, run_jobs};
use super::trace;
use crate::sandbox::{ProcessOutput, run_to_end};

/// Column names: what runs and commands are killed at.
pub(super) const FAILPOINTS: &str = "failpoints";
pub(super) const SYSTEM_CALLS: &str = "system calls";

/// A guarantee that was violated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// P1, P2, P6: something acknowledged is missing or altered, or a call is not in the journal.
    /// P4, P5, P8: a checkpoint is gone or cannot be restored, or replaced files were not stored.
    Loss(String),
    /// P7: a finished step was executed again.
    Repeat(String),
    /// P9: `doctor` finds damage, the journal has a gap, or the result differs. P5: a file is
    /// neither old nor new.
    Damage(String),
    /// P6: a process was left running.
    Orphan(u32),
    /// P11: it cannot be continued.
    Stuck(String),
}

/// What the faults hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hit {
    /// Every one of them killed segno.
    Segno,
    /// The last one killed a process below segno.
    Below,
    /// The home was not even created: nothing had run.
    TooEarly,
    /// The last one did not trigger: there was no such visit or call.
    Missed,
}

/// The result of a trial.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The kill, to repeat it.
    pub kill: Kill,
    pub hit: Hit,
    /// How often the run that resumed visited each failpoint.
    pub visits: BTreeMap<String, u64>,
    /// The violations found; empty if all guarantees hold.
    pub wrongs: Vec<Violation>,
}

impl Counted for Outcome {
    const COLUMNS: &'static [&'static str] = &[FAILPOINTS, SYSTEM_CALLS];

    fn group(&self) -> String {
        "runs".to_owned()
    }

    fn notation(&self) -> String {
        self.kill.to_string()
    }

    fn hit(&self) -> Hit {
        self.hit
    }

    fn violations(&self) -> &[Violation] {
        &self.wrongs
    }

    fn count(&self, add: &mut dyn FnMut(&'static str, u64)) {
        let is_call = self.kill.has_syscall();
        add(if is_call { SYSTEM_CALLS } else { FAILPOINTS }, 1);
    }

    fn point(&self) -> Option<&'static str> {
        match (self.hit, self.kill.faults.last()) {
            (Hit::Segno, Some(Fault::Point { name, .. })) => Some(name),
            _ => None,
        }
    }
}

/// Executes every kill, `workers` at a time, and passes each outcome to `report`.
pub fn attempt_all(
    binary: &Path,
    kills: &[Kill],
    workers: usize,
    report: impl Fn(&Outcome) + Sync,
) -> Vec<Outcome> {
    let is_used = |workload: &&Workload| kills.iter().any(|kill| kill.workload == **workload);
    let used = Workload::ALL.iter().filter(is_used);
    let models: BTreeMap<Workload, Model> = used
        .map(|workload| (*workload, Model::of(binary, *workload)))
        .collect();
    let attempt = |(): &mut (), kill: &Kill| attempt(binary, kill, &models[&kill.workload]);
    run_jobs(kills, workers, || (), attempt, report)
}

/// Kills a run as `kill` says, or earlier if that comes too late, resumes it, and compares with
/// `model`.
pub fn attempt(binary: &Path, kill: &Kill, model: &Model) -> Outcome {
    let outcome = attempt_once(binary, kill, model);
    match kill.earlier() {
        Some(earlier) if outcome.is_miss() => attempt(binary, &earlier, model),
        _ => outcome,
    }
}

fn attempt_once(binary: &Path, kill: &Kill, model: &Model) -> Outcome {
    let sandbox = kill.workload.sandbox(binary, kill.home);
    let mut checker = Checker {
        sandbox: &sandbox,
        acknowledged: BTreeMap::new(),
        journal: Vec::new(),
        finished: BTreeMap::new(),
        output: None,
        wrongs: Vec::new(),
    };
    let mut hit = Hit::Segno;
    for fault in &kill.faults {
        let said = run_to_end(trace::command_with_fault(
            &sandbox,
            fault,
            checker.next_command(),
        ));
        hit = if said.crashed() {
            Hit::Segno
        } else if trace::has_killed(&sandbox) {
            Hit::Below
        } else {
            Hit::Missed
        };
        if !sandbox.home().exists() {
            hit = Hit::TooEarly;
        }
        checker.check(&said);
        if hit == Hit::Missed && !said.status.success() {
            let what = format!("segno was not killed, but failed: {}", describe(&said));
            checker.wrongs.push(Violation::Stuck(what));
        }
        if hit != Hit::Segno {
            break;
        }
    }
    let visits = checker.resume();
    checker.compare(model);
    let mut outcome = Outcome {
        kill: kill.clone(),
        hit,
        visits,
        wrongs: checker.wrongs,
    };
    outcome.wrongs.dedup();
    outcome
}

/// What was found so far.
struct Checker<'a> {
    sandbox: &'a WorkloadSandbox,
    /// Events that were printed, hence durable (P14), by sequence number.
    acknowledged: BTreeMap<u64, Value>,
    /// The journal as it was last read.
    journal: Vec<Value>,
    /// Finished steps, with the number of their calls when that was first seen.
    finished: BTreeMap<String, usize>,
    /// The result, if a command got to print it.
    output: Option<String>,
    wrongs: Vec<Violation>,
}

impl Checker<'_> {
    /// The command with which a user would continue from here.
    fn next_command(&self) -> &'static [&'static str] {
        if self.journal.is_empty() {
            trace::RUN
        } else {
            trace::RESUME
        }
    }

    fn is_completed(&self) -> bool {
        let last = self.journal.last();
        last.is_some_and(|entry| entry["kind"] == "run_ended" && entry["status"] == "completed")
    }

    /// Continues without a fault, to the end. Returns how often each failpoint was visited.
    fn resume(&mut self) -> BTreeMap<String, u64> {
        if self.is_completed() {
            return BTreeMap::new();
        }
        let mut command = self.sandbox.command(self.next_command());
        command.env("SEGNO_FAILPOINT_LOG", trace::visits_file(self.sandbox));
        let said = run_to_end(command);
        self.check(&said);
        if !said.status.success() || !self.is_completed() {
            let what = format!("cannot be resumed: {}", describe(&said));
            self.wrongs.push(Violation::Stuck(what));
        }
        trace::visits(self.sandbox)
    }

    /// Checks everything after a command with this output.
    fn check(&mut self, said: &ProcessOutput) {
        for line in lines(&said.stdout) {
            if let Some(seq) = line["seq"].as_u64() {
                self.acknowledged.insert(seq, line);
            } else if let Some(output) = model::output(&line) {
                self.output = Some(output.to_owned());
            }
        }
        self.check_doctor();
        self.check_journal();
        let calls = self.calls();
        for (path, before) in &self.finished {
            let now = calls.get(path).copied().unwrap_or_default();
            if now != *before {
                let what = format!("{path} was finished after {before} calls and now has {now}");
                self.wrongs.push(Violation::Repeat(what));
            }
        }
        let known = self.acknowledged.values().chain(&self.journal);
        let finished: BTreeSet<&str> = known.filter_map(model::finished).collect();
        for path in finished {
            let now = calls.get(path).copied().unwrap_or_default();
            self.finished.entry(path.to_owned()).or_insert(now);
        }
    }

    /// P9: `doctor` finds nothing but leftovers.
    fn check_doctor(&mut self) {
        let said = self.sandbox.segno(&["doctor"]);
        if !said.status.success() {
            self.wrongs
                .push(Violation::Damage(format!("doctor: {}", describe(&said))));
        }
    }

    /// P1, P2: the journal has everything that was acknowledged, unchanged and without a gap, and
    /// only ever grows.
    fn check_journal(&mut self) {
        let said = self.sandbox.segno(&["logs", "--json"]);
        let journal = match said.status.code() {
            Some(0) => lines(&said.stdout),
            Some(17) => Vec::new(),
            _ => {
                self.wrongs
                    .push(Violation::Damage(format!("logs: {}", describe(&said))));
                return;
            }
        };
        for (index, entry) in journal.iter().enumerate() {
            if entry["seq"].as_u64() != Some(index as u64 + 1) {
                let what = format!("the journal has a gap at {}: {entry}", index + 1);
                self.wrongs.push(Violation::Damage(what));
            }
        }
        for (seq, entry) in &self.acknowledged {
            let index = usize::try_from(*seq).unwrap_or_default().wrapping_sub(1);
            if journal.get(index) != Some(entry) {
                let found = journal.get(index);
                let what = format!("{entry} was acknowledged; the journal has {found:?}");
                self.wrongs.push(Violation::Loss(what));
            }
        }
        if !journal.starts_with(&self.journal) {
            let what = format!("the journal was {:?} and is {journal:?}", self.journal);
            self.wrongs.push(Violation::Loss(what));
        }
        self.journal = journal;
    }

    fn calls(&self) -> BTreeMap<String, usize> {
        let mut calls = BTreeMap::new();
        for path in self.sandbox.called_steps(&self.journal) {
            *calls.entry(path).or_default() += 1;
        }
        calls
    }

    /// Compares the end with the result of an undisturbed run.
    fn compare(&mut self, model: &Model) {
        let answers = model::answers(&self.journal);
        if answers != model.answers {
            let what = format!("the answers are {answers:?} instead of {:?}", model.answers);
            self.wrongs.push(Violation::Damage(what));
        }
        let finished = self.journal.iter().filter_map(model::finished).count();
        if finished != answers.len() {
            let what = format!("{finished} steps were finished, of {}", answers.len());
            self.wrongs.push(Violation::Repeat(what));
        }
        if self
            .output
            .as_ref()
            .is_some_and(|output| *output != model.output)
        {
            let what = format!("the result is {:?}", self.output);
            self.wrongs.push(Violation::Damage(what));
        }
        let artifacts = model::artifacts(self.sandbox);
        if artifacts != model.artifacts {
            let names: Vec<_> = artifacts
                .iter()
                .map(|(name, file)| (name, file.len()))
                .collect();
            self.wrongs
                .push(Violation::Damage(format!("the artifacts are {names:?}")));
        }
        self.compare_calls();
    }

    /// P6: no effect without its intent, and one effect for each.
    fn compare_calls(&mut self) {
        if self.sandbox.has_server() {
            for (path, calls) in self.calls() {
                let is_intent =
                    |entry: &&Value| entry["kind"] == "step_started" && entry["path"] == *path;
                let intents = self.journal.iter().filter(is_intent).count();
                if calls > intents {
                    let what = format!(
                        "{path} was asked {calls} times, but the journal has {intents} intents"
                    );
                    self.wrongs.push(Violation::Loss(what));
                }
            }
            return;
        }
        let ledger = self.sandbox.read("calls.log");
        let mut seen = BTreeSet::new();
        for call in ledger.lines() {
            let [run, attempt, path, ..] = call.split(' ').collect::<Vec<_>>()[..] else {
                let what = format!("the ledger has an invalid line {call:?}");
                self.wrongs.push(Violation::Damage(what));
                continue;
            };
            let is_intent = |entry: &Value| {
                entry["kind"] == "step_started"
                    && entry["run"].as_u64() == run.parse().ok()
                    && entry["attempt"].as_u64() == attempt.parse().ok()
                    && entry["path"] == path
            };
            if !self.journal.iter().any(is_intent) {
                let what = format!("call `{call}` was made, but is not in the journal");
                self.wrongs.push(Violation::Loss(what));
            }
            if !seen.insert((run, attempt, path)) {
                let what = format!("call `{call}` was made twice for one intent");
                self.wrongs.push(Violation::Repeat(what));
            }
        }
    }
}

/// Parses lines of JSON. A line without its end was never printed; a line that cannot be parsed
/// becomes `null`, so that a journal with such a line has a gap.
pub(super) fn lines(stdout: &str) -> Vec<Value> {
    let whole = stdout
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    whole
        .map(|line| serde_json::from_str(line).unwrap_or_default())
        .collect()
}

pub(super) fn describe(said: &ProcessOutput) -> String {
    let stdout: String = said.stdout.chars().take(2000).collect();
    format!("{}\n{}{}", said.status, stdout, said.stderr)
}
