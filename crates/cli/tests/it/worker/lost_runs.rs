//! Runs that are lost, and what workers do about them.

use segno_testkit::sandbox::wait_until;

use super::{
    Working, calls_by_step, detach, events, kill_run, session, status, wait_for_file,
    wait_for_status,
};
use crate::sandbox;

/// The spec with this line in it.
fn configure_spec(sandbox: &segno_testkit::sandbox::Sandbox, line: &str) {
    let spec = sandbox.read("chain.yaml");
    sandbox.write("chain.yaml", &format!("{spec}\n{line}\n"));
}

#[test]
fn lost_run_is_resumed_where_it_stopped() {
    let sandbox = sandbox();
    sandbox.command_chain(
        3,
        "[ \"$SEGNO_STEP\" = steps/0 ] || while [ ! -e go ]; do sleep 0.02; done",
    );
    configure_spec(&sandbox, "continuity: {resume: {delay_s: 0}}");
    let name = detach(&sandbox, &[]);
    let _worker = Working::start(&sandbox);
    wait_until("the second step works", || sandbox.calls().len() == 2);
    kill_run(&sandbox, &name);
    wait_until("the second step works again", || sandbox.calls().len() == 3);
    sandbox.write("go", "");
    wait_for_status(&sandbox, &name, "completed");
    let calls = calls_by_step(&sandbox);
    assert_eq!(calls.values().copied().collect::<Vec<_>>(), [1, 2, 1]);
    let requests = events(&sandbox, &name, "run_requested");
    assert_eq!(requests.len(), 2);
    let evidence = requests[1]["evidence"].as_str().unwrap();
    assert!(evidence.contains("is gone"), "{evidence}");
    assert_eq!(session(&sandbox, &name)["session_number"], 2);
}

