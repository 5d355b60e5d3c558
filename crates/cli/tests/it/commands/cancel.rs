use super::edit;
use crate::commands::{
    failing_chain, keys, mend, shown, standings, start_waiting, tidy, until_gone, waiting_chain,
};
use crate::sandbox;
use rustix::process::Signal;
use segno_testkit::sandbox::until;

#[test]
fn a_stopped_session_is_cancelled_at_once_and_stays_so() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    let said = sandbox.segno(&["cancel", "chain"]).good();
    assert_eq!(tidy(&sandbox, &said.stdout), "chain ([ID]) is cancelled");
    assert_eq!(standings(&sandbox), [("chain".into(), "cancelled".into())]);
    mend(&sandbox);
    for command in ["resume", "cancel"] {
        sandbox
            .segno(&[command, "chain"])
            .refused(17, &["chain", "is cancelled: it is over", "[S0108]"]);
    }
    sandbox.segno(&["resume"]).refused(17, &["[S0106]"]);
    assert_eq!(sandbox.calls().len(), 3);
    sandbox.segno(&["doctor"]).good();
}

#[test]
fn a_killed_run_can_be_given_up() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.kill();
    let said = sandbox.segno(&["cancel", "chain", "--json"]).good();
    let line = &said.json()[0];
    assert_eq!(keys(line), "kind name session v");
    assert_eq!(line["kind"], "cancelled");
    assert_eq!(shown(&sandbox, "chain")["steps"][1]["status"], "unknown");
}

#[test]
fn a_running_session_stops_between_two_steps() {
    let sandbox = sandbox();
    // Long enough to be told in the middle, whichever step that is.
    sandbox.command_chain(60, "sleep 0.03\necho > begun");
    let live = super::Live::start(&sandbox, &["run", "chain.yaml"]);
    segno_testkit::sandbox::until("it has begun", || !sandbox.read("begun").is_empty());
    let said = sandbox.segno(&["cancel", "chain"]).good();
    assert_eq!(
        tidy(&sandbox, &said.stdout),
        "chain ([ID]) was told, and stops after the step in flight, in a plan after the task"
    );
    let said = live
        .finish()
        .refused(10, &["cancelled", "segno cancel", "[R0102]"]);
    assert!(!said.stderr.contains("segno resume"), "{}", said.stderr);
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
fn a_running_session_is_ended_now_with_its_agent() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 3, 1);
    let (live, agent) = start_waiting(&sandbox, &[]);
    let said = sandbox.segno(&["cancel", "chain", "--now"]).good();
    assert_eq!(
        tidy(&sandbox, &said.stdout),
        "chain ([ID]) was told, and stops at once"
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
fn a_cancel_at_once_overrides_an_earlier_cancel() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 0);
    let (live, agent) = start_waiting(&sandbox, &[]);
    sandbox.segno(&["cancel", "chain"]).good();
    sandbox.segno(&["cancel", "chain", "--now"]).good();
    until_gone(&agent);
    live.finish()
        .refused(10, &["stopped: session chain is cancelled"]);
}

#[test]
fn a_cancel_after_ctrl_c_is_a_cancel() {
    let sandbox = sandbox();
    waiting_chain(&sandbox, 2, 0);
    let (live, _) = start_waiting(&sandbox, &[]);
    live.signal(Signal::INT);
    until("it says so", || {
        live.stderr().contains("stopping after this step")
    });
    sandbox.segno(&["cancel", "chain"]).good();
    sandbox.write("go", "");
    live.finish();
    assert_eq!(standings(&sandbox), [("chain".into(), "cancelled".into())]);
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
    sandbox.script("agent.sh", &format!("{agent}exit 1\n"));
    let (live, _) = start_waiting(&sandbox, &[]);
    sandbox.segno(&["cancel", "chain"]).good();
    sandbox.write("go", "");
    live.finish();
    assert_eq!(standings(&sandbox), [("chain".into(), "cancelled".into())]);
}
