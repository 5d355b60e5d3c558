//! Flipped bits, cut files and old copies: found, refused by name, or without effect (P2, P9).
//!
//! `cargo run --release -p segno-testkit --bin flips` does the same to every bit there is.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use segno_testkit::clock::Seeded;
use segno_testkit::damage::{Copy, Damage, Depth, Leaves, Specimen, Verdict};
use segno_testkit::sandbox::{Sandbox, until};

use crate::sandbox;

/// What is drawn is the same every time; a failure names its damage.
const SEED: u64 = 20_261_115;

static LOG: LazyLock<Specimen> = LazyLock::new(|| make(Leaves::Log));
static DATABASE: LazyLock<Specimen> = LazyLock::new(|| make(Leaves::Database));

#[expect(
    clippy::disallowed_methods,
    reason = "a fault is put into the file as it is"
)]
fn flip(sandbox: &Sandbox, sound: &[u8], at: usize) {
    let mut bytes = sound.to_vec();
    bytes[at] ^= 1;
    std::fs::write(sandbox.home().join("segno.db"), bytes).unwrap();
}

#[expect(
    clippy::disallowed_methods,
    reason = "a fault is put into the file as it is"
)]
fn database(sandbox: &Sandbox) -> Vec<u8> {
    std::fs::read(sandbox.home().join("segno.db")).unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a fault is put into the file as it is"
)]
fn put_back(sandbox: &Sandbox, bytes: &[u8]) {
    std::fs::write(sandbox.home().join("segno.db"), bytes).unwrap();
}

fn make(leaves: Leaves) -> Specimen {
    Specimen::make(Path::new(env!("CARGO_BIN_EXE_segno")), leaves)
}

#[track_caller]
fn no_answer_changed(damage: &Damage, verdict: &Verdict) {
    assert!(
        verdict.changed.is_empty(),
        "{damage:?}: {:#?}",
        verdict.changed
    );
}

fn in_process(specimen: &Specimen, damages: impl IntoIterator<Item = Damage>) {
    let copy = Copy::new();
    none_changed(damages, |damage| {
        specimen.judge(&copy, damage, Depth::Whole)
    });
}

fn by_binary(specimen: &Specimen, damages: impl IntoIterator<Item = Damage>) {
    let copy = Copy::new();
    none_changed(damages, |damage| specimen.judge_binary(&copy, damage));
}

/// All are judged before any is told: one fault in the program shows in many places.
#[track_caller]
fn none_changed(damages: impl IntoIterator<Item = Damage>, judge: impl Fn(&Damage) -> Verdict) {
    let mut changed = Vec::new();
    let mut judged = 0;
    for damage in damages {
        judged += 1;
        let verdict = judge(&damage);
        if !verdict.changed.is_empty() {
            changed.push(format!("{damage:?}: {:#?}", verdict.changed));
        }
    }
    assert!(
        changed.is_empty(),
        "{} of {judged}, such as\n{}",
        changed.len(),
        changed[..changed.len().min(8)].join("\n")
    );
}

fn drawn(specimen: &Specimen, count: usize) -> Vec<Damage> {
    let chance = Seeded::new(SEED);
    (0..count).map(|_| specimen.draw(&chance)).collect()
}

/// Where a file may end: at every boundary of a sector and beside it, and at its very ends.
fn cuts(specimen: &Specimen, step: usize) -> Vec<Damage> {
    let mut cuts = Vec::new();
    for file in specimen.targets() {
        let whole = specimen.files[&file].len();
        let step = step.max(whole / 64);
        let lengths = (0..whole).step_by(step).flat_map(|at| [at, at + 1]);
        let lengths = lengths.chain([whole - 1]).filter(|length| *length < whole);
        cuts.extend(lengths.map(|length| Damage::Truncate {
            file: file.clone(),
            length,
        }));
    }
    cuts
}

fn replacements(specimen: &Specimen) -> Vec<Damage> {
    let kinds: [fn(PathBuf) -> Damage; 4] =
        [Damage::Gone, Damage::Folder, Damage::Link, Damage::DeadLink];
    let each = |file: PathBuf| kinds.map(|kind| kind(file.clone()));
    specimen.targets().into_iter().flat_map(each).collect()
}

#[test]
fn a_flipped_bit_beside_a_log_never_changes_an_answer() {
    in_process(&LOG, drawn(&LOG, 1000));
}

#[test]
fn a_flipped_bit_without_a_log_never_changes_an_answer() {
    in_process(&DATABASE, drawn(&DATABASE, 1000));
}

