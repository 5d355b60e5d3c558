//! Flipped bits, truncated files and old copies: Segno detects them, refuses them by name, or they
//! have no effect (P2, P9).
//!
//! `cargo run --release -p segno-testkit --bin flips` does the same to every bit.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use segno_testkit::clock::Seeded;
use segno_testkit::damage::{AfterKill, Damage, Depth, Specimen, StoreCopy, Verdict};
use segno_testkit::sandbox::{Sandbox, wait_until};

use crate::sandbox;

/// Every run draws the same damage; a failure names its damage.
const SEED: u64 = 20_261_115;

static LOG: LazyLock<Specimen> = LazyLock::new(|| make(AfterKill::Log));
static DATABASE: LazyLock<Specimen> = LazyLock::new(|| make(AfterKill::Database));

#[expect(
    clippy::disallowed_methods,
    reason = "a fault is put into the file as it is"
)]
fn flip(sandbox: &Sandbox, session: &str, sound: &[u8], at: usize) {
    let mut bytes = sound.to_vec();
    bytes[at] ^= 1;
    std::fs::write(database(sandbox, session), bytes).unwrap();
}

/// The database of a session.
fn database(sandbox: &Sandbox, session: &str) -> PathBuf {
    let link = format!("names/{session}.session/journal.db");
    sandbox.home().join(link)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a fault is put into the file as it is"
)]
fn read_database(sandbox: &Sandbox, session: &str) -> Vec<u8> {
    std::fs::read(database(sandbox, session)).unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a fault is put into the folder as it is"
)]
fn remove_folder(link: &Path) {
    let folder = std::fs::canonicalize(link).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}

fn make(leaves: AfterKill) -> Specimen {
    Specimen::make(Path::new(env!("CARGO_BIN_EXE_segno")), leaves)
}

#[track_caller]
fn assert_no_answer_changed(damage: &Damage, verdict: &Verdict) {
    assert!(
        verdict.changed.is_empty(),
        "{damage:?}: {:#?}",
        verdict.changed
    );
}

fn in_process(specimen: &Specimen, damages: impl IntoIterator<Item = Damage>) {
    let copy = StoreCopy::new();
    assert_none_changed(damages, |damage| {
        specimen.judge(&copy, damage, Depth::Whole)
    });
}

fn by_binary(specimen: &Specimen, damages: impl IntoIterator<Item = Damage>) {
    let copy = StoreCopy::new();
    assert_none_changed(damages, |damage| specimen.judge_binary(&copy, damage));
}

