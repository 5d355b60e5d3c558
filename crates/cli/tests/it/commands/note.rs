//! `segno note`.

use super::{Live, keys, shown, start_waiting, waiting_chain};
use crate::sandbox;
use rustix::process::Signal;
use segno_testkit::sandbox::{Sandbox, wait_until};
use serde_json::{Value, json};

/// The notes of a session, as `note list` prints them.
fn list_notes(sandbox: &Sandbox, more: &[&str]) -> Vec<Value> {
    let words = [&["note", "list", "--json"], more].concat();
    sandbox.segno(&words).expect_success().json()
}

/// Runs a session to its end.
fn completed_session(sandbox: &Sandbox) {
    sandbox.scripted_chain(1, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
}

#[test]
fn note_is_stored_with_its_session_and_has_an_id() {
    let sandbox = sandbox();
    completed_session(&sandbox);
    let output = sandbox.segno(&[
        "note",
        "decision",
        "Use SQLite",
        "--type",
        "library",
        "--why",
        "one file",
        "--alternative",
        "PostgreSQL",
        "-a",
        "files",
    ]);
    assert_eq!(
        output.expect_success().stdout.trim(),
        "noted in chain as d1"
    );
    let error = [
        "note",
        "error",
        "cannot link",
        "-t",
        "build",
        "--session",
        "chain",
        "--json",
    ];
    let line = sandbox.segno(&error).expect_success().json().remove(0);
    assert_eq!(keys(&line), "kind name notes session v waits_for_run");
    assert_eq!(line["notes"], json!(["e1"]));
    let feedback = [
        "note",
        "feedback",
        "security",
        "-c",
        "escape it",
        "-c",
        "and that",
    ];
    sandbox.segno(&feedback).expect_success();
    sandbox
        .segno(&["note", "todo", "write the docs"])
        .expect_success();
    let tests = [
        "note",
        "tests",
        "cargo test",
        "-p",
        "red",
        "-f",
        "a::b",
        "-e",
        "a::c",
    ];
    sandbox.segno(&tests).expect_success();
    let notes = list_notes(&sandbox, &[]);
    let ids: Vec<&Value> = notes.iter().map(|note| &note["id"]).collect();
    assert_eq!(json!(ids), json!(["d1", "e1", "f1", "t1", null]));
    assert_eq!(
        notes[0]["note"]["decision"],
        json!({"matter": "library", "text": "Use SQLite", "why": "one file", "alternatives": ["PostgreSQL", "files"]})
    );
    assert_eq!(notes[0]["source"], "person");
    assert_eq!(notes[4]["note"]["tests"]["expected"], json!(["a::c"]));
    let table = sandbox.segno(&["note", "list"]).expect_success().stdout;
    assert!(table.starts_with("NOTE  FROM"), "{table}");
    assert!(table.contains("error (unresolved): cannot link"), "{table}");
    for (note, lines) in [
        (
            "d1",
            "note       d1 of chain\ndecision   Use SQLite\ntype       library\nwhy        one file\nrejected   PostgreSQL\nrejected   files\nfrom       ",
        ),
        (
            "e1",
            "note       e1 of chain\nerror      cannot link\ntype       build\nresolution unresolved\nfrom       ",
        ),
        (
            "f1",
            "note       f1 of chain\nfeedback   security objects\nseverity   minor\ncomment    escape it\ncomment    and that\naddressed  no\nfrom       ",
        ),
        (
            "t1",
            "note       t1 of chain\ntodo       write the docs\nprogress   pending\nfrom       ",
        ),
    ] {
        let whole = sandbox
            .segno(&["note", "show", note])
            .expect_success()
            .stdout;
        assert!(whole.starts_with(lines), "{whole}");
        let shown = sandbox
            .segno(&["note", "show", note, "--json"])
            .expect_success();
        assert!(notes.contains(&shown.json()[0]), "{note}");
    }
    sandbox
        .segno(&["note", "show", "d7", "--session", "chain"])
        .refused(2, &["[R0150]", "d7", "current notes: d1"]);
    // The status of the session does not change, and its journal stays whole.
    assert_eq!(shown(&sandbox, "chain")["status"], "completed");
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn corrected_note_keeps_its_first_version_in_the_journal() {
    let sandbox = sandbox();
    completed_session(&sandbox);
    sandbox
        .segno(&["note", "decision", "Use SQLite"])
        .expect_success();
    sandbox
        .segno(&["note", "decision", "Use Rust"])
        .expect_success();
    sandbox
        .segno(&["note", "error", "cannot link"])
        .expect_success();
    let words = [
        "note",
        "correct",
        "d1",
        "--text",
        "Use PostgreSQL",
        "--why",
        "many writers",
    ];
    assert_eq!(
        sandbox.segno(&words).expect_success().stdout.trim(),
        "noted in chain as d1"
    );
    sandbox
        .segno(&["note", "correct", "e1", "--resolution", "fixed"])
        .expect_success();
    sandbox
        .segno(&["note", "withdraw", "d2", "--reason", "no choice"])
        .expect_success();
    let notes = list_notes(&sandbox, &["--type", "decision"]);
    assert_eq!(notes.len(), 1);
    assert_eq!(notes[0]["note"]["decision"]["text"], "Use PostgreSQL");
    assert_eq!(notes[0]["corrected"], true);
    let whole = sandbox
        .segno(&["note", "show", "d2"])
        .expect_success()
        .stdout;
    assert!(whole.contains("\nwithdrawn  "), "{whole}");
    assert!(whole.contains("no choice"), "{whole}");
    let all = list_notes(&sandbox, &["--all"]);
    assert!(
        all[1]["withdrawn"]
            .as_str()
            .unwrap()
            .ends_with(": no choice")
    );
    assert_eq!(all[2]["note"]["error"]["resolution"], "fixed");
    let journal = sandbox.segno(&["logs", "chain"]).expect_success().stdout;
    assert!(journal.contains("decision: Use SQLite"), "{journal}");
    // A number is not used again.
    let third = sandbox
        .segno(&["note", "decision", "Use make"])
        .expect_success();
    assert_eq!(third.stdout.trim(), "noted in chain as d3");
}

#[test]
fn note_for_a_running_session_reaches_its_journal() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let output = sandbox
        .segno(&["note", "decision", "Use SQLite"])
        .expect_success();
    assert_eq!(
        output.stdout.trim(),
        "sent to the run of chain, which records it"
    );
    // The note counts from the time it was taken.
    assert_eq!(list_notes(&sandbox, &[])[0]["id"], "d1");
    wait_until("the run takes it", || live.stderr().contains("Use SQLite"));
    sandbox.write("go", "");
    live.finish().expect_success();
    let journal = sandbox
        .segno(&["logs", "chain", "--json"])
        .expect_success()
        .json();
    let written = journal
        .iter()
        .filter(|line| line["kind"] == "memos_written");
    assert_eq!(written.count(), 1);
    assert_eq!(list_notes(&sandbox, &[]).len(), 1);
}

#[test]
fn note_that_waited_for_a_killed_run_is_recorded_once() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    // A stopped run cannot record anything; then it is killed.
    live.signal(Signal::STOP);
    sandbox
        .segno(&["note", "todo", "look at it"])
        .expect_success();
    live.kill();
    assert_eq!(list_notes(&sandbox, &[])[0]["id"], "t1");
    // Between runs, the waiting note is recorded first.
    let second = sandbox
        .segno(&["note", "todo", "and that"])
        .expect_success();
    assert_eq!(second.stdout.trim(), "noted in chain as t2");
    sandbox.write("go", "");
    sandbox.segno(&["resume", "chain"]).expect_success();
    let texts: Vec<Value> = list_notes(&sandbox, &[])
        .into_iter()
        .map(|note| note["note"]["todo"]["text"].clone())
        .collect();
    assert_eq!(texts, ["look at it", "and that"]);
}

