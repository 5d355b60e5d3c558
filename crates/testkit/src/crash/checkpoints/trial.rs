//! Executes one trial: runs and disturbs the command, checks, repeats it, and checks again.

use std::path::Path;

use super::checker::{Checker, describe};
use super::fixture::Fixture;
use super::operation::{Operation, Trial};
use super::{changing, concurrent, full};
use crate::crash::kill::Fault;
use crate::crash::tally::{Counted, run_jobs};
use crate::crash::trace;
use crate::crash::trial::{FAILPOINTS, Hit, SYSTEM_CALLS, Violation};
use crate::sandbox::{ProcessOutput, run_to_end};
use crate::tree_state::TreeState;

/// The result of a trial.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The trial that was executed, to repeat it.
    pub trial: Trial,
    /// What the fault hit.
    pub hit: Hit,
    /// The violations found; empty if all guarantees hold.
    pub violations: Vec<Violation>,
}

impl Counted for Outcome {
    const COLUMNS: &'static [&'static str] = &[
        FAILPOINTS,
        SYSTEM_CALLS,
        "full disks",
        "changing files",
        "concurrent commands",
    ];

    fn group(&self) -> String {
        "checkpoints".to_owned()
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
        let column = match &self.trial {
            Trial::Killed { fault, .. } => match fault {
                Fault::Point { .. } => FAILPOINTS,
                Fault::Syscall { .. } => SYSTEM_CALLS,
            },
            Trial::Full { .. } => "full disks",
            Trial::Changing { .. } => "changing files",
            Trial::Concurrent { .. } => "concurrent commands",
        };
        add(column, 1);
    }

    fn point(&self) -> Option<&'static str> {
        match (self.hit, &self.trial) {
            (
                Hit::Segno,
                Trial::Killed {
                    fault: Fault::Point { name, .. },
                    ..
                },
            ) => Some(name),
            _ => None,
        }
    }
}

/// Executes every trial, `workers` at a time, and passes each outcome to `report`.
pub fn attempt_all(
    binary: &Path,
    trials: &[Trial],
    workers: usize,
    report: impl Fn(&Outcome) + Sync,
) -> Vec<Outcome> {
    // Sorted by command: a fixture is built once for all trials of its command.
    let mut trials: Vec<&Trial> = trials.iter().collect();
    trials.sort_by_key(|trial| trial.operation());
    let attempt = |fixture: &mut Option<Fixture>, trial: &&Trial| {
        let made = fixture
            .take()
            .filter(|made| made.operation == trial.operation());
        let made = made.unwrap_or_else(|| Fixture::new(binary, trial.operation()));
        attempt(fixture.insert(made), trial)
    };
    run_jobs(&trials, workers, || None, attempt, report)
}

/// Disturbs a command in a fixture that was built for it; earlier, if that comes too late.
pub fn attempt(fixture: &Fixture, trial: &Trial) -> Outcome {
    let outcome = attempt_once(fixture, trial);
    match trial.earlier() {
        Some(earlier) if outcome.is_miss() => attempt(fixture, &earlier),
        _ => outcome,
    }
}

fn attempt_once(fixture: &Fixture, trial: &Trial) -> Outcome {
    fixture.reset();
    let (hit, mut wrongs) = match trial {
        Trial::Killed { fault, .. } => kill(fixture, fault),
        Trial::Full { kib, .. } => full::attempt(fixture, *kib),
        Trial::Changing { seed } => (Hit::Segno, changing::attempt(fixture, *seed)),
        Trial::Concurrent { seed } => (Hit::Segno, concurrent::attempt(fixture, *seed)),
    };
    wrongs.dedup();
    Outcome {
        trial: trial.clone(),
        hit,
        violations: wrongs,
    }
}

