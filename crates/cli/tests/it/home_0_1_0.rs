//! A home that version 0.1.0 wrote opens with this version: its sessions are moved out of their one
//! database. Journal events, markers, checkpoints and snapshots keep their bytes; nothing is lost.
//!
//! `fixtures/home-0.1.0.tar.zst` holds the home and the workspace `/srv/demo` of six sessions:
//! completed (`decision`, `mail`), waiting for a human (`release-notes`), killed in its second step
//! and given notes, a resume context and a checkpoint (`report`), a fork of that, and a chat.

#![expect(
    clippy::disallowed_methods,
    reason = "the test unpacks files as a user would"
)]

use std::fs;
use std::process::Command;

use segno_testkit::sandbox::Sandbox;

use crate::sandbox;

const FIXTURE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/home-0.1.0.tar.zst"
);

fn unpacked() -> Sandbox {
    let sandbox = sandbox();
    let root = sandbox.work().parent().unwrap().to_owned();
    let mut tar = Command::new("tar");
    tar.args(["--zstd", "-xf", FIXTURE, "-C"]).arg(&root);
    assert!(tar.status().expect("`make tools` installs tar").success());
    fs::remove_dir(sandbox.work()).unwrap();
    fs::rename(root.join("demo"), sandbox.work()).unwrap();
    fs::rename(root.join("segno-home"), sandbox.home()).unwrap();
    sandbox
}

#[test]
fn pattern_comes_from_the_stored_spec() {
    let sandbox = unpacked();
    for (name, pattern) in [("mail", Some("routing")), ("report", Some("chain"))] {
        let shown = sandbox.segno(&["show", name, "--json"]).expect_success();
        assert_eq!(shown.json()[0]["pattern"].as_str(), pattern, "{name}");
    }
}

#[test]
fn every_session_verifies_and_keeps_its_status() {
    let sandbox = unpacked();
    let first = sandbox.segno(&["doctor"]).expect_success();
    assert!(
        first.stderr.contains("note: moving the sessions of "),
        "{first:?}"
    );
    let second = sandbox.segno(&["doctor"]).expect_success();
    assert_eq!(second.stderr, "");
    let listed = sandbox
        .segno(&["sessions", "list", "--all", "--json"])
        .expect_success()
        .json();
    let mut statuses: Vec<(&str, &str)> = listed
        .iter()
        .map(|one| {
            (
                one["name"].as_str().unwrap(),
                one["status"].as_str().unwrap(),
            )
        })
        .collect();
    statuses.sort_unstable();
    let expected = [
        ("chat", "paused"),
        ("decision", "completed"),
        ("mail", "completed"),
        ("release-notes", "waiting"),
        ("report", "interrupted"),
        ("report-fork", "paused"),
    ];
    assert_eq!(statuses, expected);
}

#[test]
fn a_killed_session_resumes_without_repeating_a_step() {
    let sandbox = unpacked();
    sandbox.write(
        "slow.answers.yaml",
        "ledger: calls.log\nanswers:\n  - {step: steps/1, text: two}\n  - {step: steps/2, text: three}\n",
    );
    let work = sandbox.work();
    sandbox
        .segno(&["sessions", "move", "report", work.to_str().unwrap()])
        .expect_success();
    let resumed = sandbox.segno(&["resume", "report"]).expect_success();
    assert_eq!(resumed.stdout, "three\n");
    assert_eq!(sandbox.calls(), ["steps/1", "steps/2"]);
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn notes_and_the_resume_context_are_read() {
    let sandbox = unpacked();
    let notes = sandbox
        .segno(&["note", "list", "report"])
        .expect_success()
        .stdout;
    for expected in [
        "decision: Use SQLite",
        "error (fixed): the linker fails on musl",
        "security",
    ] {
        assert!(notes.contains(expected), "{expected:?} is not in:\n{notes}");
    }
    let context = sandbox
        .segno(&["context", "report"])
        .expect_success()
        .stdout;
    assert!(context.contains("Tell it like this."), "{context}");
}

#[test]
fn a_checkpoint_restores() {
    let sandbox = unpacked();
    sandbox.segno(&["checkpoint", "verify"]).expect_success();
    let listed = sandbox
        .segno(&["checkpoint", "list", "report", "--json"])
        .expect_success()
        .json();
    let id = listed[0]["checkpoint"].as_str().unwrap().to_owned();
    let target = sandbox.work().join("restored");
    sandbox
        .segno(&[
            "checkpoint",
            "restore",
            &id,
            "--into",
            target.to_str().unwrap(),
        ])
        .expect_success();
    assert_eq!(sandbox.read("restored/files/a.txt"), "one\n");
}