#[test]
fn the_real_binary_never_gives_a_changed_answer_from_a_flipped_bit() {
    by_binary(&LOG, drawn(&LOG, 60));
    by_binary(&DATABASE, drawn(&DATABASE, 60));
}

#[test]
fn a_file_cut_short_beside_a_log_never_shortens_an_answer() {
    in_process(&LOG, cuts(&LOG, 512));
}

#[test]
fn a_file_cut_short_without_a_log_never_shortens_an_answer() {
    in_process(&DATABASE, cuts(&DATABASE, 512));
}

#[test]
fn the_real_binary_never_shortens_an_answer_when_a_file_is_cut() {
    by_binary(&LOG, cuts(&LOG, 16 * 1024));
    by_binary(&DATABASE, cuts(&DATABASE, 16 * 1024));
}

#[test]
fn a_file_gone_or_replaced_beside_a_log_never_changes_an_answer() {
    in_process(&LOG, replacements(&LOG));
}

#[test]
fn a_file_gone_or_replaced_without_a_log_never_changes_an_answer() {
    in_process(&DATABASE, replacements(&DATABASE));
}

#[test]
fn the_real_binary_never_takes_another_thing_for_its_file() {
    by_binary(&LOG, replacements(&LOG));
    by_binary(&DATABASE, replacements(&DATABASE));
}

#[test]
fn an_older_database_beside_newer_notes_is_refused_by_name() {
    for specimen in [&*LOG, &*DATABASE] {
        let copy = Copy::new();
        let verdict = specimen.judge_binary(&copy, &Damage::OlderDatabase);
        no_answer_changed(&Damage::OlderDatabase, &verdict);
        assert!(verdict.found && !verdict.nothing_usable, "{verdict:?}");
        let refusal = &verdict.refused["resume"];
        assert!(refusal.contains("is an older copy"), "{refusal}");
    }
}

#[test]
fn a_database_without_its_log_is_refused_by_name() {
    let damage = Damage::Gone("segno.db-wal".into());
    let verdict = LOG.judge_binary(&Copy::new(), &damage);
    no_answer_changed(&damage, &verdict);
    assert!(verdict.found && !verdict.nothing_usable, "{verdict:?}");
    let refusal = &verdict.refused["resume"];
    assert!(refusal.contains(&LOG.interrupted.to_string()), "{refusal}");
}

/// A killed session whose row no longer matches its check, beside one that was completed.
fn one_damaged_row() -> Sandbox {
    let sandbox = sandbox();
    sandbox.scripted_chain(2, 0);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "whole", "--out", "apart"])
        .good();
    sandbox.command_chain(
        3,
        "while [ \"$SEGNO_STEP\" = steps/2 ] && [ ! -e go ]; do sleep 0.01; done",
    );
    let before = sandbox.calls().len();
    let mut child = sandbox.start(&["run", "chain.yaml", "--name", "wounded"]);
    until("its last step is in flight", || {
        sandbox.calls().len() == before + 3
    });
    child.kill().unwrap();
    child.wait().unwrap();
    sandbox.write("go", "");
    sandbox.segno(&["sessions", "list"]).good();
    let sound = database(&sandbox);
    // The lease of the killed session names its owner. Earlier states of the row may be left in
    // unused bytes, so the place is the one that makes a difference.
    let word = b"\"started\":";
    let places = (0..sound.len()).filter(|at| sound[*at..].starts_with(word));
    let wounds = |at: &usize| {
        flip(&sandbox, &sound, at + 1);
        let listed = sandbox.segno(&["sessions", "list"]).good();
        listed.stdout.contains("damaged: ")
    };
    assert!(places.into_iter().any(|at| wounds(&at)), "no place wounds");
    sandbox
}

#[test]
fn a_damaged_session_asked_for_by_name_is_called_damaged_not_unknown() {
    let sandbox = one_damaged_row();
    let listed = sandbox.segno(&["sessions", "list"]).good();
    assert!(listed.stdout.contains("damaged: "), "{}", listed.stdout);
    assert!(listed.stdout.contains("whole"), "{}", listed.stdout);
    for words in [
        ["sessions", "show", "wounded"].as_slice(),
        &["logs", "wounded"],
        &["resume", "wounded"],
    ] {
        sandbox.segno(words).refused(17, &["damaged", "[J0104]"]);
    }
}

