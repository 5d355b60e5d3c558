//! The session number: how many times a session was started or resumed.

use segno_testkit::sandbox::Sandbox;
use serde_json::Value;

use super::{failing_chain, fix_answers, shown};
use crate::sandbox;

/// What `status` and `show` print as the session number.
fn numbers(sandbox: &Sandbox, name: &str) -> [Value; 2] {
    let status = sandbox.segno(&["status", name, "--json"]);
    let status = status.expect_success().json().remove(0);
    let number = |line: &Value| line["session_number"].clone();
    [number(&status), number(&shown(sandbox, name))]
}

#[test]
fn session_number_counts_starts_and_resumes_only() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    assert_eq!(numbers(&sandbox, "chain"), [1, 1]);
    for text in ["one", "two", "three"] {
        sandbox.segno(&["note", "todo", text]).expect_success();
    }
    // Refused before anything is written.
    let refused = sandbox.segno(&["resume", "chain", "--agent", "nobody"]);
    assert_ne!(refused.code(), 0);
    assert_eq!(numbers(&sandbox, "chain"), [1, 1]);
    let context = sandbox.segno(&["context", "chain"]).expect_success();
    assert!(
        context.stdout.contains("chain, session number 1\n"),
        "{}",
        context.stdout
    );
    fix_answers(&sandbox);
    let output = sandbox.segno(&["resume", "chain", "--json"]);
    let lines = output.expect_success().json();
    let result = lines.last().unwrap();
    assert_eq!(result["session_number"], 2);
    assert!(
        result["run"].as_u64() > Some(4),
        "the epoch counts all: {result}"
    );
    assert_eq!(numbers(&sandbox, "chain"), [2, 2]);
    let logs = sandbox.segno(&["logs", "chain"]).expect_success().stdout;
    for number in [1, 2] {
        let line = format!("session number {number} on ");
        assert_eq!(logs.matches(&line).count(), 1, "{logs}");
    }
}

#[test]
fn cancel_and_fork_do_not_start_a_session() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    sandbox
        .segno(&["fork", "chain", "--name", "copy"])
        .expect_success();
    assert_eq!(numbers(&sandbox, "copy"), [0, 0]);
    sandbox.segno(&["cancel", "chain"]).expect_success();
    assert_eq!(numbers(&sandbox, "chain"), [1, 1]);
    fix_answers(&sandbox);
    let resumed = sandbox.segno(&["resume", "copy"]).expect_success();
    assert!(
        resumed
            .stderr
            .contains("forked from chain; 2 steps done, 1 remaining; this is session number 1"),
        "{}",
        resumed.stderr
    );
    assert_eq!(numbers(&sandbox, "copy"), [1, 1]);
}

#[test]
fn lost_run_counts_and_its_resume_says_so() {
    let sandbox = sandbox();
    super::waiting_chain(&sandbox, 2, 1);
    let (live, _) = super::start_waiting(&sandbox, &[]);
    live.kill();
    sandbox.segno(&["doctor", "--recover"]).expect_success();
    assert_eq!(numbers(&sandbox, "chain"), [1, 1]);
    sandbox.write("go", "");
    let resumed = sandbox.segno(&["resume"]).expect_success();
    for words in [
        "session number 1 was interrupted",
        "ago: its process was lost; 1 step done, 1 remaining; this is session number 2",
    ] {
        assert!(resumed.stderr.contains(words), "{}", resumed.stderr);
    }
}
