//! Sessions in the background: `segno worker`, and what is handed to it.

mod handing_over;
mod lost_runs;

use std::collections::BTreeMap;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use segno_testkit::sandbox::{Sandbox, wait_until};
use segno_testkit::serving::runs;
use serde_json::Value;

/// Kills the runs in the background when it is dropped.
pub(crate) struct Runs<'a>(pub(crate) &'a Sandbox);

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        for pid in runs(self.0) {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
    }
}

/// A worker process. It is killed when it is dropped, with the runs that it started.
pub(crate) struct Working<'a> {
    child: Child,
    _runs: Runs<'a>,
}

impl<'a> Working<'a> {
    pub(crate) fn start(sandbox: &'a Sandbox) -> Self {
        Self::start_with(sandbox, &[])
    }

    fn start_with(sandbox: &'a Sandbox, more: &[&str]) -> Self {
        let child = sandbox.start(&[&["worker"], more].concat());
        let pid = format!("{}-", child.id());
        wait_until("the worker is registered", || {
            let workers = std::fs::read_dir(sandbox.home().join("workers"));
            let names = workers.into_iter().flatten().flatten();
            names.map(|entry| entry.file_name()).any(|name| {
                let name = name.to_string_lossy();
                name.starts_with(&pid) && name.ends_with(".json")
            })
        });
        Self {
            child,
            _runs: Runs(sandbox),
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The session as `segno status NAME --json` shows it.
fn session(sandbox: &Sandbox, name: &str) -> Value {
    let output = sandbox.segno(&["status", name, "--json"]).expect_success();
    output.json().remove(0)
}

fn status(sandbox: &Sandbox, name: &str) -> String {
    session(sandbox, name)["status"]
        .as_str()
        .unwrap()
        .to_owned()
}

pub(crate) fn wait_for_status(sandbox: &Sandbox, name: &str, wanted: &str) {
    wait_until(&format!("{name} is {wanted}"), || {
        status(sandbox, name) == wanted
    });
}

fn events(sandbox: &Sandbox, name: &str, kind: &str) -> Vec<Value> {
    let output = sandbox.segno(&["logs", name, "--json"]).expect_success();
    let mut events = output.json();
    events.retain(|event| event["kind"] == kind);
    events
}

/// How often the agent was called for each step.
fn calls_by_step(sandbox: &Sandbox) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for step in sandbox.calls() {
        *counted.entry(step).or_default() += 1;
    }
    counted
}

/// An agent's command that waits until this file exists.
pub(crate) fn wait_for_file(name: &str) -> String {
    format!("while [ ! -e {name} ]; do sleep 0.02; done")
}

/// Hands a session to the workers, and returns its name.
fn detach(sandbox: &Sandbox, words: &[&str]) -> String {
    let words = [&["run", "chain.yaml", "--detach", "--json"], words].concat();
    let output = sandbox.segno(&words).expect_success();
    let line = output.json().remove(0);
    assert_eq!(line["status"], "pending");
    line["name"].as_str().unwrap().to_owned()
}

/// Kills the process that runs a session, if one does.
pub(crate) fn kill_run(sandbox: &Sandbox, name: &str) {
    let Some(pid) = session(sandbox, name)["owner"]["pid"].as_i64() else {
        return;
    };
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // It may have ended just now.
    let _ = kill_process(pid, Signal::KILL);
}