/// Judges every damage before it reports any, because one bug in the program shows in many places.
#[track_caller]
fn assert_none_changed(
    damages: impl IntoIterator<Item = Damage>,
    judge: impl Fn(&Damage) -> Verdict,
) {
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

fn draw_damages(specimen: &Specimen, count: usize) -> Vec<Damage> {
    let random = Seeded::new(SEED);
    (0..count)
        .map(|_| specimen.random_damage(&random))
        .collect()
}

/// Truncations of each file: to every sector boundary and one byte more, to nothing, and by one
/// byte.
fn truncations(specimen: &Specimen, step: usize) -> Vec<Damage> {
    let mut truncations = Vec::new();
    for file in specimen.targets() {
        let whole = specimen.files[&file].len();
        let step = step.max(whole / 64);
        let lengths = (0..whole).step_by(step).flat_map(|at| [at, at + 1]);
        let lengths = lengths.chain([whole - 1]).filter(|length| *length < whole);
        truncations.extend(lengths.map(|length| Damage::Truncate {
            file: file.clone(),
            length,
        }));
    }
    truncations
}

fn replacements(specimen: &Specimen) -> Vec<Damage> {
    let kinds: [fn(PathBuf) -> Damage; 4] =
        [Damage::Gone, Damage::Folder, Damage::Link, Damage::DeadLink];
    let each = |file: PathBuf| kinds.map(|kind| kind(file.clone()));
    specimen.targets().into_iter().flat_map(each).collect()
}

#[test]
fn flipped_bit_with_a_wal_never_changes_an_answer() {
    in_process(&LOG, draw_damages(&LOG, 1000));
}

#[test]
fn flipped_bit_without_a_wal_never_changes_an_answer() {
    in_process(&DATABASE, draw_damages(&DATABASE, 1000));
}

#[test]
fn binary_never_changes_an_answer_after_a_flipped_bit() {
    by_binary(&LOG, draw_damages(&LOG, 60));
    by_binary(&DATABASE, draw_damages(&DATABASE, 60));
}

#[test]
fn truncated_file_with_a_wal_never_shortens_an_answer() {
    in_process(&LOG, truncations(&LOG, 512));
}

#[test]
fn truncated_file_without_a_wal_never_shortens_an_answer() {
    in_process(&DATABASE, truncations(&DATABASE, 512));
}

#[test]
fn binary_never_shortens_an_answer_after_a_truncation() {
    by_binary(&LOG, truncations(&LOG, 16 * 1024));
    by_binary(&DATABASE, truncations(&DATABASE, 16 * 1024));
}

#[test]
fn replaced_file_with_a_wal_never_changes_an_answer() {
    in_process(&LOG, replacements(&LOG));
}

#[test]
fn replaced_file_without_a_wal_never_changes_an_answer() {
    in_process(&DATABASE, replacements(&DATABASE));
}

#[test]
fn binary_never_accepts_a_replaced_file() {
    by_binary(&LOG, replacements(&LOG));
    by_binary(&DATABASE, replacements(&DATABASE));
}

#[test]
fn database_older_than_its_ack_markers_is_refused_by_name() {
    for specimen in [&*LOG, &*DATABASE] {
        let copy = StoreCopy::new();
        let damage = Damage::OlderDatabase(specimen.database());
        let verdict = specimen.judge_binary(&copy, &damage);
        assert_no_answer_changed(&damage, &verdict);
        assert!(verdict.found && !verdict.nothing_usable, "{verdict:?}");
        let refusal = &verdict.refused["resume"];
        assert!(refusal.contains("is an older copy"), "{refusal}");
    }
}

#[test]
fn database_without_its_wal_is_refused_by_name() {
    let damage = Damage::Gone(LOG.log());
    let verdict = LOG.judge_binary(&StoreCopy::new(), &damage);
    assert_no_answer_changed(&damage, &verdict);
    assert!(verdict.found && !verdict.nothing_usable, "{verdict:?}");
    let refusal = &verdict.refused["resume"];
    assert!(refusal.contains(&LOG.interrupted.to_string()), "{refusal}");
}

/// A killed session whose row does not match its checksum any more, next to a completed one.
fn one_damaged_row() -> Sandbox {
    let sandbox = sandbox();
    sandbox.scripted_chain(2, 0);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "whole", "--out", "apart"])
        .expect_success();
    sandbox.command_chain(
        3,
        "while [ \"$SEGNO_STEP\" = steps/2 ] && [ ! -e go ]; do sleep 0.01; done",
    );
    let before = sandbox.calls().len();
    let mut child = sandbox.start(&["run", "chain.yaml", "--name", "wounded"]);
    wait_until("its last step is in flight", || {
        sandbox.calls().len() == before + 3
    });
    child.kill().unwrap();
    child.wait().unwrap();
    sandbox.write("go", "");
    sandbox.segno(&["sessions", "list"]).expect_success();
    let sound = read_database(&sandbox, "wounded");
    // The lease of the killed session names its owner. Unused bytes may hold earlier states of the
    // row, so this searches for the position where a flip makes a difference.
    let word = b"\"started\":";
    let positions = (0..sound.len()).filter(|at| sound[*at..].starts_with(word));
    let flip_is_reported = |at: &usize| {
        flip(&sandbox, "wounded", &sound, at + 1);
        let listed = sandbox.segno(&["sessions", "list"]).expect_success();
        listed.stdout.contains("damaged: ")
    };
    assert!(
        positions.into_iter().any(|at| flip_is_reported(&at)),
        "no place wounds"
    );
    sandbox
}

#[test]
fn damaged_session_is_reported_as_damaged_not_unknown() {
    let sandbox = one_damaged_row();
    let listed = sandbox.segno(&["sessions", "list"]).expect_success();
    assert!(listed.stdout.contains("damaged: "), "{}", listed.stdout);
    assert!(listed.stdout.contains("whole"), "{}", listed.stdout);
    for words in [
        ["show", "wounded"].as_slice(),
        &["logs", "wounded"],
        &["resume", "wounded"],
    ] {
        sandbox.segno(words).refused(17, &["damaged", "[J0104]"]);
    }
}

