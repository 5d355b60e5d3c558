//! Ctrl-C, SIGTERM and SIGHUP.

use rustix::process::Signal;
use segno_testkit::sandbox::wait_until;

use crate::commands::{normalize, shown, start_waiting, until_gone, waiting_chain};
use crate::sandbox;

#[test]
fn ctrl_c_stops_after_the_step() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 3, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.signal(Signal::INT);
    wait_until("it says so", || {
        live.stderr().contains("stopping after this step")
    });
    sandbox.write("go", "");
    let output = live.finish().refused(130, &[]);
    insta::assert_snapshot!(normalize(&sandbox, &output.stderr), @r"
    session chain ([ID])
      … steps/0 a
      ✓ steps/0 [TOOK]
      … steps/1 a
    stopping after this step; Ctrl-C again stops immediately
      ✓ steps/1 [TOOK]
    stopped: session `chain` is paused, requested by Ctrl-C [R0102]
      hint: `segno resume chain` continues the session
    ");
    assert_eq!(shown(&sandbox, "chain")["status"], "paused");
    sandbox.segno(&["resume"]).expect_success();
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1", "steps/2"]);
}

#[test]
fn a_second_ctrl_c_stops_at_once() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 3, 1);
    let (live, agent) = start_waiting(&sandbox, &[]);
    live.signal(Signal::INT);
    wait_until("it says so", || {
        live.stderr().contains("stopping after this step")
    });
    live.signal(Signal::INT);
    live.finish().refused(
        130,
        &[
            "stopped: session `chain` is paused",
            "steps/1 was in flight",
            "segno resume chain",
        ],
    );
    until_gone(&agent);
    assert_eq!(shown(&sandbox, "chain")["status"], "paused");
    sandbox.write("go", "");
    sandbox.segno(&["resume"]).expect_success();
    assert_eq!(
        sandbox.calls(),
        ["steps/0", "steps/1", "steps/1", "steps/2"]
    );
}

#[test]
fn sigterm_and_sighup_stop_with_a_checkpoint() {
    for (signal, name, trigger) in [
        (Signal::TERM, "SIGTERM", "shutdown"),
        (Signal::HUP, "SIGHUP", "detach"),
    ] {
        let sandbox = sandbox();
        waiting_chain(&sandbox, 2, 1);
        let (live, agent) = start_waiting(&sandbox, &[]);
        live.signal(signal);
        live.finish()
            .refused(143, &["interrupted", name, "[R0102]", "segno resume chain"]);
        until_gone(&agent);
        assert_eq!(shown(&sandbox, "chain")["status"], "interrupted");
        let checkpoints = sandbox
            .segno(&["checkpoint", "list", "--json"])
            .expect_success();
        assert_eq!(checkpoints.json()[0]["trigger"], trigger);
        sandbox.write("go", "");
        sandbox.segno(&["resume"]).expect_success();
    }
}

#[test]
fn ctrl_c_ends_the_wait_before_another_attempt() {
    let sandbox = sandbox();
    super::scripted(&sandbox, &["input: x"], "default: {fail: {kind: server}}");
    super::edit(
        &sandbox,
        "wait_min: 0.01, wait_max: 0.5",
        "wait_min: 3600, wait_max: 3600",
    );
    let live = super::Live::start(&sandbox, &["run", "chain.yaml"]);
    wait_until("it waits", || live.stderr().contains("retry in"));
    live.signal(Signal::INT);
    live.finish().refused(130, &["paused"]);
    assert_eq!(sandbox.calls().len(), 1);
}
