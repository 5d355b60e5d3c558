//! Faults F1, F2, F5, F23 and F29 in checkpoint operations: the real binary is killed, meets a full
//! disk, meets files that change, and runs concurrently with other Segno processes (P4, P5, P8).
//! This is a sample of what `crash --segno PATH --part checkpoints` does in full;
//! `SEGNO_CRASH_SEED` draws another sample.

#![cfg(feature = "failpoints")]
#![expect(
    clippy::print_stdout,
    reason = "a test that fails shows its seed and its trials"
)]

use std::path::Path;

use segno_testkit::clock::Seeded;
use segno_testkit::crash::checkpoints::{
    Fixture, Operation, Tally, Trial, at_points, at_syscalls, attempt_all, explain, on_full_disks,
};
use segno_testkit::crash::{require_strace, sample};
use segno_testkit::damage::checkpoints::{CheckpointSpecimen, Judge};
use segno_testkit::sandbox::wait_for_output;

use crate::crash::seed;
use crate::{sandbox, segno};

/// How many kills at system calls a test draws for each operation.
const SAMPLE: usize = 3;
/// How many kills at failpoints it draws: `crash::every_failpoint_kills_and_nothing_is_lost`
/// already kills once at each failpoint.
const POINTS: usize = 1;

/// Executes these trials and panics with every broken guarantee.
#[track_caller]
pub(crate) fn survive(trials: &[Trial]) -> Tally {
    let (tally, wrong) = run_trials(segno(), trials);
    assert!(tally.is_good(), "{tally}\n{wrong}");
    tally
}

fn run_trials(segno: &Path, trials: &[Trial]) -> (Tally, String) {
    let outcomes = attempt_all(segno, trials, 1, |outcome| {
        println!("{} {:?}", outcome.trial, outcome.hit);
    });
    let tally: Tally = outcomes.iter().collect();
    println!("{tally}");
    let wrong = outcomes
        .iter()
        .filter(|outcome| !outcome.violations.is_empty());
    let wrong: Vec<String> = wrong.map(explain).collect();
    (tally, wrong.join("\n"))
}

/// Kills these operations at a sample of the points where they can be killed.
#[track_caller]
fn survive_kills(operations: &[Operation]) {
    require_strace();
    let mut trials = Vec::new();
    for operation in operations {
        let fixture = Fixture::new(segno(), *operation);
        trials.extend(sample(at_points(&fixture), POINTS, seed()));
        let (calls, _) = at_syscalls(&fixture);
        trials.extend(sample(calls, SAMPLE, seed()));
    }
    let tally = survive(&trials);
    // Some system calls depend on which thread waits at the time and do not occur in every run.
    let killed = usize::try_from(tally.hits).unwrap();
    assert!(killed * 4 >= trials.len() * 3, "too many misses: {tally}");
}

#[test]
fn killed_checkpoint_is_listed_whole_or_not_at_all() {
    survive_kills(&[Operation::First, Operation::Create]);
}

#[test]
fn kill_while_creating_the_seal_key_blocks_no_checkpoint() {
    require_strace();
    let trials = [
        "first/main.write:1",
        "first/seal.before_publish:1",
        "first/seal.after_publish:1",
    ];
    let tally = survive(&trials.map(|words| words.parse().unwrap()));
    assert_eq!(tally.missed, 0, "{tally}");
}

#[test]
fn concurrent_first_checkpoints_share_one_seal_key() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let create = || sandbox.start(&["checkpoint", "create"]);
    let children: Vec<_> = std::iter::repeat_with(create).take(8).collect();
    for child in children {
        wait_for_output(child).expect_success();
    }
    let output = sandbox.segno(&["checkpoint", "verify"]).expect_success();
    assert!(
        output.stdout.starts_with("8 checkpoints"),
        "{}",
        output.stdout
    );
    let mut names: Vec<_> = std::fs::read_dir(sandbox.home())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("seal"))
        .collect();
    names.sort();
    assert_eq!(names, ["seal.key"]);
}

#[test]
fn killed_restore_leaves_old_or_new_files_and_is_repeatable() {
    survive_kills(&[Operation::Restore, Operation::Elsewhere, Operation::Afresh]);
}

