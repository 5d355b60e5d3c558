//! One writer (P3): many processes ask for the lease, one gets it, and a stopped process wakes up
//! too late.

#![expect(clippy::disallowed_methods, reason = "the machine is the subject")]

use std::fs;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use segno_testkit::sandbox::{Sandbox, run_to_end, wait_for_output, wait_until};

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

/// A run that is stopped (SIGSTOP) in the middle of its second step.
fn start_and_stop(sandbox: &Sandbox) -> Child {
    sandbox.command_chain(3, WAITING);
    let stopped = sandbox.start(&["run", "chain.yaml", "--name", "one"]);
    wait_until("the second step is in flight", || {
        sandbox.calls().len() == 2
    });
    signal(stopped.id(), Signal::STOP);
    wait_until("it is stopped", || {
        let shown = sandbox.segno(&["show", "one", "--json"]).expect_success();
        shown.json()[0]["owner"]["stopped"] == true
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
        output.refused(21, &["one", &named, "since", "[S0107]", "hint:"]);
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

/// Waits until the second step was asked a second time, and lets the new owner finish.
fn finish_after_takeover(sandbox: &Sandbox, new_owner: Child) {
    wait_until("the second step is asked again", || {
        sandbox.calls().len() == 3
    });
    wait_until("only the new owner's agent is left", || {
        agent_processes(sandbox) <= 2
    });
    sandbox.write("go", "");
    wait_for_output(new_owner).expect_success();
    wait_until("no agent is left", || agent_processes(sandbox) == 0);
    assert_eq!(
        sandbox.calls(),
        ["steps/0", "steps/1", "steps/1", "steps/2"]
    );
}

#[test]
fn stopped_run_keeps_its_session_until_someone_takes_over() {
    let sandbox = sandbox();
    let stopped = start_and_stop(&sandbox);
    let pid = format!("process {} on ", stopped.id());
    let texts = [&pid, "is stopped", "[S0117]", "kill -CONT", "--take-over"];
    sandbox.segno(&["resume", "one"]).refused(21, &texts);
    let status = sandbox.segno(&["status"]).expect_success().stdout;
    assert!(status.contains("stopped)"), "{status}");
    assert!(agent_processes(&sandbox) > 0, "its agent still runs");
    let new_owner = sandbox.start(&["resume", "one", "--take-over"]);
    let ended = wait_for_output(stopped);
    assert!(ended.crashed(), "{ended:?}");
    finish_after_takeover(&sandbox, new_owner);
}

#[test]
fn stopped_run_is_ended_where_the_settings_say_so() {
    let sandbox = sandbox();
    sandbox.configure("[lease]\nend_stopped = true\n");
    let stopped = start_and_stop(&sandbox);
    let new_owner = sandbox.start(&["resume", "one"]);
    assert!(wait_for_output(stopped).crashed());
    finish_after_takeover(&sandbox, new_owner);
}

#[test]
fn stopped_run_continues_when_it_wakes_up() {
    let sandbox = sandbox();
    sandbox.configure("[lease]\nttl_ms = 100\n");
    let stopped = start_and_stop(&sandbox);
    sandbox.segno(&["resume", "one"]).refused(21, &["[S0117]"]);
    signal(stopped.id(), Signal::CONT);
    sandbox.write("go", "");
    wait_for_output(stopped).expect_success();
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1", "steps/2"]);
}

/// A run with a wall clock that is two days ahead finds a session with a live run (P15).
#[test]
fn wrong_clock_takes_nothing_over() {
    let sandbox = sandbox();
    sandbox.command_chain(3, WAITING);
    let running = sandbox.start(&["run", "chain.yaml", "--name", "one"]);
    wait_until("the second step is in flight", || {
        sandbox.calls().len() == 2
    });
    for words in [&["resume", "one"][..], &["doctor", "--recover"]] {
        let mut ahead = std::process::Command::new("faketime");
        sandbox.set_env(&mut ahead);
        ahead.args(["-f", "+2d"]).arg(sandbox.binary()).args(words);
        let output = run_to_end(ahead);
        assert_eq!(sandbox.calls().len(), 2, "{output:?}");
    }
    let status = sandbox.segno(&["status", "--json"]).expect_success();
    assert_eq!(status.json()[0]["status"], "running");
    sandbox.write("go", "");
    wait_for_output(running).expect_success();
    assert_eq!(sandbox.calls(), ["steps/0", "steps/1", "steps/2"]);
}

/// Some network and FUSE file systems refuse every lock with an error.
#[test]
fn run_works_where_files_cannot_be_locked() {
    let sandbox = sandbox();
    sandbox.scripted_chain(2, 0);
    let unlocked = |words: &[&str]| {
        let mut traced = std::process::Command::new("strace");
        sandbox.set_env(&mut traced);
        traced.args(["-f", "-q", "-o", "/dev/null", "-e", "trace=flock"]);
        traced.args(["-e", "inject=flock:error=ENOLCK"]);
        run_to_end({
            traced.arg(sandbox.binary()).args(words);
            traced
        })
    };
    unlocked(&["run", "chain.yaml", "--name", "one"]).expect_success();
    unlocked(&["run", "chain.yaml", "--name", "two", "--out", "two"]).expect_success();
    assert_eq!(sandbox.calls().len(), 4);
    unlocked(&["sessions", "delete", "one"]).expect_success();
    let listed = sandbox.segno(&["sessions", "list", "--json"]).json();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["name"], "two");
}

/// Where two owners do not see each other's lock (another machine), only the run number separates
/// them.
#[test]
fn stale_run_cannot_append() {
    let sandbox = sandbox();
    let stopped = start_and_stop(&sandbox);
    std::fs::remove_file(sandbox.home().join("names/one.session/lock")).unwrap();
    let new_owner = sandbox.start(&["resume", "one", "--json"]);
    wait_until("the new owner asks the second step again", || {
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
