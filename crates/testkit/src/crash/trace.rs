//! Injects faults into the process, and finds out where it can be killed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::kill::{Fault, Home, SYSCALLS, Tracee, Workload};
use crate::sandbox::{Sandbox, run_to_end};

/// The name of the runtime's blocking threads, which create and restore snapshots.
const BLOCKING_THREAD: &str = "tokio-rt-worker";

/// The arguments that start a workload.
pub(super) const RUN: &[&str] = &["run", "chain.yaml", "--json"];

/// The arguments that resume it.
pub(super) const RESUME: &[&str] = &["resume", "--json"];

fn sibling_path(sandbox: &Sandbox, name: &str) -> PathBuf {
    sandbox.work().with_file_name(name)
}

/// The file in which failpoint visits are logged.
pub(super) fn visits_file(sandbox: &Sandbox) -> PathBuf {
    sibling_path(sandbox, "visits")
}

/// How often each failpoint was visited.
pub(super) fn visits(sandbox: &Sandbox) -> BTreeMap<String, u64> {
    let mut visits = BTreeMap::new();
    let list = fs::read_to_string(visits_file(sandbox)).unwrap_or_default();
    for name in list.lines() {
        *visits.entry(name.to_owned()).or_default() += 1;
    }
    visits
}

/// How often an undisturbed run visits each failpoint.
pub fn count_visits(binary: &Path, workload: Workload) -> BTreeMap<String, u64> {
    let sandbox = workload.sandbox(binary, Home::Fresh);
    let mut command = sandbox.command(RUN);
    command.env("SEGNO_FAILPOINT_LOG", visits_file(&sandbox));
    run_to_end(command).expect_success();
    visits(&sandbox)
}

/// A command that starts the binary with this fault injected.
pub(super) fn command_with_fault(sandbox: &Sandbox, fault: &Fault, words: &[&str]) -> Command {
    // The trace of an earlier fault says nothing about this one.
    let _ = fs::remove_file(sibling_path(sandbox, "trace"));
    match fault {
        Fault::Point { .. } => {
            let mut command = sandbox.command(words);
            command.env("SEGNO_FAILPOINT", fault.to_string());
            command
        }
        Fault::Syscall { tracee, name, nth } => {
            let path = tracee
                .file()
                .map(|name| sandbox.home().join(name).display().to_string());
            let follow: &[&str] = match (tracee, &path) {
                (Tracee::Main, _) => &[],
                (_, None) => &["-f"],
                (_, Some(path)) => &["-f", "-P", path],
            };
            let inject = format!("inject={name}:signal=SIGKILL:when={nth}");
            let trace = format!("trace={name}");
            strace(
                sandbox,
                &[follow, &["-e", &trace, "-e", &inject]].concat(),
                words,
            )
        }
    }
}

/// Whether the last traced command lost a thread or a process to a kill.
pub(super) fn has_killed(sandbox: &Sandbox) -> bool {
    let trace = fs::read_to_string(sibling_path(sandbox, "trace")).unwrap_or_default();
    trace.contains("+++ killed by SIGKILL")
}

fn strace(sandbox: &Sandbox, options: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new("strace");
    sandbox.set_env(&mut command);
    command
        .arg("-q")
        .arg("-o")
        .arg(sibling_path(sandbox, "trace"))
        .args(options)
        .arg("--")
        .arg(sandbox.binary())
        .args(words);
    command
}

/// Panics with advice if there is no strace.
pub fn require_strace() {
    let found = Command::new("strace").arg("--version").output();
    assert!(
        found.is_ok_and(|output| output.status.success()),
        "the crash runner needs strace; run `apt-get install strace`"
    );
}

/// The write-like system calls of an undisturbed run, in order.
#[derive(Debug, Default)]
pub struct Profile {
    calls: Vec<Call>,
}

/// The thread or process that made a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Caller {
    /// The initial thread of the process.
    Main,
    /// A blocking thread of the runtime.
    Blocking(u32),
    /// Something below segno: a process guard, an agent, a thread of theirs.
    Below(u32),
}

