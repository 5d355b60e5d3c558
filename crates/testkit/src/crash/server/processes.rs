//! The processes of a trial: one server, workers beside it, and the runs that they start.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::client::Shared;
use super::fixture::Fixture;
use crate::crash::trial::Violation;
use crate::sandbox::{is_overdue, run_to_end};
use crate::serving::{SERVE, Serving, processes, runs};

/// How many sessions run at once.
const MAX_RUNS: &str = "6";
/// How long a look at the processes may be ago.
const PAUSE: Duration = Duration::from_millis(2);

/// How many processes were killed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Kills {
    pub(super) servers: u64,
    pub(super) workers: u64,
    pub(super) runs: u64,
}

/// The variable with the file that names the process which a failpoint killed.
pub(super) const ONCE: &str = "SEGNO_FAILPOINT_ONCE";

/// Environment variables that arm a failpoint.
pub(super) type Faults = Vec<(&'static str, String)>;

/// All of them are killed when it is dropped.
pub(super) struct Processes<'a> {
    fixture: &'a Fixture,
    server: Serving,
    workers: Vec<Child>,
    faults: Faults,
    pub(super) kills: Kills,
    pub(super) violations: Vec<Violation>,
}

impl<'a> Processes<'a> {
    pub(super) fn start(fixture: &'a Fixture, workers: usize, faults: Faults) -> Self {
        Self {
            fixture,
            server: serve(fixture, &faults),
            workers: (0..workers).map(|_| worker(fixture)).collect(),
            faults,
            kills: Kills::default(),
            violations: Vec::new(),
        }
    }

    pub(super) fn address(&self) -> String {
        self.server.address.clone()
    }

    /// Kills the server, then the first `runs` runs, and starts a server again.
    pub(super) fn kill_server(&mut self, runs: usize, down: Duration, shared: &Shared<'_>) {
        self.server.kill();
        self.kills.servers += 1;
        self.kill_runs(runs);
        thread::sleep(down);
        self.restart(shared);
    }

    /// Starts a server again that has ended. Only a failpoint may have ended it.
    pub(super) fn restart_ended(&mut self, shared: &Shared<'_>) {
        if !self.server.has_ended() {
            return;
        }
        let once = self.faults.iter().find(|(name, _)| *name == ONCE);
        let killed = once.and_then(|(_, file)| fs::read_to_string(file).ok());
        if killed != Some(self.server.pid().to_string()) {
            let what = format!("the server ended by itself with {:?}", self.server.wait());
            self.violations.push(Violation::Damage(what));
        }
        self.kills.servers += 1;
        self.restart(shared);
    }

    fn restart(&mut self, shared: &Shared<'_>) {
        self.faults.clear();
        self.server = serve(self.fixture, &self.faults);
        shared
            .address
            .lock()
            .unwrap()
            .clone_from(&self.server.address);
    }

    /// Kills a worker, and starts another one.
    pub(super) fn kill_worker(&mut self, index: usize) {
        let _ = self.workers[index].kill();
        let _ = self.workers[index].wait();
        self.kills.workers += 1;
        self.workers[index] = worker(self.fixture);
    }

    /// Kills up to so many runs.
    pub(super) fn kill_runs(&mut self, most: usize) {
        for pid in runs(&self.fixture.sandbox).into_iter().take(most) {
            // It may have ended just now.
            self.kills.runs += u64::from(signal(pid, Signal::KILL));
        }
    }

    /// A second server of the home must be refused.
    pub(super) fn start_second_server(&mut self) {
        let said = run_to_end(self.fixture.sandbox.command(&SERVE));
        let is_refused = said.status.code().is_some_and(|code| code != 0);
        let is_named = said.stdout.contains("N0111") || said.stderr.contains("N0111");
        if !is_refused || !is_named {
            let what = format!("a second server of one home: {said:?}");
            self.violations.push(Violation::Damage(what));
        }
    }

    /// Asks all to stop. Nothing may be left of them, or of what they started.
    pub(super) fn stop(mut self) -> Vec<Violation> {
        let mut violations = Vec::new();
        self.server.signal(Signal::TERM);
        let code = self.server.wait();
        if code != Some(0) {
            let what = format!("the server ended with {code:?}");
            violations.push(Violation::Stuck(what));
        }
        for mut worker in self.workers.drain(..) {
            signal(i32::try_from(worker.id()).unwrap(), Signal::TERM);
            let ended = worker.wait().unwrap();
            if !ended.success() {
                let what = format!("a worker ended with {ended}");
                violations.push(Violation::Stuck(what));
            }
        }
        let (begun, mut left) = (Instant::now(), processes(&self.fixture.sandbox));
        while !left.is_empty() && !is_overdue(begun) {
            thread::sleep(PAUSE);
            left = processes(&self.fixture.sandbox);
        }
        let pids = left.iter().filter_map(|pid| u32::try_from(*pid).ok());
        violations.extend(pids.map(Violation::Orphan));
        violations
    }
}

impl Drop for Processes<'_> {
    fn drop(&mut self) {
        self.server.kill();
        for worker in &mut self.workers {
            let _ = worker.kill();
            let _ = worker.wait();
        }
        for pid in processes(&self.fixture.sandbox) {
            signal(pid, Signal::KILL);
        }
    }
}

fn signal(pid: i32, signal: Signal) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| kill_process(pid, signal).is_ok())
}

/// What servers and workers print.
fn log_file(fixture: &Fixture) -> PathBuf {
    fixture.sandbox.work().with_file_name("stderr")
}

fn log(fixture: &Fixture) -> Stdio {
    let mut options = OpenOptions::new();
    let options = options.create(true).append(true);
    options.open(log_file(fixture)).unwrap().into()
}

/// What servers, workers and the newest run of each session printed.
pub(super) fn printed(fixture: &Fixture) -> Vec<String> {
    let runs = fs::read_dir(fixture.sandbox.home().join("workers/logs"));
    let runs = runs.into_iter().flatten().flatten().map(|file| file.path());
    let files = runs.chain([log_file(fixture)]);
    files.flat_map(fs::read_to_string).collect()
}

fn serve(fixture: &Fixture, faults: &Faults) -> Serving {
    let words = [&SERVE[..], &["--max-runs", MAX_RUNS]].concat();
    let mut command = fixture.sandbox.command(&words);
    command.envs(faults.iter().map(|(name, value)| (*name, value)));
    Serving::with_stderr(command, log(fixture))
}

fn worker(fixture: &Fixture) -> Child {
    let words = ["worker", "--max-runs", MAX_RUNS];
    let mut command = fixture.sandbox.command(&words);
    let command = command.stdout(Stdio::null()).stderr(log(fixture));
    command.spawn().unwrap()
}
