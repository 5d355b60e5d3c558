//! The processes below a process guard, and how they are killed.
//!
//! The kernel hands a process whose parent ends to the nearest subreaper above it, before the
//! parent can be reaped. So it is enough to kill only children (and their groups): whatever they
//! leave behind become children, and when there is no child left there is no descendant left. It is
//! also the only safe method: a child's pid cannot be reused before the guard has reaped it.

use std::fs;
use std::time::Duration;

use rustix::event::{Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpgrp, getpid, kill_process, kill_process_group, wait,
};

/// How many rounds without any process ending are enough to give up: about 5 seconds. Only a
/// process of another user, or one stuck in the kernel, takes that long to die of a `SIGKILL`.
const MAX_IDLE_ROUNDS: u32 = 120;

/// The agent and all its descendants.
pub(super) struct ProcessTree {
    agent: Pid,
    status: Option<WaitStatus>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reaped {
    /// There is no child left.
    All,
    /// This many children were reaped; others still run.
    Some(usize),
}

impl ProcessTree {
    pub(super) fn new(agent: Pid) -> Self {
        Self {
            agent,
            status: None,
        }
    }

    /// The agent's exit status, if it has been reaped.
    pub(super) fn agent_status(&self) -> Option<WaitStatus> {
        self.status
    }

    /// Reaps the children that have ended.
    pub(super) fn reap(&mut self) -> Reaped {
        let mut count = 0;
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    count += 1;
                    if pid == self.agent {
                        self.status = Some(status);
                    }
                }
                Ok(None) => return Reaped::Some(count),
                Err(Errno::INTR) => {}
                Err(_) => return Reaped::All,
            }
        }
    }

    /// Kills until no process is left. Returns how many could not be killed, which is nearly always
    /// 0.
    pub(super) fn kill_all(&mut self) -> usize {
        // Most of the tree is in the agent's group, which one signal reaches. The pid surely
        // denotes that group only as long as the agent is not reaped.
        if self.status.is_none() {
            let _ = kill_process_group(self.agent, Signal::KILL);
        }
        let mut idle = 0;
        loop {
            match self.reap() {
                Reaped::All => return 0,
                Reaped::Some(0) => idle += 1,
                Reaped::Some(_) => idle = 0,
            }
            // Repeated: a process that forks faster than it dies leaves new children of the guard.
            let left = kill_children();
            if idle > MAX_IDLE_ROUNDS {
                return left;
            }
            pause(Duration::from_millis(if idle < 20 { 1 } else { 50 }));
        }
    }
}

/// Kills the children of this process, each with its group; returns how many there were. It may
/// miss some while processes come and go.
fn kill_children() -> usize {
    let (own, own_group) = (getpid(), getpgrp());
    let Ok(entries) = fs::read_dir("/proc") else {
        return 0;
    };
    let processes =
        entries.filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?));
    let mut count = 0;
    for process in processes {
        let Some((parent, group)) = parent_and_group(process) else {
            continue;
        };
        if parent != own {
            continue;
        }
        count += 1;
        // A group dies at once, between two forks, and it lies completely within one session of the
        // tree. Only the guard's own group, which every process in its session may join, is spared.
        if group != own_group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = kill_process(process, Signal::KILL);
    }
    count
}

fn parent_and_group(process: Pid) -> Option<(Pid, Pid)> {
    #[expect(
        clippy::disallowed_methods,
        reason = "/proc is an interface of the kernel, not a file on disk"
    )]
    let stat = fs::read(format!("/proc/{}/stat", process.as_raw_pid())).ok()?;
    parse_stat(&stat)
}

/// Parent and group in a line such as `17 (any) thing) S 4 17 ...`: the name may contain any
/// character.
fn parse_stat(stat: &[u8]) -> Option<(Pid, Pid)> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = str::from_utf8(&stat[name_end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace().skip(1);
    let mut pid = || Pid::from_raw(fields.next()?.parse().ok()?);
    Some((pid()?, pid()?))
}

fn pause(duration: Duration) {
    let duration = Timespec::try_from(duration).expect("a few milliseconds fit into a timespec");
    let _ = poll(&mut [], Some(&duration));
}

#[cfg(test)]
mod tests {
    use rustix::process::getppid;

    use super::*;

    #[test]
    fn stat_is_parsed_behind_any_process_name() {
        for (stat, expected) in [
            ("17 (sh) S 4 17 1", Some((4, 17))),
            ("17 (a) R 9 9) Z 5 8", Some((5, 8))),
            ("17 (\n)) S 6 1", Some((6, 1))),
            ("17 (kthread) S 0 0", None),
            ("17 (sh) S 4", None),
            ("17 (sh", None),
            ("", None),
        ] {
            let found = parse_stat(stat.as_bytes());
            let found = found.map(|(parent, group)| (parent.as_raw_pid(), group.as_raw_pid()));
            assert_eq!(found, expected, "{stat}");
        }
    }

    #[test]
    fn own_parent_and_group_are_found() {
        let parent = getppid().expect("a test has a parent");
        assert_eq!(parent_and_group(getpid()), Some((parent, getpgrp())));
    }
}