#[test]
fn lost_run_is_resumed_after_everything_died() {
    let sandbox = sandbox();
    sandbox.command_chain(2, &wait_for_file("go"));
    configure_spec(&sandbox, "continuity: {resume: {delay_s: 0}}");
    let name = detach(&sandbox, &[]);
    let worker = Working::start(&sandbox);
    wait_until("the agent works", || sandbox.calls().len() == 1);
    // Dropping it kills the worker and its runs.
    drop(worker);
    sandbox.write("go", "");
    let _worker = Working::start(&sandbox);
    wait_for_status(&sandbox, &name, "completed");
    let calls = calls_by_step(&sandbox);
    assert_eq!(calls.values().copied().collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn run_that_is_lost_again_and_again_is_left_to_a_user() {
    let sandbox = sandbox();
    // The agent kills the process that runs its session: the parent of its process guard.
    sandbox.command_chain(
        1,
        "guard=$PPID; run=$(sed 's/.*) . //' /proc/$guard/stat | cut -d' ' -f1); kill -9 $run",
    );
    configure_spec(&sandbox, "continuity: {resume: {delay_s: 0}}");
    let name = detach(&sandbox, &[]);
    let _worker = Working::start(&sandbox);
    wait_until("two further runs were lost", || {
        events(&sandbox, &name, "run_requested").len() == 3
            && status(&sandbox, &name) == "interrupted"
    });
    // Nothing more is asked for, also not after a new worker has looked at it.
    let _other = Working::start(&sandbox);
    let probe = detach(&sandbox, &["--force", "--name", "probe"]);
    wait_until("the other worker works", || {
        !events(&sandbox, &probe, "run_started").is_empty()
    });
    assert_eq!(events(&sandbox, &name, "run_requested").len(), 3);
}

#[test]
fn foreground_run_is_resumed_only_if_the_spec_says_so() {
    let sandbox = sandbox();
    sandbox.command_chain(1, &wait_for_file("go"));
    let plain = sandbox.read("chain.yaml");
    let auto = format!("{plain}\ncontinuity: {{resume: {{policy: auto, delay_s: 0}}}}\n");
    sandbox.write("auto.yaml", &auto);
    for (spec, name) in [("chain.yaml", "plain"), ("auto.yaml", "auto")] {
        let before = sandbox.calls().len();
        let mut run = sandbox.start(&["run", spec, "--force", "--name", name]);
        wait_until("the agent works", || sandbox.calls().len() == before + 1);
        run.kill().unwrap();
        run.wait().unwrap();
    }
    sandbox.write("go", "");
    let _worker = Working::start(&sandbox);
    wait_for_status(&sandbox, "auto", "completed");
    assert_eq!(status(&sandbox, "plain"), "interrupted");
}

#[test]
fn paused_run_stays_paused() {
    let sandbox = sandbox();
    sandbox.command_chain(2, &wait_for_file("go"));
    configure_spec(&sandbox, "continuity: {resume: {policy: auto, delay_s: 0}}");
    let name = detach(&sandbox, &[]);
    let worker = Working::start(&sandbox);
    wait_until("the agent works", || sandbox.calls().len() == 1);
    sandbox
        .segno(&["pause", &name, "--no-wait"])
        .expect_success();
    sandbox.write("go", "");
    wait_for_status(&sandbox, &name, "paused");
    drop(worker);
    let _worker = Working::start(&sandbox);
    let probe = detach(&sandbox, &["--force"]);
    wait_for_status(&sandbox, &probe, "completed");
    assert_eq!(status(&sandbox, &name), "paused");
}

#[test]
fn answered_session_continues_by_itself() {
    let sandbox = sandbox();
    sandbox.write("answers.yaml", "ledger: calls.log\ndefault: {text: fine}\n");
    sandbox.write(
        "chain.yaml",
        "version: 0\nname: chain\nruntime: {provider: scripted, script: answers.yaml}\nagents: {a: {prompt: p}}\npattern: {type: chain, config: {steps: [{agent: a, input: one}, {type: hitl, prompt: Good?}, {agent: a, input: two}]}}\n",
    );
    let name = detach(&sandbox, &[]);
    let _worker = Working::start(&sandbox);
    wait_for_status(&sandbox, &name, "waiting");
    sandbox.segno(&["answer", &name, "yes"]).expect_success();
    wait_for_status(&sandbox, &name, "completed");
    assert_eq!(sandbox.calls(), ["steps/0", "steps/2"]);
}

#[test]
fn unknown_outcome_is_left_to_a_user() {
    let sandbox = sandbox();
    sandbox.command_chain(1, &wait_for_file("go"));
    configure_spec(
        &sandbox,
        "continuity: {in_flight: stop, resume: {delay_s: 0}}",
    );
    let name = detach(&sandbox, &[]);
    let _worker = Working::start(&sandbox);
    wait_until("the agent works", || sandbox.calls().len() == 1);
    kill_run(&sandbox, &name);
    wait_until("the run is refused", || {
        !events(&sandbox, &name, "run_withdrawn").is_empty()
    });
    let refused = events(&sandbox, &name, "run_withdrawn");
    assert_eq!(refused[0]["error"]["kind"], "R0103");
    assert_eq!(status(&sandbox, &name), "interrupted");
    assert_eq!(sandbox.calls().len(), 1);
    sandbox.write("go", "");
    let words = ["resume", &name, "--in-flight", "repeat", "--detach"];
    sandbox.segno(&words).expect_success();
    wait_for_status(&sandbox, &name, "completed");
}

#[test]
fn decision_reaches_a_run_in_the_background() {
    let sandbox = sandbox();
    sandbox.command_chain(2, &wait_for_file("go"));
    configure_spec(
        &sandbox,
        "continuity: {in_flight: stop, resume: {delay_s: 0}}",
    );
    let name = detach(&sandbox, &[]);
    let _worker = Working::start(&sandbox);
    wait_until("the agent works", || sandbox.calls().len() == 1);
    kill_run(&sandbox, &name);
    wait_until("the run is refused", || {
        !events(&sandbox, &name, "run_withdrawn").is_empty()
    });
    sandbox.write("go", "");
    let words = [
        "resume",
        &name,
        "--in-flight",
        "done",
        "--result",
        "by hand",
        "--detach",
    ];
    sandbox.segno(&words).expect_success();
    wait_for_status(&sandbox, &name, "completed");
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1"]);
    let finished = events(&sandbox, &name, "step_finished");
    assert_eq!(finished[0]["output"], "by hand");
    assert_eq!(events(&sandbox, &name, "step_resolved").len(), 1);
}
