//! Segno, an agent and its model server, isolated from everything else.

use std::fs::{self, File};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::strike::Driver;
use crate::model::Script;
use crate::programs::{Agent, AgentFixture};
use crate::sandbox::is_overdue;

/// How often conditions are checked.
const PAUSE: Duration = Duration::from_millis(2);

/// A workflow of one step, which an agent executes.
pub struct StepFixture {
    pub agent: Agent,
    workshop: AgentFixture,
    spec: PathBuf,
}

impl Deref for StepFixture {
    type Target = AgentFixture;

    fn deref(&self) -> &AgentFixture {
        &self.workshop
    }
}

/// A segno process; its output goes to files.
pub struct Run {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl StepFixture {
    /// The binary at `segno`, and an agent whose model answers from a script. The agent may do
    /// everything without approval.
    pub fn new(segno: &Path, agent: Agent, script: Script) -> Self {
        Self::driven_by(segno, agent, Driver::Own, script)
    }

    /// The same with another driver.
    pub fn driven_by(segno: &Path, agent: Agent, driver: Driver, script: Script) -> Self {
        let marker = script.marker();
        let workshop = AgentFixture::new(segno, [script], "all");
        let provider = match driver {
            Driver::Own => agent.provider().to_owned(),
            Driver::Acp => format!("acp, command: [{}]", agent.adapter()),
        };
        let runtime = format!("provider: {provider}, failure_policy: {{wait_min: 0.1}}");
        Self {
            agent,
            spec: workshop.write_task(&runtime, &marker),
            workshop,
        }
    }

    /// Starts the workflow.
    pub fn start_task(&self) -> Run {
        self.start(&["run", self.spec.to_str().unwrap(), "--json"])
    }

    /// Starts segno with these arguments.
    pub fn start(&self, words: &[&str]) -> Run {
        let number = fs::read_dir(self.sandbox.work()).unwrap().count();
        let at = |name: &str| self.sandbox.work().join(format!("{name}-{number}"));
        let (stdout, stderr) = (at("said"), at("told"));
        let mut command = self.command(words);
        command.stdout(File::create(&stdout).unwrap());
        command.stderr(File::create(&stderr).unwrap());
        let child = command.spawn().unwrap();
        Run {
            child,
            stdout,
            stderr,
        }
    }

    /// The journal: kinds and bodies; empty if there is no session.
    pub fn journal(&self) -> Vec<(String, Value)> {
        self.journal_records("task")
    }

    /// The status of the session; empty if there is none.
    pub fn status(&self) -> String {
        let shown = self.segno(&["show", "task", "--json"]);
        let first = shown.stdout.lines().next().unwrap_or_default();
        let shown: Value = serde_json::from_str(first).unwrap_or_default();
        shown["status"].as_str().unwrap_or_default().to_owned()
    }

    /// The agent's process, if it runs: the first one, since it may start itself again.
    pub fn program(&self) -> Option<u32> {
        self.agent_sandbox.programs(self.agent).into_iter().min()
    }

    /// Waits until a condition holds. Returns whether it did in time, and before `run` ended.
    pub fn wait_until(&self, run: &mut Run, mut condition: impl FnMut(&Run) -> bool) -> bool {
        let mut over = false;
        wait_until(|| {
            over = run.has_ended();
            over || condition(run)
        }) && !over
    }

    /// The agent's processes that are still running, after they had time to end.
    pub(super) fn programs_left(&self) -> Vec<u32> {
        wait_until(|| self.agent_sandbox.programs(self.agent).is_empty());
        self.agent_sandbox.programs(self.agent)
    }

    /// Waits a moment before a condition is checked again.
    pub(super) fn pause() {
        thread::sleep(PAUSE);
    }

    /// The processes that are still running, after they had time to end.
    pub fn orphans(&self) -> Vec<u32> {
        wait_until(|| self.agent_sandbox.processes().is_empty());
        self.agent_sandbox.processes()
    }
}

impl Run {
    /// The process.
    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn stdout(&self) -> String {
        fs::read_to_string(&self.stdout).unwrap_or_default()
    }

    pub fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end; kills it if that takes too long.
    pub fn wait(&mut self) -> ExitStatus {
        if !wait_until(|| self.child.try_wait().unwrap().is_some()) {
            let _ = self.child.kill();
        }
        self.child.wait().unwrap()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal; returns whether a process received it.
pub(super) fn send(pid: u32, signal: Signal) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
}

fn wait_until(mut condition: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !condition() {
        if is_overdue(begun) {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}
