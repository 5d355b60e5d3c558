//! `segno cancel`.

use super::edit;
use crate::commands::{
    failing_chain, fix_answers, keys, normalize, session_statuses, shown, start_waiting,
    until_gone, waiting_chain,
};
use crate::sandbox;
use rustix::process::Signal;
use segno_testkit::sandbox::wait_until;

#[test]
fn stopped_session_is_cancelled_permanently() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let output = sandbox.segno(&["cancel", "chain"]).expect_success();
    assert_eq!(
        normalize(&sandbox, &output.stdout),
        "chain ([ID]) is cancelled"
    );
    assert_eq!(
        session_statuses(&sandbox),
        [("chain".into(), "cancelled".into())]
    );
    fix_answers(&sandbox);
    for command in ["resume", "cancel"] {
        sandbox.segno(&[command, "chain"]).refused(
            17,
            &[
                "chain",
                "is cancelled; fork it to continue from it",
                "[S0108]",
            ],
        );
    }
    sandbox.segno(&["resume"]).refused(17, &["[S0106]"]);
    assert_eq!(sandbox.calls().len(), 3);
    sandbox.segno(&["doctor"]).expect_success();
}

#[test]
fn killed_run_can_be_cancelled() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.kill();
    let output = sandbox
        .segno(&["cancel", "chain", "--json"])
        .expect_success();
    let line = &output.json()[0];
    assert_eq!(keys(line), "kind name session v");
    assert_eq!(line["kind"], "cancelled");
    assert_eq!(shown(&sandbox, "chain")["steps"][1]["status"], "unknown");
}

#[test]
fn cancel_stops_a_running_session_between_steps() {
    let sandbox = sandbox();
    // Long enough that the cancel comes in the middle, whichever step that is.
    sandbox.command_chain(60, "sleep 0.03\necho > begun");
    let live = super::Live::start(&sandbox, &["run", "chain.yaml"]);
    segno_testkit::sandbox::wait_until("it has begun", || !sandbox.read("begun").is_empty());
    let output = sandbox.segno(&["cancel", "chain"]).expect_success();
    assert_eq!(
        normalize(&sandbox, &output.stdout),
        "chain ([ID]) stops after the current step, or after the current task of a plan"
    );
    let output = live
        .finish()
        .refused(10, &["cancelled", "segno cancel", "[R0102]"]);
    assert!(!output.stderr.contains("segno resume"), "{}", output.stderr);
    let shown = shown(&sandbox, "chain");
    let calls = sandbox.calls().len();
    assert!(calls < 60);
    assert_eq!(shown["status"], "cancelled");
    assert_eq!(shown["steps_finished"], calls);
    sandbox
        .segno(&["resume", "chain"])
        .refused(17, &["cancelled"]);
}

#[test]
fn cancel_now_kills_the_agent() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 3, 1);
    let (live, agent) = start_waiting(&sandbox, &[]);
    let output = sandbox
        .segno(&["cancel", "chain", "--force"])
        .expect_success();
    assert_eq!(
        normalize(&sandbox, &output.stdout),
        "chain ([ID]) stops immediately"
    );
    live.finish().refused(10, &["cancelled", "[R0102]"]);
    until_gone(&agent);
    let shown = shown(&sandbox, "chain");
    assert_eq!(
        (&shown["status"], &shown["steps_finished"]),
        (&"cancelled".into(), &1.into())
    );
    assert_eq!(shown["steps"][1]["status"], "unknown");
    sandbox
        .segno(&["resume", "chain"])
        .refused(17, &["cancelled"]);
    assert_eq!(sandbox.calls().len(), 2);
}

#[test]
fn cancel_now_overrides_an_earlier_cancel() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 0);
    let (live, agent) = start_waiting(&sandbox, &[]);
    sandbox.segno(&["cancel", "chain"]).expect_success();
    sandbox
        .segno(&["cancel", "chain", "--force"])
        .expect_success();
    until_gone(&agent);
    live.finish()
        .refused(10, &["stopped: session `chain` is cancelled"]);
}

#[test]
fn cancel_after_ctrl_c_cancels() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 0);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.signal(Signal::INT);
    wait_until("it says so", || {
        live.stderr().contains("stopping after this step")
    });
    sandbox.segno(&["cancel", "chain"]).expect_success();
    sandbox.write("go", "");
    live.finish();
    assert_eq!(
        session_statuses(&sandbox),
        [("chain".into(), "cancelled".into())]
    );
}

#[test]
fn a_cancelled_run_whose_step_fails_is_cancelled() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 1, 0);
    edit(
        &sandbox,
        "command: [./agent.sh]",
        "command: [./agent.sh], failure_policy: {retries: 0}",
    );
    let agent = sandbox.read("agent.sh");
    sandbox.write_script("agent.sh", &format!("{agent}exit 1\n"));
    let (live, _) = start_waiting(&sandbox, &[]);
    sandbox.segno(&["cancel", "chain"]).expect_success();
    sandbox.write("go", "");
    live.finish();
    assert_eq!(
        session_statuses(&sandbox),
        [("chain".into(), "cancelled".into())]
    );
}
