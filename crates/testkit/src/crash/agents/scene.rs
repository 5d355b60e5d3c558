//! Segno, an agent and its models, each in a place of its own.

use std::fs::{self, File};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::model::Script;
use crate::programs::{Agent, Workshop};
use crate::sandbox::is_overdue;

/// How often is looked whether something has happened.
const PAUSE: Duration = Duration::from_millis(2);

/// A workflow of one step, which is asked of an agent.
pub struct Scene {
    /// The agent.
    pub agent: Agent,
    workshop: Workshop,
    spec: PathBuf,
}

impl Deref for Scene {
    type Target = Workshop;

    fn deref(&self) -> &Workshop {
        &self.workshop
    }
}

/// A segno that was started, and what it says, in files.
pub struct Run {
    child: Child,
    said: PathBuf,
    told: PathBuf,
}

impl Scene {
    /// The binary at `segno`, and an agent whose model answers from a script. It may do everything
    /// unasked.
    pub fn new(segno: &Path, agent: Agent, script: Script) -> Self {
        let marker = script.marker();
        let workshop = Workshop::new(segno, [script], "all");
        let runtime = format!(
            "provider: {}, failure_policy: {{wait_min: 0.1}}",
            agent.provider()
        );
        Self {
            agent,
            spec: workshop.task(&runtime, &marker),
            workshop,
        }
    }

    /// Begins the work.
    pub fn begin(&self) -> Run {
        self.start(&["run", self.spec.to_str().unwrap(), "--json"])
    }

    /// Starts segno.
    pub fn start(&self, words: &[&str]) -> Run {
        let number = fs::read_dir(self.sandbox.work()).unwrap().count();
        let at = |name: &str| self.sandbox.work().join(format!("{name}-{number}"));
        let (said, told) = (at("said"), at("told"));
        let mut command = self.command(words);
        command.stdout(File::create(&said).unwrap());
        command.stderr(File::create(&told).unwrap());
        let child = command.spawn().unwrap();
        Run { child, said, told }
    }

    /// The journal: kinds and bodies; nothing if there is no session.
    pub fn journal(&self) -> Vec<(String, Value)> {
        self.records("task")
    }

    /// How the session stands; empty if there is none.
    pub fn status(&self) -> String {
        let shown = self.segno(&["sessions", "show", "task", "--json"]);
        let first = shown.stdout.lines().next().unwrap_or_default();
        let shown: Value = serde_json::from_str(first).unwrap_or_default();
        shown["status"].as_str().unwrap_or_default().to_owned()
    }

    /// The agent's program, if it runs: the first one, since it may start itself again.
    pub fn program(&self) -> Option<u32> {
        let name = match self.agent {
            Agent::Claude => "claude.exe",
            Agent::Codex => "codex",
        };
        let is_it = |pid: &u32| {
            let file = fs::read_link(format!("/proc/{pid}/exe")).ok();
            file.is_some_and(|file| file.file_name().is_some_and(|file| file == name))
        };
        self.stage.processes().into_iter().filter(is_it).min()
    }

    /// Waits until a condition holds; whether it did in time, and before `run` was over.
    pub fn until(&self, run: &mut Run, mut condition: impl FnMut(&Run) -> bool) -> bool {
        let mut over = false;
        within(|| {
            over = run.is_over();
            over || condition(run)
        }) && !over
    }

    /// What is left running, after a while in which it could have ended.
    pub fn orphans(&self) -> Vec<u32> {
        within(|| self.stage.processes().is_empty());
        self.stage.processes()
    }
}

impl Run {
    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote to stdout so far.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    /// What it wrote to stderr so far.
    pub fn told(&self) -> String {
        fs::read_to_string(&self.told).unwrap_or_default()
    }

    /// Whether it has ended.
    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end; ends it if that takes too long.
    pub fn end(&mut self) -> ExitStatus {
        if !within(|| self.child.try_wait().unwrap().is_some()) {
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

/// Sends a signal; whether there was somebody to get it.
pub(super) fn send(pid: u32, signal: Signal) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
}

fn within(mut condition: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !condition() {
        if is_overdue(begun) {
            return false;
        }
        thread::sleep(PAUSE);
    }
    true
}
