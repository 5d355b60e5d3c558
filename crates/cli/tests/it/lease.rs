//! One writer (P3): many processes ask for the lease, one gets it, and a stopped process wakes up
//! too late.

#![expect(clippy::disallowed_methods, reason = "the machine is the subject")]

use std::fs;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use segno_testkit::sandbox::{Sandbox, wait_for_output, wait_until};

use crate::sandbox;

/// Counts the processes whose command line contains the sandbox's agent.
fn agent_processes(sandbox: &Sandbox) -> usize {
    let marker = sandbox.work().join("agent.sh").display().to_string();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).contains(&marker))
        .count()
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// The second step waits until the file `go` exists.
const WAITING: &str = "while [ \"$SEGNO_STEP\" = steps/1 ] && [ ! -e go ]; do sleep 0.01; done";

/// Starts a chain whose second step waits until the file `go` exists, and kills it while it waits.
fn start_and_kill(sandbox: &Sandbox) {
    sandbox.command_chain(3, WAITING);
    let mut child = sandbox.start(&["run", "chain.yaml", "--name", "one"]);
    wait_until("the second step is in flight", || {
        sandbox.calls().len() == 2
    });
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A run that was stopped (SIGSTOP) in the middle of its second step and whose lease has expired
/// since.
fn start_and_stop_past_lease(sandbox: &Sandbox) -> Child {
    sandbox.configure("[lease]\nttl_ms = 300\n");
    sandbox.command_chain(3, WAITING);
    let stopped = sandbox.start(&["run", "chain.yaml", "--name", "one"]);
    wait_until("the second step is in flight", || {
        sandbox.calls().len() == 2
    });
    signal(stopped.id(), Signal::STOP);
    wait_until("the lease has run out", || {
        let output = sandbox
            .segno(&["sessions", "list", "--json"])
            .expect_success();
        output.json()[0]["status"] == "interrupted"
    });
    stopped
}

#[test]
fn exactly_one_of_fifty_concurrent_resumes_runs() {
    let sandbox = sandbox();
    start_and_kill(&sandbox);
    let resumes: Vec<_> = (0..50).map(|_| sandbox.start(&["resume", "one"])).collect();
    wait_until("one of them asks the second step again", || {
        sandbox.calls().len() == 3
    });
    let ids: Vec<u32> = resumes.iter().map(Child::id).collect();
    let mut runner = None;
    let mut outputs = Vec::new();
    // The winner waits for `go`, so every process that ends before that was refused.
    for child in resumes {
        if runner.is_none() && owner(&sandbox) == Some(child.id()) {
            runner = Some(child);
        } else {
            outputs.push(wait_for_output(child));
        }
    }
    let winner = runner.expect("someone runs it");
    assert_eq!(outputs.len(), 49);
    for output in outputs {
        let named = format!("process {} on ", winner.id());
        output.refused(
            21,
            &[
                "one",
                &named,
                "since",
                "its lease ends at",
                "[S0107]",
                "hint:",
            ],
        );
    }
    assert!(ids.contains(&winner.id()));
    sandbox.write("go", "");
    wait_for_output(winner).expect_success();
    assert_eq!(
        sandbox.calls(),
        ["steps/0", "steps/1", "steps/1", "steps/2"]
    );
    sandbox.segno(&["doctor"]).expect_success();
}

fn owner(sandbox: &Sandbox) -> Option<u32> {
    let shown = sandbox
        .segno(&["show", "one", "--json"])
        .expect_success()
        .json();
    u32::try_from(shown[0]["owner"]["pid"].as_u64()?).ok()
}

#[test]
fn stopped_run_is_killed_before_it_is_taken_over() {
    let sandbox = sandbox();
    let stopped = start_and_stop_past_lease(&sandbox);
    assert!(agent_processes(&sandbox) > 0, "its agent still runs");
    let new_owner = sandbox.start(&["resume", "one"]);
    let ended = wait_for_output(stopped);
    assert!(ended.crashed(), "{ended:?}");
    wait_until("the second step is asked again", || {
        sandbox.calls().len() == 3
    });
    wait_until("only the taker's agent is left", || {
        agent_processes(&sandbox) <= 2
    });
    sandbox.write("go", "");
    wait_for_output(new_owner).expect_success();
    wait_until("no agent is left", || agent_processes(&sandbox) == 0);
    assert_eq!(
        sandbox.calls(),
        ["steps/0", "steps/1", "steps/1", "steps/2"]
    );
}

/// A new owner that cannot see the old one (another container, another machine) cannot kill it
/// either. Then only the run number separates the two.
#[test]
fn stale_run_cannot_append() {
    let sandbox = sandbox();
    let stopped = start_and_stop_past_lease(&sandbox);
    // A separate process namespace hides the stopped run from the new owner.
    let mut elsewhere = std::process::Command::new("unshare");
    sandbox.set_env(&mut elsewhere);
    elsewhere
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(sandbox.binary())
        .args(["resume", "one", "--json"]);
    let new_owner = elsewhere
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the taker asks the second step again", || {
        sandbox.calls().len() == 3
    });
    signal(stopped.id(), Signal::CONT);
    let late = wait_for_output(stopped).refused(21, &["taken over", "run 1", "run 2", "[S0104]"]);
    assert!(!late.stdout.contains("answer"), "{late:?}");
    sandbox.write("go", "");
    let resumed = wait_for_output(new_owner).expect_success();
    assert_eq!(
        resumed.json().last().unwrap()["output"],
        "answer of steps/2"
    );
    wait_until("no agent is left", || agent_processes(&sandbox) == 0);
    let runs: Vec<_> = sandbox
        .segno(&["logs", "one", "--json"])
        .expect_success()
        .json()
        .iter()
        .map(|entry| entry["run"].as_u64().unwrap())
        .collect();
    assert!(
        runs.is_sorted(),
        "nothing of run 1 stands after run 2: {runs:?}"
    );
    assert_eq!(
        sandbox.calls(),
        ["steps/0", "steps/1", "steps/1", "steps/2"]
    );
    sandbox.segno(&["doctor"]).expect_success();
}
