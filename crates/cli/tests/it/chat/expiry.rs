//! Idle chats: they expire, and can be reopened.

use segno_testkit::sandbox::wait_until;

use super::{commanded, events, open, say, scripted, shown};
use crate::commands::session_statuses;
use crate::worker::Working;

fn expiring_after(seconds: u64) -> String {
    format!("[chat]\nidle_after_s = 1\nexpires_after_s = {seconds}\n")
}

/// Runs `sessions cleanup` until the chat `talk` has expired.
fn expire(sandbox: &segno_testkit::sandbox::Sandbox) {
    sandbox.configure(&expiring_after(1));
    wait_until("the chat has expired", || {
        sandbox
            .segno(&["sessions", "cleanup", "--json"])
            .expect_success();
        shown(sandbox)["status"] == "expired"
    });
}

#[test]
fn idle_chat_is_archived_and_can_be_reopened() {
    let sandbox = commanded("");
    open(&sandbox, "my name is Ada").expect_success();
    sandbox.segno(&["sessions", "cleanup"]).expect_success();
    assert_eq!(shown(&sandbox)["status"], "paused", "it is young");
    expire(&sandbox);
    let listed = |words: &[&str]| {
        let output = sandbox.segno(&[&["sessions", "list", "--json"], words].concat());
        output.expect_success().json().len()
    };
    assert_eq!(listed(&[]), 0, "it is put away");
    assert_eq!(listed(&["--all"]), 1);
    assert_eq!(listed(&["--status", "expired"]), 1);
    assert_eq!(
        sandbox
            .segno(&["status", "--json"])
            .expect_success()
            .json()
            .len(),
        0
    );
    sandbox.segno(&["resume"]).refused(17, &[]);
    sandbox
        .segno(&["chat", "--continue", "x"])
        .refused(17, &["[R0145]"]);
    sandbox.configure(&expiring_after(3600));
    sandbox.segno(&["resume", "talk"]).expect_success();
    assert_eq!(shown(&sandbox)["status"], "paused");
    expire(&sandbox);
    sandbox.configure(&expiring_after(3600));
    say(&sandbox, "who am I?").expect_success();
    assert!(sandbox.read("asked-1").contains("[user] my name is Ada"));
    assert_eq!(shown(&sandbox)["status"], "paused");
    let ends = events(&sandbox, "run_ended");
    let ends: Vec<_> = ends.iter().map(|event| &event["status"]).collect();
    assert_eq!(ends, ["paused", "expired", "paused", "expired", "paused"]);
}

#[test]
fn worker_archives_idle_chats() {
    let sandbox = commanded("");
    open(&sandbox, "my name is Ada").expect_success();
    sandbox.configure(&expiring_after(1));
    // A worker looks when it starts, and then every five minutes.
    wait_until("the chat has expired", || {
        let _worker = Working::start(&sandbox);
        shown(&sandbox)["status"] == "expired"
    });
}

#[test]
fn only_chats_expire_and_a_dry_run_changes_nothing() {
    let sandbox = scripted("default: {text: fine}");
    crate::commands::failing_chain(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--name", "work"])
        .refused(10, &[]);
    sandbox.write("answers.yaml", "default: {text: fine}\n");
    open(&sandbox, "hello").expect_success();
    sandbox.configure(&expiring_after(1));
    let foreseen = || {
        let output = sandbox
            .segno(&["sessions", "cleanup", "--dry-run"])
            .expect_success();
        output.stdout.contains("chat talk would be archived")
    };
    wait_until("it is time", foreseen);
    let pair = |name: &str, status: &str| (name.to_owned(), status.to_owned());
    let before = [pair("talk", "paused"), pair("work", "failed")];
    assert_eq!(session_statuses(&sandbox), before);
    sandbox.segno(&["sessions", "cleanup"]).expect_success();
    let after = [pair("talk", "expired"), pair("work", "failed")];
    assert_eq!(session_statuses(&sandbox), after);
}

#[test]
fn reopened_chat_answers_its_killed_exchange() {
    let sandbox = commanded("if [ ! -e go ]; then kill -9 $PPID; sleep 60; fi");
    let output = open(&sandbox, "first");
    assert!(!output.status.success(), "{output:?}");
    expire(&sandbox);
    sandbox.write("go", "");
    let output = sandbox.segno(&["resume", "talk"]).expect_success();
    assert_eq!(output.stdout, "answer 0\n");
}
