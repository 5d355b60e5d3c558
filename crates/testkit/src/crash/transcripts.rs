//! Transcripts of CLI agents under the same faults: while segno repairs a transcript, restores one,
//! or writes one for another agent, it is killed at every failpoint on the way.
//!
//! Afterwards the transcript is unchanged or complete; nothing runs; `doctor` finds no damage; and
//! the command, repeated, completes the task: no turn is paid for twice, and the workspace is what
//! an undisturbed run leaves. A repair keeps the original transcript beside the repaired one.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, fs};

use segno_core::fault::Point;

use super::agents::StepFixture;
use super::tally::{Counted, run_jobs};
use super::trial::{FAILPOINTS, Hit, Violation};
use crate::model::{files, standard, standard_files};
use crate::programs::Agent;
use crate::sandbox::run_to_end;

/// What is done with a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Its last line is torn, and segno repairs it.
    Repair,
    /// It is missing, and segno restores it from a checkpoint.
    Restore,
    /// Segno writes it for the other agent.
    Compose,
}

impl Operation {
    pub const ALL: [Self; 3] = [Self::Repair, Self::Restore, Self::Compose];

    /// The failpoints that it visits.
    const fn points(self) -> &'static [Point] {
        match self {
            Self::Repair => &[
                Point::TranscriptAfterDraft,
                Point::TranscriptBeforeSync,
                Point::TranscriptAfterBackup,
                Point::TranscriptBeforeRename,
                Point::TranscriptAfterRename,
            ],
            Self::Restore | Self::Compose => &[
                Point::TranscriptAfterDraft,
                Point::TranscriptBeforeSync,
                Point::TranscriptBeforeRename,
                Point::TranscriptAfterRename,
            ],
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Repair => "repair",
            Self::Restore => "restore",
            Self::Compose => "compose",
        }
    }
}

/// One kill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The agent that was killed first.
    pub agent: Agent,
    pub operation: Operation,
    pub point: Point,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (agent, operation) = (self.agent.cli_name(), self.operation.word());
        write!(f, "transcript/{agent}/{operation}/{}", self.point.name())
    }
}

impl FromStr for Trial {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown =
            || format!("`{text}` is not transcript/claude|codex/repair|restore|compose/FAILPOINT");
        let words: Vec<&str> = text.split('/').collect();
        let ["transcript", agent, operation, point] = words[..] else {
            return Err(unknown());
        };
        let agent = Agent::ALL
            .into_iter()
            .find(|known| known.cli_name() == agent);
        let operation = Operation::ALL
            .into_iter()
            .find(|known| known.word() == operation);
        let point = Point::ALL.iter().find(|known| known.name() == point);
        Ok(Self {
            agent: agent.ok_or_else(unknown)?,
            operation: operation.ok_or_else(unknown)?,
            point: point.copied().ok_or_else(unknown)?,
        })
    }
}

/// The result of a trial.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The trial that was executed, to repeat it.
    pub trial: Trial,
    hit: Hit,
    replaced: bool,
    wrongs: Vec<Violation>,
}

impl Counted for Outcome {
    const COLUMNS: &'static [&'static str] = &[FAILPOINTS, "unchanged", "replaced before the kill"];

    fn group(&self) -> String {
        format!("transcripts: {}", self.trial.operation.word())
    }

    fn notation(&self) -> String {
        self.trial.to_string()
    }

    fn hit(&self) -> Hit {
        self.hit
    }

    fn violations(&self) -> &[Violation] {
        &self.wrongs
    }

    fn count(&self, add: &mut dyn FnMut(&'static str, u64)) {
        add(FAILPOINTS, 1);
        let column = if self.replaced {
            "replaced before the kill"
        } else {
            "unchanged"
        };
        add(column, 1);
    }

    fn point(&self) -> Option<&'static str> {
        (self.hit == Hit::Segno).then(|| self.trial.point.name())
    }
}

/// Every failpoint of every transcript operation.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for agent in Agent::ALL {
        for operation in Operation::ALL {
            let trial = |point: &Point| Trial {
                agent,
                operation,
                point: *point,
            };
            trials.extend(operation.points().iter().map(trial));
        }
    }
    trials
}

/// Executes every kill, `workers` at a time, and passes each outcome to `report`.
pub fn attempt_all(
    segno: &Path,
    trials: &[Trial],
    workers: usize,
    report: impl Fn(&Outcome) + Sync,
) -> Vec<Outcome> {
    let attempt = |(): &mut (), trial: &Trial| attempt(segno, trial);
    run_jobs(trials, workers, || (), attempt, report)
}

/// An agent that was killed while it ran, and its transcript, which segno is about to handle.
struct Fixture {
    scene: StepFixture,
    operation: Operation,
    /// The content of the transcript; `None` if it is missing.
    before: Option<Vec<u8>>,
    /// The path of the transcript.
    path: PathBuf,
}