#[test]
fn a_damaged_session_can_be_moved_to_the_trash_and_destroyed() {
    let sandbox = one_damaged_row();
    let listed = sandbox.segno(&["sessions", "list"]).good().stdout;
    let damaged = listed.lines().find(|line| line.starts_with("damaged: "));
    let is_id = |word: &&str| word.len() == 26;
    let id = damaged.unwrap().split(' ').find(is_id).unwrap().to_owned();
    let said = sandbox.segno(&["sessions", "delete", &id]).good();
    assert!(said.stdout.contains("is damaged"), "{}", said.stdout);
    let listed = sandbox.segno(&["sessions", "list"]).good().stdout;
    assert!(
        listed.contains("whole") && !listed.contains("damaged"),
        "{listed}"
    );
    let trash = sandbox.segno(&["sessions", "trash"]).good().stdout;
    assert!(trash.contains(&id) && trash.contains("damaged"), "{trash}");
    // Which blobs it refers to is not known while it can be had back.
    let said = sandbox.segno(&["sessions", "cleanup"]).good();
    assert!(
        said.stderr.contains("no blobs were removed"),
        "{}",
        said.stderr
    );
    sandbox.segno(&["sessions", "restore", &id]).good();
    let listed = sandbox.segno(&["sessions", "list"]).good().stdout;
    assert!(listed.contains(&format!("session {id}")), "{listed}");
    sandbox
        .segno(&["sessions", "delete", &id, "--now", "--yes"])
        .good();
    let said = sandbox.segno(&["doctor"]).good();
    assert!(
        said.stdout.starts_with("verified 1 session"),
        "{}",
        said.stdout
    );
    sandbox.segno(&["resume"]).refused(17, &["[S0106]"]);
}

#[test]
fn a_session_that_the_database_lost_can_be_moved_to_the_trash_and_destroyed() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "kept"])
        .good();
    let before = database(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "lost", "--out", "apart"])
        .good();
    put_back(&sandbox, &before);
    let listed = sandbox.segno(&["sessions", "list"]).good().stdout;
    let damaged = listed.lines().find(|line| line.starts_with("damaged: "));
    let is_id = |word: &&str| word.trim_end_matches(':').len() == 26;
    let id = damaged.unwrap().split(' ').find(is_id).unwrap();
    let id = id.trim_end_matches(':').to_owned();
    sandbox.segno(&["sessions", "delete", &id]).good();
    let listed = sandbox.segno(&["sessions", "list"]).good().stdout;
    assert!(
        listed.contains("kept") && !listed.contains("damaged"),
        "{listed}"
    );
    sandbox
        .segno(&["sessions", "trash", "--empty", "--yes"])
        .good();
    sandbox.segno(&["doctor"]).good();
}

#[test]
fn a_resume_of_the_newest_is_refused_while_a_session_is_damaged() {
    let sandbox = one_damaged_row();
    sandbox.segno(&["resume"]).refused(17, &["damaged"]);
}

#[test]
fn an_automatic_resume_does_not_begin_anew_beside_a_damaged_session() {
    let sandbox = one_damaged_row();
    let before = sandbox.calls().len();
    sandbox
        .segno(&["run", "chain.yaml", "--auto-resume"])
        .refused(17, &["damaged"]);
    assert_eq!(sandbox.calls().len(), before);
}

#[test]
fn a_damaged_journal_does_not_hide_the_others_from_status() {
    let sandbox = sandbox();
    sandbox.scripted_chain(2, 0);
    sandbox.write("answers.yaml", "default: {fail: {kind: auth}}\n");
    let failed = sandbox.segno(&["run", "chain.yaml", "--name", "first"]);
    assert_eq!(failed.code(), 10, "{failed:?}");
    let before = sandbox.calls().len();
    let wait = "while [ \"$SEGNO_STEP\" = steps/1 ]; do sleep 0.01; done";
    sandbox.command_chain(2, wait);
    let mut child = sandbox.start(&["run", "chain.yaml", "--name", "second"]);
    until("its last step is in flight", || {
        sandbox.calls().len() == before + 2
    });
    child.kill().unwrap();
    child.wait().unwrap();
    sandbox.segno(&["sessions", "list"]).good();
    let sound = database(&sandbox);
    let answer = b"answer of steps/0";
    let at = sound
        .windows(answer.len())
        .rposition(|window| window == answer)
        .unwrap();
    flip(&sandbox, &sound, at);
    let said = sandbox.segno(&["status"]);
    assert!(said.stdout.contains("first"), "{said:?}");
    assert!(said.stdout.contains("damaged"), "{said:?}");
}
