//! Requests: made, run, withdrawn, refused.

#![expect(clippy::disallowed_methods, reason = "the test reads a log of a run")]

use std::collections::BTreeSet;
use std::fs;

use rustix::process::Signal;
use segno_testkit::sandbox::{chain_spec, wait_until};

use super::{
    Working, calls_by_step, detach, events, runs, session, status, wait_for_file, wait_for_status,
};
use crate::sandbox;

#[test]
fn request_waits_until_a_worker_runs_it() {
    let sandbox = sandbox();
    sandbox.scripted_chain(3, 0);
    let output = sandbox
        .segno(&["run", "chain.yaml", "--detach"])
        .expect_success();
    assert!(output.stdout.contains("chain (") && output.stdout.contains("waits for a worker"));
    assert!(output.stderr.contains("segno worker"), "{}", output.stderr);
    assert_eq!(status(&sandbox, "chain"), "pending");
    assert_eq!(sandbox.calls().len(), 0);
    let _worker = Working::start(&sandbox);
    wait_for_status(&sandbox, "chain", "completed");
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1", "steps/2"]);
    assert_eq!(session(&sandbox, "chain")["session_number"], 1);
    let name = detach(&sandbox, &["--force"]);
    wait_for_status(&sandbox, &name, "completed");
}

#[test]
fn run_survives_its_worker() {
    let sandbox = sandbox();
    sandbox.command_chain(2, &wait_for_file("go"));
    let name = detach(&sandbox, &[]);
    let mut worker = Working::start(&sandbox);
    wait_until("the agent works", || sandbox.calls().len() == 1);
    worker.signal(Signal::KILL);
    worker.wait();
    assert_eq!(status(&sandbox, &name), "running");
    sandbox.write("go", "");
    wait_for_status(&sandbox, &name, "completed");
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1"]);
}

#[test]
fn paused_request_is_withdrawn() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    let name = detach(&sandbox, &[]);
    sandbox.segno(&["pause", &name]).expect_success();
    assert_eq!(status(&sandbox, &name), "paused");
    let _worker = Working::start(&sandbox);
    let other = detach(&sandbox, &["--force"]);
    wait_for_status(&sandbox, &other, "completed");
    assert_eq!(
        (status(&sandbox, &name).as_str(), sandbox.calls().len()),
        ("paused", 1)
    );
    let output = sandbox
        .segno(&["resume", &name, "--detach"])
        .expect_success();
    assert!(!output.stderr.contains("no worker"), "{}", output.stderr);
    wait_for_status(&sandbox, &name, "completed");
}

#[test]
fn cancelled_request_is_not_run() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1, 0);
    let name = detach(&sandbox, &[]);
    sandbox.segno(&["cancel", &name]).expect_success();
    assert_eq!(status(&sandbox, &name), "cancelled");
    sandbox
        .segno(&["resume", &name, "--detach"])
        .refused(17, &["S0108"]);
    assert_eq!(sandbox.calls().len(), 0);
}

#[test]
fn run_that_cannot_start_says_why() {
    let sandbox = sandbox();
    // The worker's environment has no key for this provider.
    let spec = chain_spec("{provider: anthropic, model_id: m}", 1);
    sandbox.write("chain.yaml", &spec);
    let name = detach(&sandbox, &[]);
    let _worker = Working::start(&sandbox);
    wait_for_status(&sandbox, &name, "failed");
    let refused = events(&sandbox, &name, "run_withdrawn");
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0]["error"]["kind"], "A0101");
    let shown = sandbox.segno(&["show", &name]).expect_success().stdout;
    assert!(shown.contains("ANTHROPIC_API_KEY"), "{shown}");
    assert_eq!(session(&sandbox, &name)["session_number"], 0);
    // It is not tried again until someone asks for it.
    sandbox.scripted_chain(1, 0);
    let probe = detach(&sandbox, &[]);
    wait_for_status(&sandbox, &probe, "completed");
    assert_eq!(events(&sandbox, &name, "run_requested").len(), 1);
}

#[test]
fn several_workers_run_each_session_once() {
    let sandbox = sandbox();
    sandbox.command_chain(2, "sleep 0.05");
    let names: BTreeSet<String> = (0..8).map(|_| detach(&sandbox, &["--force"])).collect();
    let _workers: Vec<Working<'_>> = (0..3).map(|_| Working::start(&sandbox)).collect();
    for name in &names {
        wait_for_status(&sandbox, name, "completed");
    }
    let calls = calls_by_step(&sandbox);
    assert_eq!(calls.values().copied().collect::<Vec<_>>(), [8, 8]);
    for name in &names {
        assert_eq!(session(&sandbox, name)["session_number"], 1, "{name}");
    }
}

#[test]
fn no_more_runs_than_allowed_are_started() {
    let sandbox = sandbox();
    sandbox.command_chain(1, &wait_for_file("go"));
    for _ in 0..3 {
        detach(&sandbox, &["--force"]);
    }
    let _worker = Working::start_with(&sandbox, &["--max-runs", "2"]);
    wait_until("two agents work", || sandbox.calls().len() == 2);
    assert_eq!(runs(&sandbox).len(), 2);
    let statuses = sandbox.segno(&["status", "--json"]).expect_success().json();
    let count = |wanted: &str| {
        let mut statuses = statuses.iter();
        statuses
            .by_ref()
            .filter(|line| line["status"] == wanted)
            .count()
    };
    assert_eq!((count("running"), count("pending")), (2, 1));
    sandbox.write("go", "");
    for name in ["chain", "chain-2", "chain-3"] {
        wait_for_status(&sandbox, name, "completed");
    }
}

#[test]
fn stopping_worker_lets_steps_finish() {
    let sandbox = sandbox();
    sandbox.command_chain(2, &wait_for_file("go"));
    let name = detach(&sandbox, &[]);
    let mut worker = Working::start(&sandbox);
    wait_until("the agent works", || sandbox.calls().len() == 1);
    worker.signal(Signal::TERM);
    let id = session(&sandbox, &name)["session"]
        .as_str()
        .unwrap()
        .to_owned();
    let log = sandbox.home().join(format!("workers/logs/{id}.log"));
    wait_until("the run is asked to stop", || {
        fs::read_to_string(&log)
            .unwrap()
            .contains("stopping after this step")
    });
    sandbox.write("go", "");
    assert_eq!(worker.wait(), Some(0));
    assert_eq!(status(&sandbox, &name), "interrupted");
    assert_eq!(sandbox.calls(), ["steps/0"]);
    // The next worker continues it by itself.
    let _worker = Working::start(&sandbox);
    wait_for_status(&sandbox, &name, "completed");
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1"]);
}

#[test]
fn run_that_takes_too_long_is_stopped() {
    let sandbox = sandbox();
    sandbox.command_chain(1, &wait_for_file("never"));
    let name = detach(&sandbox, &[]);
    let mut worker = Working::start_with(&sandbox, &["--drain", "0"]);
    wait_until("the agent works", || sandbox.calls().len() == 1);
    worker.signal(Signal::TERM);
    assert_eq!(worker.wait(), Some(0));
    assert_eq!(status(&sandbox, &name), "interrupted");
    assert!(runs(&sandbox).is_empty());
}
