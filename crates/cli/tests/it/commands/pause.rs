//! `segno pause`.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use super::{
    edit, keys, normalize, session_statuses, shown, start_waiting, until_gone, waiting_chain,
};
use crate::commands::Live;
use crate::sandbox;
use segno_testkit::sandbox::{Sandbox, wait_until};
use serde_json::Value;

/// The newest checkpoint, as `checkpoint list` prints it.
fn newest_checkpoint(sandbox: &Sandbox) -> Value {
    let output = sandbox.segno(&["checkpoint", "list", "--all", "--json"]);
    let mut lines = output.expect_success().json();
    lines.retain(|line| line["kind"] == "checkpoint");
    assert!(!lines.is_empty(), "there is no checkpoint");
    lines.swap_remove(0)
}

#[test]
fn pause_waits_for_the_step_and_creates_a_checkpoint() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 3, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    let pausing = Live::start(&sandbox, &["pause", "-r", "the build is red"]);
    wait_until("it says what it waits for, and the run was told", || {
        pausing
            .stderr()
            .contains("stopping after the current step (steps/1)")
            && live.stderr().contains("a pause was requested")
    });
    sandbox.write("go", "");
    let output = pausing.finish().expect_success();
    live.finish()
        .refused(130, &["paused", "segno pause", "[R0102]"]);
    let checkpoint = newest_checkpoint(&sandbox);
    let id = checkpoint["checkpoint"].as_str().unwrap();
    assert_eq!(
        normalize(&sandbox, &output.stdout.replace(id, "CHECKPOINT")),
        "chain ([ID]) is paused, with 2 steps done\ncheckpoint CHECKPOINT"
    );
    assert_eq!(checkpoint["trigger"], "pause");
    let session = shown(&sandbox, "chain");
    assert_eq!(session["status"], "paused");
    assert_eq!(session["stopped"]["reason"], "the build is red");
    let status = sandbox.segno(&["status"]).expect_success();
    assert!(
        status.stdout.contains("the build is red"),
        "{}",
        status.stdout
    );
    let resumed = sandbox.segno(&["resume"]).expect_success();
    assert!(
        resumed.stderr.contains("the build is red"),
        "{}",
        resumed.stderr
    );
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1", "steps/2"]);
}

#[test]
fn pause_takes_effect_if_its_step_fails() {
    let sandbox = sandbox();
    sandbox.command_chain(
        3,
        "if [ \"$SEGNO_STEP\" = steps/1 ] && [ ! -e go ]; then\n  echo $$ > agent.pid\n  while [ ! -e go ]; do sleep 0.01; done\n  echo 'out of memory' >&2\n  exit 3\nfi",
    );
    edit(
        &sandbox,
        "{provider: command,",
        "{failure_policy: {retries: 0}, provider: command,",
    );
    let (live, _) = start_waiting(&sandbox, &[]);
    let pausing = Live::start(&sandbox, &["pause", "-r", "lunch", "--json"]);
    wait_until("the run was told", || {
        live.stderr().contains("a pause was requested")
    });
    sandbox.write("go", "");
    let paused = pausing.finish().expect_success().json().remove(0);
    live.finish().refused(
        130,
        &[
            "out of memory",
            "stopped as requested",
            "is paused",
            "[R0102]",
        ],
    );
    assert_eq!(paused["status"], "paused", "{paused}");
    let checkpoint = newest_checkpoint(&sandbox);
    assert_eq!(checkpoint["checkpoint"], paused["checkpoint"]);
    assert_eq!(checkpoint["trigger"], "pause");
    assert_eq!(checkpoint["reason"], "lunch");
    let session = shown(&sandbox, "chain");
    assert_eq!(session["status"], "paused");
    assert_eq!(session["steps"][1]["status"], "failed");
    // What failed is what the next run must know.
    assert_eq!(session["notes"]["errors_unresolved"], 1);
    let resumed = sandbox.segno(&["resume"]).expect_success();
    assert!(
        resumed
            .stderr
            .contains(": lunch; 1 step done, 2 remaining; this is session number 2"),
        "{}",
        resumed.stderr
    );
}

#[test]
fn pause_at_the_end_of_a_step_stops_before_the_next() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 30, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    sandbox.segno(&["pause", "--no-wait"]).expect_success();
    sandbox.write("go", "");
    live.finish().refused(130, &["paused"]);
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1"]);
}

#[test]
fn pending_pause_stops_the_next_run_before_any_call() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    sandbox.segno(&["pause", "--no-wait"]).expect_success();
    live.kill();
    sandbox.write("go", "");
    sandbox
        .segno(&["resume"])
        .refused(130, &["requested by segno pause", "segno resume chain"]);
    assert_eq!(shown(&sandbox, "chain")["status"], "paused");
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1"]);
    sandbox.segno(&["resume"]).expect_success();
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1", "steps/1"]);
}

#[test]
fn pause_now_kills_the_agent_and_its_step_is_repeated() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, agent) = start_waiting(&sandbox, &[]);
    let output = sandbox
        .segno(&["pause", "chain", "--force", "--json"])
        .expect_success();
    let line = &output.json()[0];
    assert_eq!(
        keys(line),
        "checkpoint kind name problem reason session status steps_finished v"
    );
    assert_eq!(
        (&line["status"], &line["problem"]),
        (&"paused".into(), &Value::Null)
    );
    assert_eq!(
        newest_checkpoint(&sandbox)["checkpoint"],
        line["checkpoint"]
    );
    live.finish().refused(130, &["paused"]);
    until_gone(&agent);
    assert_eq!(shown(&sandbox, "chain")["steps"][1]["status"], "unknown");
    sandbox.write("go", "");
    sandbox.segno(&["resume", "chain"]).expect_success();
}