#[test]
fn damaged_session_can_be_trashed_and_deleted() {
    let sandbox = one_damaged_row();
    let listed = sandbox.segno(&["sessions", "list"]).expect_success().stdout;
    let damaged = listed.lines().find(|line| line.starts_with("damaged: "));
    let is_id = |word: &&str| word.len() == 26;
    let id = damaged.unwrap().split(' ').find(is_id).unwrap().to_owned();
    let output = sandbox.segno(&["sessions", "delete", &id]).expect_success();
    assert!(output.stdout.contains("is damaged"), "{}", output.stdout);
    let listed = sandbox.segno(&["sessions", "list"]).expect_success().stdout;
    assert!(
        listed.contains("whole") && !listed.contains("damaged"),
        "{listed}"
    );
    let trash = sandbox
        .segno(&["sessions", "trash"])
        .expect_success()
        .stdout;
    assert!(trash.contains(&id) && trash.contains("damaged"), "{trash}");
    // The blobs that it references are unknown while it can still be restored.
    let output = sandbox.segno(&["sessions", "cleanup"]).expect_success();
    assert!(
        output.stderr.contains("no blobs were deleted"),
        "{}",
        output.stderr
    );
    sandbox
        .segno(&["sessions", "restore", &id])
        .expect_success();
    let listed = sandbox.segno(&["sessions", "list"]).expect_success().stdout;
    assert!(listed.contains(&format!("session {id}")), "{listed}");
    sandbox
        .segno(&["sessions", "delete", &id, "--permanent", "--yes"])
        .expect_success();
    let output = sandbox.segno(&["doctor"]).expect_success();
    assert!(
        output.stdout.starts_with("verified 1 session"),
        "{}",
        output.stdout
    );
    sandbox.segno(&["resume"]).refused(17, &["[S0106]"]);
}

#[test]
fn session_lost_from_the_database_can_be_trashed_and_deleted() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "kept"])
        .expect_success();
    sandbox
        .segno(&["run", "chain.yaml", "--name", "lost", "--out", "apart"])
        .expect_success();
    let folder = database(&sandbox, "lost");
    remove_folder(folder.parent().unwrap());
    let listed = sandbox.segno(&["sessions", "list"]).expect_success().stdout;
    let damaged = listed.lines().find(|line| line.starts_with("damaged: "));
    let is_id = |word: &&str| word.trim_end_matches(':').len() == 26;
    let id = damaged.unwrap().split(' ').find(is_id).unwrap();
    let id = id.trim_end_matches(':').to_owned();
    sandbox.segno(&["sessions", "delete", &id]).expect_success();
    let listed = sandbox.segno(&["sessions", "list"]).expect_success().stdout;
    assert!(
        listed.contains("kept") && !listed.contains("damaged"),
        "{listed}"
    );
    sandbox
        .segno(&["sessions", "trash", "--empty", "--yes"])
        .expect_success();
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn resume_of_the_newest_is_refused_beside_a_damaged_session() {
    let sandbox = one_damaged_row();
    sandbox.segno(&["resume"]).refused(17, &["damaged"]);
}

#[test]
fn auto_resume_starts_nothing_beside_a_damaged_session() {
    let sandbox = one_damaged_row();
    let before = sandbox.calls().len();
    sandbox
        .segno(&["run", "chain.yaml", "--auto-resume"])
        .refused(17, &["damaged"]);
    assert_eq!(sandbox.calls().len(), before);
}

#[test]
fn damaged_journal_does_not_hide_others_from_status() {
    let sandbox = sandbox();
    sandbox.scripted_chain(2, 0);
    sandbox.write("answers.yaml", "default: {fail: {kind: auth}}\n");
    let failed = sandbox.segno(&["run", "chain.yaml", "--name", "first"]);
    assert_eq!(failed.code(), 10, "{failed:?}");
    let before = sandbox.calls().len();
    let wait = "while [ \"$SEGNO_STEP\" = steps/1 ]; do sleep 0.01; done";
    sandbox.command_chain(2, wait);
    let mut child = sandbox.start(&["run", "chain.yaml", "--name", "second"]);
    wait_until("its last step is in flight", || {
        sandbox.calls().len() == before + 2
    });
    child.kill().unwrap();
    child.wait().unwrap();
    sandbox.segno(&["sessions", "list"]).expect_success();
    let sound = read_database(&sandbox, "second");
    let answer = b"answer of steps/0";
    let at = sound
        .windows(answer.len())
        .rposition(|window| window == answer)
        .unwrap();
    flip(&sandbox, "second", &sound, at);
    let output = sandbox.segno(&["status"]);
    assert!(output.stdout.contains("first"), "{output:?}");
    assert!(output.stdout.contains("damaged"), "{output:?}");
}