fn kill(fixture: &Fixture, fault: &Fault) -> (Hit, Vec<Violation>) {
    let sandbox = &fixture.sandbox;
    let said = run_to_end(trace::command_with_fault(sandbox, fault, &fixture.args()));
    let hit = if said.crashed() {
        Hit::Segno
    } else if trace::has_killed(sandbox) {
        Hit::Below
    } else {
        Hit::Missed
    };
    let mut checker = Checker::new(fixture);
    if hit != Hit::Segno && !said.status.success() {
        checker.stuck(format!(
            "segno was not killed, but failed: {}",
            describe(&said)
        ));
    }
    check_and_repeat(&mut checker, &said);
    (hit, checker.wrongs)
}

/// Checks what a disturbed command has left behind, repeats it, and checks again.
pub(super) fn check_and_repeat(checker: &mut Checker<'_>, said: &ProcessOutput) {
    let fixture = checker.fixture;
    checker.check(&expected_checkpoint(fixture, true));
    checker.check_target();
    check_acknowledged(checker, said);
    let new_checkpoint = expected_checkpoint(fixture, false);
    let before = checker.seen.clone();
    let said = fixture.sandbox.segno(&fixture.args());
    if !said.status.success() {
        checker.stuck(format!(
            "the command cannot be repeated: {}",
            describe(&said)
        ));
        return;
    }
    checker.check(&new_checkpoint);
    check_acknowledged(checker, &said);
    let created = checker.seen.listed.difference(&before.listed).count();
    if matches!(fixture.operation, Operation::First | Operation::Create) && created != 1 {
        checker.stuck(format!("{created} checkpoints were taken instead of one"));
    }
    check_result(checker);
    checker.check_undone_prune(&new_checkpoint);
}

/// The expected content of a checkpoint that the command creates: the workspace, or what a restore
/// replaces.
fn expected_checkpoint(fixture: &Fixture, is_first: bool) -> TreeState {
    match fixture.target_states() {
        None => fixture.folders["work"].clone(),
        Some((_, old, _)) if is_first => old,
        Some((folder, ..)) => TreeState::of(&folder),
    }
}

/// P14: a checkpoint that was reported is listed.
fn check_acknowledged(checker: &mut Checker<'_>, said: &ProcessOutput) {
    for line in said.stdout.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        if let Some(id) = line["checkpoint"].as_str()
            && !checker.seen.listed.contains(id)
        {
            checker.loss(format!("{id} was acknowledged but is not listed"));
        }
    }
}

/// Checks whether the command has reached its expected result.
fn check_result(checker: &mut Checker<'_>) {
    let fixture = checker.fixture;
    if let Some((folder, _, new)) = fixture.target_states()
        && let Some(differences) = TreeState::of(&folder).differences(new)
    {
        checker.damage(format!("the final tree differs: {differences}"));
    }
    let created: Vec<&String> = fixture.created.iter().collect();
    let (listed, pruned): (&[&String], &[&String]) = match fixture.operation {
        Operation::Prune => (&created[2..], &created[..2]),
        Operation::Undo => (&created, &[]),
        Operation::Gc => (&created[4..], &created[3..4]),
        _ => return,
    };
    let seen = &checker.seen;
    if !seen.listed.iter().eq(listed.iter().copied())
        || !seen.pruned.iter().eq(pruned.iter().copied())
    {
        let what = format!("the final list is {seen:?}");
        checker.stuck(what);
    }
    if fixture.operation == Operation::Gc {
        check_swept(checker);
    }
}

/// After two more sweeps nothing unreferenced is left, and everything referenced is.
fn check_swept(checker: &mut Checker<'_>) {
    let fixture = checker.fixture;
    for _ in 0..2 {
        let said = fixture.sandbox.segno(&fixture.args());
        if !said.status.success() {
            checker.stuck(format!("gc failed: {}", describe(&said)));
        }
    }
    let heads = std::fs::read_dir(fixture.snapshot_store().join("heads")).unwrap();
    let (heads, needed) = (heads.count(), checker.seen.all().len());
    if heads != needed {
        checker.stuck(format!(
            "{heads} snapshots are stored, but {needed} are needed"
        ));
    }
}