#[derive(Debug, Clone, Copy)]
struct Call {
    caller: Caller,
    name: &'static str,
    /// The database file that the call is made on.
    file: Option<Tracee>,
}

impl Profile {
    /// Traces an undisturbed run, or the resume of one that was killed by `before`.
    pub fn of(binary: &Path, workload: Workload, home: Home, before: Option<&Fault>) -> Self {
        let sandbox = workload.sandbox(binary, home);
        let mut words: &[&str] = RUN;
        if let Some(fault) = before {
            let said = run_to_end(command_with_fault(&sandbox, fault, words));
            assert!(said.crashed(), "{fault} does not kill: {said:?}");
            words = RESUME;
        }
        Self::trace(&sandbox, words)
    }

    /// Traces one undisturbed command.
    pub(super) fn trace(sandbox: &Sandbox, words: &[&str]) -> Self {
        let trace = format!("trace={}", SYSCALLS.join(","));
        let options = ["-f", "-y", "--decode-pids=comm", "-e", &trace];
        run_to_end(strace(sandbox, &options, words)).expect_success();
        Self::parse(&fs::read_to_string(sibling_path(sandbox, "trace")).unwrap())
    }

    /// Parses lines such as `4711<segno> pwrite64(7</home/sessions/ID/journal.db-wal>, ...`.
    fn parse(trace: &str) -> Self {
        let mut calls = Vec::new();
        let mut main = None;
        for line in trace.lines() {
            let Some((who, what)) = line.split_once(' ') else {
                continue;
            };
            let (pid, comm) = who.split_once('<').unwrap_or((who, ""));
            let (Ok(pid), Some((word, rest))) = (pid.parse(), what.trim_start().split_once('('))
            else {
                continue;
            };
            let Some(name) = SYSCALLS.iter().find(|name| **name == word) else {
                continue;
            };
            let caller = if pid == *main.get_or_insert(pid) {
                Caller::Main
            } else if comm.trim_end_matches('>') == BLOCKING_THREAD {
                Caller::Blocking(pid)
            } else {
                Caller::Below(pid)
            };
            let first = rest.split([',', ')']).next().unwrap_or_default();
            let object = Path::new(first.trim_end_matches(['>', '"'])).file_name();
            let is_it = |tracee: &&Tracee| {
                tracee
                    .file()
                    .is_some_and(|name| object == Some(name.as_ref()))
            };
            calls.push(Call {
                caller,
                name,
                file: Tracee::ALL.iter().find(is_it).copied(),
            });
        }
        Self { calls }
    }

    /// A fault for each call that can be targeted, and the calls of segno that cannot: those of
    /// blocking threads that come after as many calls of another thread.
    pub fn faults(&self) -> (Vec<Fault>, Vec<String>) {
        let mut made: BTreeMap<(Caller, &str, Tracee), u64> = BTreeMap::new();
        let mut most: BTreeMap<(&str, Tracee), u64> = BTreeMap::new();
        let (mut faults, mut hidden) = (Vec::new(), Vec::new());
        for call in &self.calls {
            // Which call of this thread it is, and whether no other thread has made as many.
            let mut count = |aim: Tracee| {
                let nth = made.entry((call.caller, call.name, aim)).or_default();
                *nth += 1;
                let most = most.entry((call.name, aim)).or_default();
                let is_first = *nth > *most;
                *most = (*most).max(*nth);
                (aim, *nth, is_first)
            };
            let among_all = count(Tracee::Any);
            let on_file = call.file.map(count);
            let (tracee, nth) = match (call.caller, among_all, on_file) {
                (Caller::Main, (_, nth, _), _) => (Tracee::Main, nth),
                (_, (aim, nth, true), _) | (Caller::Blocking(_), _, Some((aim, nth, true))) => {
                    (aim, nth)
                }
                (Caller::Blocking(_), (_, nth, _), _) => {
                    hidden.push(format!("{}:{nth}", call.name));
                    continue;
                }
                (Caller::Below(_), ..) => continue,
            };
            faults.push(Fault::Syscall {
                tracee,
                name: call.name,
                nth,
            });
        }
        (faults, hidden)
    }
}