#[test]
fn killed_prune_or_undo_leaves_each_checkpoint_in_one_state() {
    survive_kills(&[Operation::Prune, Operation::Undo]);
}

#[test]
fn killed_gc_deletes_nothing_a_checkpoint_needs() {
    survive_kills(&[Operation::Gc]);
}

#[test]
fn full_disk_loses_no_stored_checkpoint() {
    let mut trials = Vec::new();
    for operation in Operation::ALL {
        trials.extend(on_full_disks(*operation).into_iter().take(1));
    }
    // Some free space, but not enough for a whole restore.
    trials.push("restore/full:256".parse().unwrap());
    let tally = survive(&trials);
    // Pruning and its undo need no space.
    assert!(tally.count("full disks") >= 7, "{tally}");
}

#[test]
fn changing_files_are_captured_whole_or_marked_unstable() {
    survive(&[Trial::Changing { seed: seed() }]);
}

#[test]
fn concurrent_captures_and_gc_lose_nothing() {
    survive(&[Trial::Concurrent { seed: seed() }]);
}

#[test]
fn damaged_checkpoint_is_reported_or_restores_unchanged() {
    let kept = CheckpointSpecimen::make(segno());
    let (judge, random) = (Judge::new(&kept), Seeded::new(seed()));
    let mut named = 0;
    for turn in 0..400 {
        let damage = kept.random_damage(&random);
        let ruling = judge.judge(&damage);
        assert_eq!(ruling.violations, [""; 0], "{damage:?}");
        named += usize::from(!ruling.reported.is_empty());
        if turn % 50 == 0 {
            let ruling = judge.judge_binary(&damage);
            assert_eq!(ruling.violations, [""; 0], "{damage:?} by the binary");
        }
    }
    assert!(named > 200, "{named} were named");
}

/// A Segno that damages, loses or replaces data, or leaves data behind, is caught.
#[test]
fn harness_detects_broken_checkpoint_guarantees() {
    let sandbox = sandbox();
    let segno = segno().display();
    let harmful_wrapper = |name: &str, when: &str, harm: &str| {
        let script = format!(
            "#!/bin/sh\n{segno} \"$@\"\ncode=$?\ncase \"$*\" in {when}) [ -z \"$SEGNO_FAILPOINT\" ] || {{ {harm}; }};; esac\n[ $code -lt 128 ] || exit 137\nexit $code\n"
        );
        sandbox.write_script(name, &script)
    };
    let try_it = |segno: &Path, trial: &str| run_trials(segno, &[trial.parse().unwrap()]);
    let harmless = harmful_wrapper("harmless", "*", "true");
    let (tally, wrong) = try_it(&harmless, "create/pack.after_rename:1");
    assert!(tally.is_good() && tally.count("failpoints") == 1, "{wrong}");
    let restore = "checkpoint\\ restore*--exact";
    for (name, when, harm, trial) in [
        (
            "damages",
            "*create*",
            "for pack in \"$SEGNO_HOME\"/snapshots/packs/*; do : > \"$pack\"; done",
            "create/pack.after_rename:1",
        ),
        (
            "forgets",
            "*create*",
            "rm -r \"$SEGNO_HOME\"/checkpoints/*",
            "create/checkpoint.after_rename:1",
        ),
        (
            "sweeps too much",
            "doctor\\ --gc*",
            "rm \"$SEGNO_HOME\"/snapshots/heads/*",
            "gc/sweep.after_trash:1",
        ),
        (
            "cuts a file",
            restore,
            ": > notes/0",
            "restore/restore.after_move:5",
        ),
        (
            "changes a mode",
            restore,
            "chmod 777 notes/5",
            "restore/restore.after_move:5",
        ),
        (
            "writes outside",
            restore,
            "echo more >> ../outside/file",
            "restore/restore.after_stage:1",
        ),
        (
            "keeps no rescue",
            restore,
            "rm \"$(ls -d \"$SEGNO_HOME\"/checkpoints/*/*.json | tail -n 1)\"",
            "restore/restore.before_finish:1",
        ),
    ] {
        let broken = harmful_wrapper(name, when, harm);
        let (tally, _) = try_it(&broken, trial);
        assert!(
            !tally.is_good() && tally.count("failpoints") == 1,
            "{name}: {tally}"
        );
    }
}
