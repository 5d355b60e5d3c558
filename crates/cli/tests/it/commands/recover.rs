//! `segno doctor --recover`.

use super::{Live, keys, normalize, session_statuses, shown, start_waiting, waiting_chain};
use crate::sandbox;
use segno_testkit::sandbox::Sandbox;
use serde_json::{Value, json};

/// A session whose run was killed in the middle of its second step.
fn start_and_kill(sandbox: &Sandbox) {
    waiting_chain(sandbox, 3, 1);
    let (live, _) = start_waiting(sandbox, &[]);
    live.kill();
}

fn checkpoints(sandbox: &Sandbox) -> Vec<Value> {
    let output = sandbox.segno(&["checkpoint", "list", "--all", "--json"]);
    let mut lines = output.expect_success().json();
    lines.retain(|line| line["kind"] == "checkpoint");
    lines
}

#[test]
fn lost_run_gets_a_checkpoint_and_can_be_resumed() {
    let sandbox = sandbox();
    start_and_kill(&sandbox);
    let before = sandbox
        .segno(&["doctor", "--recover", "--dry-run"])
        .expect_success();
    assert_eq!(normalize(&sandbox, &before.stdout), "chain ([ID]) crashed");
    assert_eq!(checkpoints(&sandbox).len(), 0);
    let output = sandbox
        .segno(&["doctor", "--recover", "--json"])
        .expect_success();
    let line = &output.json()[0];
    assert_eq!(
        keys(line),
        "checkpoint kind name problem session status unknown v"
    );
    assert_eq!(
        (&line["status"], &line["unknown"]),
        (&json!("interrupted"), &json!(["steps/1"]))
    );
    let created = checkpoints(&sandbox);
    assert_eq!(created.len(), 1);
    assert_eq!(created[0]["checkpoint"], line["checkpoint"]);
    assert_eq!(created[0]["trigger"], "crash");
    let session = shown(&sandbox, "chain");
    assert_eq!(session["status"], "interrupted");
    assert_eq!(session["steps"][1]["status"], "unknown");
    let again = sandbox.segno(&["doctor", "--recover"]).expect_success();
    assert_eq!(again.stdout.trim(), "no crashed runs");
    sandbox.write("go", "");
    sandbox.segno(&["resume"]).expect_success();
    assert_eq!(
        sandbox.calls(),
        ["steps/0", "steps/1", "steps/1", "steps/2"]
    );
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn running_and_ended_sessions_are_left_unchanged() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let output = sandbox.segno(&["doctor", "--recover"]).expect_success();
    assert_eq!(output.stdout.trim(), "no crashed runs");
    sandbox.write("go", "");
    live.finish().expect_success();
    sandbox
        .segno(&["doctor", "--recover", "chain"])
        .expect_success();
    assert_eq!(
        session_statuses(&sandbox),
        [("chain".into(), "completed".into())]
    );
    sandbox
        .segno(&["doctor", "--recover", "nobody"])
        .refused(17, &["[S0101]"]);
}

#[test]
fn lost_run_without_its_folder_is_still_marked() {
    let sandbox = sandbox();
    start_and_kill(&sandbox);
    let work = sandbox.work();
    let moved = work.with_extension("moved");
    std::fs::rename(&work, &moved).unwrap();
    let mut command = sandbox.command(&["doctor", "--recover"]);
    command.current_dir(&moved);
    let output = segno_testkit::sandbox::run_to_end(command).expect_success();
    assert!(
        output.stdout.contains("is interrupted"),
        "{}",
        output.stdout
    );
    assert!(output.stderr.contains("no checkpoint"), "{}", output.stderr);
    std::fs::rename(&moved, &work).unwrap();
    assert_eq!(
        session_statuses(&sandbox),
        [("chain".into(), "interrupted".into())]
    );
}

#[test]
fn concurrent_recovers_mark_a_lost_run_once() {
    let sandbox = sandbox();
    start_and_kill(&sandbox);
    let all: Vec<Live> = (0..6)
        .map(|_| Live::start(&sandbox, &["doctor", "--recover", "--json"]))
        .collect();
    let lines: Vec<Value> = all
        .into_iter()
        .flat_map(|live| live.finish().expect_success().json())
        .collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let journal = sandbox
        .segno(&["logs", "chain", "--json"])
        .expect_success()
        .json();
    let lost = journal.iter().filter(|line| line["kind"] == "run_lost");
    assert_eq!(lost.count(), 1);
}

#[test]
#[cfg(feature = "failpoints")]
fn killed_recover_is_completed_by_the_next() {
    use segno_core::fault::Point;
    let mut kills = 0;
    for point in Point::ALL {
        let sandbox = sandbox();
        start_and_kill(&sandbox);
        let mut command = sandbox.command(&["doctor", "--recover"]);
        command.env("SEGNO_FAILPOINT", point.name());
        if !segno_testkit::sandbox::run_to_end(command).crashed() {
            continue;
        }
        kills += 1;
        sandbox.segno(&["doctor", "--recover"]).expect_success();
        assert_eq!(
            session_statuses(&sandbox),
            [("chain".into(), "interrupted".into())]
        );
        assert!(!checkpoints(&sandbox).is_empty(), "{}", point.name());
        sandbox.write("go", "");
        sandbox.segno(&["resume"]).expect_success();
        sandbox.segno(&["doctor"]).expect_success();
    }
    assert!(kills > 5, "{kills}");
}