#[test]
fn concurrent_notes_are_all_stored() {
    let sandbox = sandbox();
    completed_session(&sandbox);
    let all: Vec<Live> = (0..8)
        .map(|n| Live::start(&sandbox, &["note", "todo", &format!("thing {n}")]))
        .collect();
    for one in all {
        one.finish().expect_success();
    }
    sandbox.segno(&["note", "todo", "last"]).expect_success();
    let notes = list_notes(&sandbox, &[]);
    assert_eq!(notes.len(), 9);
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn fork_keeps_the_notes_and_their_ids() {
    let sandbox = sandbox();
    completed_session(&sandbox);
    sandbox
        .segno(&["note", "decision", "Use SQLite"])
        .expect_success();
    sandbox
        .segno(&["note", "decision", "Use Rust"])
        .expect_success();
    sandbox.segno(&["note", "withdraw", "d1"]).expect_success();
    sandbox
        .segno(&["fork", "chain", "--name", "copy"])
        .expect_success();
    let notes = list_notes(&sandbox, &["copy"]);
    assert_eq!(notes.len(), 1);
    assert_eq!(
        (&notes[0]["id"], &notes[0]["note"]["decision"]["text"]),
        (&json!("d2"), &json!("Use Rust"))
    );
}

#[test]
fn failed_step_is_an_error_note_until_it_succeeds() {
    let sandbox = sandbox();
    sandbox.command_chain(
        1,
        "test -e there || { echo nothing there >&2; exit 1; }\necho ok",
    );
    let output = sandbox.segno(&["run", "chain.yaml"]);
    assert_eq!(output.code(), 10, "{}", output.stderr);
    let errors = list_notes(&sandbox, &[]);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0]["id"], Value::Null);
    let error = &errors[0]["note"]["error"];
    assert_eq!(error["resolution"], "unresolved");
    assert_eq!(error["subject"], "step steps/0");
    sandbox.write("there", "");
    sandbox.segno(&["resume", "chain"]).expect_success();
    let errors = list_notes(&sandbox, &[]);
    assert_eq!(errors[0]["note"]["error"]["resolution"], "fixed");
}