impl Fixture {
    fn new(segno: &Path, agent: Agent, operation: Operation) -> Self {
        let scene = StepFixture::new(segno, agent, standard());
        let mut run = scene.start_task();
        let reached = scene.wait_until(&mut run, |_| {
            scene
                .agent_sandbox
                .started_commands()
                .contains(&"slow".to_owned())
                && scene.is_persisted("task", "sleep 1")
        });
        assert!(reached, "the agent does not reach its slow command");
        drop(run);
        scene.wait_until_idle();
        let (id, _) = scene.conversations("task").pop().unwrap();
        let path = agent.transcript_path(&scene.agent_sandbox, &id).unwrap();
        let whole = fs::read(&path).unwrap();
        let before = match operation {
            Operation::Repair => {
                let torn = whole[..whole.len() - 20].to_vec();
                fs::write(&path, &torn).unwrap();
                Some(torn)
            }
            Operation::Restore => {
                scene
                    .segno(&["checkpoint", "create", "task"])
                    .expect_success();
                fs::remove_file(&path).unwrap();
                None
            }
            Operation::Compose => Some(whole),
        };
        Self {
            scene,
            operation,
            before,
            path,
        }
    }

    fn args(&self) -> Vec<&'static str> {
        match (self.operation, self.scene.agent) {
            (Operation::Compose, Agent::Claude) => vec!["resume", "task", "--agent", "codex"],
            (Operation::Compose, Agent::Codex) => vec!["resume", "task", "--agent", "claude"],
            _ => vec!["resume", "task"],
        }
    }

    /// The current content of the agent's transcript.
    fn transcript(&self) -> Option<Vec<u8>> {
        fs::read(&self.path).ok()
    }
}

/// Kills segno while it handles a transcript, checks the state, and resumes.
pub fn attempt(segno: &Path, trial: &Trial) -> Outcome {
    let fixture = Fixture::new(segno, trial.agent, trial.operation);
    let scene = &fixture.scene;
    let mut command = scene.command(&fixture.args());
    command.env("SEGNO_FAILPOINT", trial.point.name());
    let said = run_to_end(command);
    let hit = if said.crashed() {
        Hit::Segno
    } else {
        Hit::Missed
    };
    let mut outcome = Outcome {
        trial: trial.clone(),
        hit,
        replaced: false,
        wrongs: Vec::new(),
    };
    if hit == Hit::Missed {
        outcome
            .wrongs
            .push(Violation::Stuck(format!("segno was not killed: {said:?}")));
        return outcome;
    }
    scene.wait_until_idle();
    check_transcript(&fixture, &mut outcome);
    repeat_and_check(&fixture, &mut outcome);
    outcome
}

/// Checks that the transcript is unchanged or complete.
fn check_transcript(fixture: &Fixture, outcome: &mut Outcome) {
    let now = fixture.transcript();
    outcome.replaced = now != fixture.before;
    if outcome.replaced && !now.as_deref().is_some_and(is_whole) {
        let what = format!(
            "the transcript is neither unchanged nor complete: {}",
            fixture.path.display()
        );
        outcome.wrongs.push(Violation::Damage(what));
    }
    if outcome.replaced
        && fixture.operation == Operation::Repair
        && read_original(fixture) != fixture.before
    {
        let what = "the original transcript has no backup".to_owned();
        outcome.wrongs.push(Violation::Loss(what));
    }
    let doctor = fixture.scene.segno(&["doctor"]);
    if !doctor.status.success() {
        let what = format!("doctor: {}{}", doctor.stdout, doctor.stderr);
        outcome.wrongs.push(Violation::Damage(what));
    }
}

/// Checks that the same command, repeated, completes the task and pays for nothing twice.
fn repeat_and_check(fixture: &Fixture, outcome: &mut Outcome) {
    let scene = &fixture.scene;
    let said = scene.segno(&fixture.args());
    if !said.status.success() || scene.status() != "completed" {
        let what = format!("the command cannot be repeated: {said:?}");
        outcome.wrongs.push(Violation::Stuck(what));
    }
    let left = files(&scene.agent_sandbox.work());
    if left != standard_files() {
        let what = format!("the workspace is {left:?}");
        outcome.wrongs.push(Violation::Damage(what));
    }
    let paid = scene.server.paid_turns("standard");
    if !paid.iter().copied().eq(0..standard().turns()) {
        let what = format!("the requested turns are {paid:?}");
        outcome.wrongs.push(Violation::Repeat(what));
    }
    for pid in scene.orphans() {
        outcome.wrongs.push(Violation::Orphan(pid));
    }
    let drafts = files_below(scene.agent_sandbox.root(), &|path| {
        path.extension().is_some_and(|end| end == "segno-draft")
    });
    if let Some(draft) = drafts.first() {
        let what = format!("{} is left", draft.display());
        outcome.wrongs.push(Violation::Damage(what));
    }
}

/// Whether every line is JSON and has its line end.
fn is_whole(record: &[u8]) -> bool {
    let is_json = |line: &[u8]| serde_json::from_slice::<serde_json::Value>(line).is_ok();
    record
        .strip_suffix(b"\n")
        .is_some_and(|record| record.split(|byte| *byte == b'\n').all(is_json))
}

/// The original of a repaired transcript.
fn read_original(fixture: &Fixture) -> Option<Vec<u8>> {
    fs::read(fixture.path.with_extension("jsonl.before-repair-1")).ok()
}

/// The files below a folder that `wanted` accepts.
fn files_below(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files_below(&path, wanted));
        } else if wanted(&path) {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kill_notation_round_trips() {
        for trial in trials() {
            assert_eq!(trial.to_string().parse::<Trial>().unwrap(), trial);
        }
        "transcript/claude/repair/run.nowhere"
            .parse::<Trial>()
            .unwrap_err();
    }
}