#[test]
fn pause_kills_the_step_after_its_time_limit() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 0);
    edit(
        &sandbox,
        "pattern:",
        "continuity: {pause: {within_s: 0}}\npattern:",
    );
    let (live, agent) = start_waiting(&sandbox, &[]);
    sandbox.segno(&["pause"]).expect_success();
    live.finish()
        .refused(130, &["no step finished within", "stopping now", "paused"]);
    until_gone(&agent);
    assert_eq!(newest_checkpoint(&sandbox)["trigger"], "pause");
}

#[test]
fn pause_command_creates_the_checkpoint_of_a_killed_run() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 0);
    let output = sandbox.work().join("said");
    let run = sandbox
        .command(&["run", "chain.yaml"])
        .env("SEGNO_FAILPOINT", "run.after_end")
        .stdout(Stdio::null())
        .stderr(File::create(&output).unwrap())
        .spawn();
    let mut run = run.unwrap();
    wait_until("the agent waits", || {
        sandbox.read("agent.pid").ends_with('\n')
    });
    let pausing = Live::start(&sandbox, &["pause", "--json"]);
    wait_until("the run was told", || {
        sandbox.read("said").contains("a pause was requested")
    });
    sandbox.write("go", "");
    assert!(run.wait().unwrap().signal().is_some());
    let output = pausing.finish().expect_success();
    assert_eq!(output.json()[0]["status"], "paused");
    assert_eq!(
        newest_checkpoint(&sandbox)["checkpoint"],
        output.json()[0]["checkpoint"]
    );
    sandbox.segno(&["resume"]).expect_success();
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1"]);
}

#[test]
fn only_running_sessions_can_be_paused() {
    let sandbox = sandbox();
    sandbox
        .segno(&["pause"])
        .refused(17, &["[S0115]", "no session is running in"]);
    waiting_chain(&sandbox, 2, 0);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.kill();
    sandbox
        .segno(&["pause", "chain"])
        .refused(17, &["[S0116]", "it is interrupted", "segno resume chain"]);
    sandbox
        .segno(&["pause", "nobody"])
        .refused(17, &["[S0101]"]);
}

#[test]
fn after_steps_pauses_the_session_repeatedly() {
    let sandbox = sandbox();
    sandbox.scripted_chain(8, 0);
    edit(
        &sandbox,
        "pattern:",
        "continuity: {pause: {after_steps: 2}}\npattern:",
    );
    sandbox
        .segno(&["run", "chain.yaml"])
        .refused(130, &["continuity.pause.after_steps"]);
    for done in [4, 6] {
        assert_eq!(newest_checkpoint(&sandbox)["trigger"], "task_complete");
        sandbox
            .segno(&["resume"])
            .refused(130, &["2 steps finished"]);
        assert_eq!(shown(&sandbox, "chain")["steps_finished"], done);
    }
    sandbox.segno(&["resume"]).expect_success();
    assert_eq!(
        session_statuses(&sandbox),
        [("chain".into(), "completed".into())]
    );
    assert_eq!(sandbox.calls().len(), 8);
}

#[test]
fn after_s_pauses_the_session() {
    let sandbox = sandbox();
    sandbox.scripted_chain(200, 20);
    edit(
        &sandbox,
        "pattern:",
        "continuity: {pause: {after_s: 1}}\npattern:",
    );
    sandbox
        .segno(&["run", "chain.yaml"])
        .refused(130, &["continuity.pause.after_s"]);
    let done = shown(&sandbox, "chain")["steps_finished"].as_u64().unwrap();
    assert!((1..200).contains(&done), "{done}");
    assert_eq!(newest_checkpoint(&sandbox)["trigger"], "timeout");
}

/// Kills a session that pauses after every step at each failpoint: on its way to a pause, during a
/// resume, and while either is written. No finished step is asked again.
#[test]
#[cfg(feature = "failpoints")]
fn killed_pause_and_resume_can_be_resumed() {
    use segno_core::fault::Point;
    let mut kills = 0;
    for point in Point::ALL {
        for visit in 1..=2 {
            let sandbox = sandbox();
            sandbox.scripted_chain(3, 0);
            let pauses = "continuity: {pause: {after_steps: 1}, checkpoint: {on: [pause, crash]}}";
            edit(&sandbox, "pattern:", &format!("{pauses}\npattern:"));
            let armed = format!("{}:{visit}", point.name());
            let killed = |words: &[&str]| {
                let mut command = sandbox.command(words);
                command.env("SEGNO_FAILPOINT", &armed);
                u64::from(segno_testkit::sandbox::run_to_end(command).crashed())
            };
            let mut here = killed(&["run", "chain.yaml"]);
            if session_statuses(&sandbox).is_empty() {
                assert_eq!(here, 1, "{armed}");
                here += killed(&["run", "chain.yaml"]);
            }
            here += killed(&["resume"]);
            if here == 0 {
                break;
            }
            here += killed(&["resume"]);
            kills += here;
            wait_until("it has come to its end", || {
                if session_statuses(&sandbox).is_empty() {
                    sandbox.segno(&["run", "chain.yaml"]);
                }
                sandbox.segno(&["resume"]);
                session_statuses(&sandbox) == [("chain".into(), "completed".into())]
            });
            let calls = sandbox.calls();
            let asked = |step: &str| calls.iter().filter(|call| *call == step).count() as u64;
            for step in ["steps/0", "steps/1", "steps/2"] {
                assert!(asked(step) >= 1, "{armed}: {calls:?}");
            }
            // Only a step that was in flight at a kill may be asked again.
            assert!(
                calls.len() as u64 <= 3 + here,
                "{armed}: {here} kills, {calls:?}"
            );
            sandbox.segno(&["doctor"]).expect_success();
        }
    }
    assert!(kills > 40, "{kills}");
}