#[test]
fn invalid_notes_are_refused_and_not_stored() {
    let sandbox = sandbox();
    let nowhere = sandbox.segno(&["note", "todo", "x"]);
    nowhere.refused(2, &["no session works in", "hint:"]);
    completed_session(&sandbox);
    sandbox
        .segno(&["note", "decision", "Use SQLite"])
        .expect_success();
    let before = sandbox
        .segno(&["logs", "chain", "--json"])
        .expect_success()
        .stdout;
    for (words, code, message) in [
        (&["note", "todo", "  "][..], 2, "[R0152]"),
        (&["note", "withdraw", "d9"], 2, "current notes: d1"),
        (&["note", "withdraw", "e1"], 2, "[R0150]"),
        (&["note", "withdraw", "x1"], 2, "a note id is a letter"),
        (&["note", "correct", "d1"], 2, "required"),
        (&["note", "correct", "d9", "--why", "x"], 2, "[R0150]"),
        (
            &["note", "correct", "d1", "--progress", "done"],
            2,
            "which has no `--progress`",
        ),
        (
            &["note", "decision", "x", "--type", "mood"],
            2,
            "clarification",
        ),
        (&["note", "todo", "x", "--session", "other"], 17, "other"),
        (&["note", "todo", "x", "--step", "a//b"], 2, "a//b"),
    ] {
        sandbox.segno(words).refused(code, &[message]);
    }
    let after = sandbox
        .segno(&["logs", "chain", "--json"])
        .expect_success()
        .stdout;
    assert_eq!(before, after);
}

#[test]
fn long_note_is_truncated_and_secrets_are_redacted() {
    let sandbox = sandbox();
    completed_session(&sandbox);
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let long = format!("{} {secret}", "x".repeat(1990));
    sandbox
        .segno(&["note", "decision", &long, "--why", secret])
        .expect_success();
    let notes = list_notes(&sandbox, &[]);
    let decision = &notes[0]["note"]["decision"];
    assert!(decision["text"].as_str().unwrap().chars().count() <= 2001);
    for text in [
        decision.to_string(),
        sandbox
            .segno(&["logs", "chain", "--json"])
            .expect_success()
            .stdout,
    ] {
        assert!(!text.contains("ghp_01"), "{text}");
    }
}

#[test]
#[cfg(feature = "failpoints")]
fn killed_note_is_stored_once_or_not_at_all() {
    use segno_core::fault::Point;
    let (mut kills, mut stored) = (0, 0);
    for point in Point::ALL {
        let sandbox = sandbox();
        completed_session(&sandbox);
        let mut command = sandbox.command(&["note", "todo", "look at it"]);
        command.env("SEGNO_FAILPOINT", point.name());
        if !segno_testkit::sandbox::run_to_end(command).crashed() {
            continue;
        }
        let notes = list_notes(&sandbox, &[]).len();
        assert!(notes <= 1, "{}", point.name());
        kills += 1;
        stored += notes;
        sandbox
            .segno(&["note", "todo", "and that"])
            .expect_success();
        assert_eq!(
            list_notes(&sandbox, &[]).len(),
            notes + 1,
            "{}",
            point.name()
        );
        sandbox.segno(&["doctor"]).expect_success();
    }
    assert!(kills > 3 && stored > 0, "{kills} {stored}");
}
