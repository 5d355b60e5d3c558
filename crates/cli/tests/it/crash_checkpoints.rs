//! Faults F1, F2, F5, F23 and F29 in what is done with checkpoints: the real binary is killed, finds
//! its disk full, finds files that change, and runs beside others of its kind (P4, P5, P8). This is a
//! part of what `crash --segno PATH --part checkpoints` does in full; `SEGNO_CRASH_SEED` draws another.

#![cfg(feature = "failpoints")]
#![expect(
    clippy::print_stdout,
    reason = "a test that fails shows its seed and its trials"
)]

use std::path::Path;

use segno_testkit::clock::Seeded;
use segno_testkit::crash::deeds::{
    Deed, Ground, Tally, Trial, at_points, at_syscalls, attempt_all, explain, on_full_disks,
};
use segno_testkit::crash::{require_strace, sample};
use segno_testkit::damage::kept::{Judge, Kept};
use segno_testkit::sandbox::wait;

use crate::crash::seed;
use crate::{sandbox, segno};

/// How many kills at system calls a test draws of a deed.
const SAMPLE: usize = 3;
/// And at failpoints: each of those is killed at once by a test beside this one.
const POINTS: usize = 1;

/// Goes through these, and panics with every broken promise.
#[track_caller]
pub(crate) fn survive(trials: &[Trial]) -> Tally {
    let (tally, wrong) = disturb(segno(), trials);
    assert!(tally.is_good(), "{tally}\n{wrong}");
    tally
}

fn disturb(segno: &Path, trials: &[Trial]) -> (Tally, String) {
    let outcomes = attempt_all(segno, trials, 1, |outcome| {
        println!("{} {:?}", outcome.trial, outcome.hit);
    });
    let tally: Tally = outcomes.iter().collect();
    println!("{tally}");
    let wrong = outcomes.iter().filter(|outcome| !outcome.wrongs.is_empty());
    let wrong: Vec<String> = wrong.map(explain).collect();
    (tally, wrong.join("\n"))
}

/// Some of the places where these deeds can be killed.
#[track_caller]
fn survive_kills(deeds: &[Deed]) {
    require_strace();
    let mut trials = Vec::new();
    for deed in deeds {
        let ground = Ground::new(segno(), *deed);
        trials.extend(sample(at_points(&ground), POINTS, seed()));
        let (calls, _) = at_syscalls(&ground);
        trials.extend(sample(calls, SAMPLE, seed()));
    }
    let tally = survive(&trials);
    // Some calls depend on which thread was waiting when, and do not come every time.
    let killed = usize::try_from(tally.hits).unwrap();
    assert!(killed * 4 >= trials.len() * 3, "too many misses: {tally}");
}

#[test]
fn a_checkpoint_that_is_killed_is_listed_whole_or_not_at_all() {
    survive_kills(&[Deed::First, Deed::Create]);
}

#[test]
fn a_kill_while_the_seal_is_made_does_not_stop_later_checkpoints() {
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
fn first_checkpoints_at_once_are_sealed_with_one_key() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).good();
    let create = || sandbox.start(&["checkpoint", "create"]);
    let children: Vec<_> = std::iter::repeat_with(create).take(8).collect();
    for child in children {
        wait(child).good();
    }
    let said = sandbox.segno(&["checkpoint", "verify"]).good();
    assert!(said.stdout.starts_with("8 checkpoints"), "{}", said.stdout);
    let mut names: Vec<_> = std::fs::read_dir(sandbox.home())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("seal"))
        .collect();
    names.sort();
    assert_eq!(names, ["seal.key"]);
}

#[test]
fn a_restore_that_is_killed_leaves_old_or_new_files_and_can_be_repeated() {
    survive_kills(&[Deed::Restore, Deed::Elsewhere, Deed::Afresh]);
}

#[test]
fn checkpoints_that_are_let_go_of_or_had_back_when_it_is_killed_are_one_or_the_other() {
    survive_kills(&[Deed::Prune, Deed::Undo]);
}

#[test]
fn a_sweep_that_is_killed_takes_nothing_that_a_checkpoint_needs() {
    survive_kills(&[Deed::Gc]);
}

#[test]
fn a_disk_that_is_full_for_checkpoints_costs_nothing_that_was_kept() {
    let mut trials = Vec::new();
    for deed in Deed::ALL {
        trials.extend(on_full_disks(*deed).into_iter().take(1));
    }
    // With some room that is not enough for a whole restore.
    trials.push("restore/full:256".parse().unwrap());
    let tally = survive(&trials);
    assert!(tally.of("full disks") >= 8, "{tally}");
}

#[test]
fn files_that_change_while_they_are_kept_are_whole_or_called_unstable() {
    survive(&[Trial::Changing { seed: seed() }]);
}

#[test]
fn two_captures_and_a_sweep_at_once_lose_nothing() {
    survive(&[Trial::Together { seed: seed() }]);
}

#[test]
fn a_damaged_checkpoint_is_named_or_comes_back_as_it_was_and_the_others_do() {
    let kept = Kept::make(segno());
    let (judge, lot) = (Judge::new(&kept), Seeded::new(seed()));
    let mut named = 0;
    for turn in 0..400 {
        let damage = kept.draw(&lot);
        let ruling = judge.judge(&damage);
        assert_eq!(ruling.wrongs, [""; 0], "{damage:?}");
        named += usize::from(!ruling.named.is_empty());
        if turn % 50 == 0 {
            let ruling = judge.judge_binary(&damage);
            assert_eq!(ruling.wrongs, [""; 0], "{damage:?} by the binary");
        }
    }
    assert!(named > 200, "{named} were named");
}

/// Whoever damages, forgets, replaces or leaves things lying about is caught.
#[test]
fn a_segno_that_breaks_a_promise_about_checkpoints_is_noticed() {
    let sandbox = sandbox();
    let segno = segno().display();
    let ends_with = |name: &str, when: &str, harm: &str| {
        let script = format!(
            "#!/bin/sh\n{segno} \"$@\"\ncode=$?\ncase \"$*\" in {when}) [ -z \"$SEGNO_FAILPOINT\" ] || {{ {harm}; }};; esac\n[ $code -lt 128 ] || exit 137\nexit $code\n"
        );
        sandbox.script(name, &script)
    };
    let try_it = |segno: &Path, trial: &str| disturb(segno, &[trial.parse().unwrap()]);
    let harmless = ends_with("harmless", "*", "true");
    let (tally, wrong) = try_it(&harmless, "create/pack.after_rename:1");
    assert!(tally.is_good() && tally.of("failpoints") == 1, "{wrong}");
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
            "gc*",
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
        let broken = ends_with(name, when, harm);
        let (tally, _) = try_it(&broken, trial);
        assert!(
            !tally.is_good() && tally.of("failpoints") == 1,
            "{name}: {tally}"
        );
    }
}
