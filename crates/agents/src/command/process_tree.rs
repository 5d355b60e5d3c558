//! The processes below a process guard, and how they are killed.
//!
//! The kernel hands a process whose parent ends to the nearest subreaper above it, before the
//! parent can be reaped. So it is enough to kill only children (and their groups): whatever they
//! leave behind become children, and when there is no child left there is no descendant left. It is
//! also the only safe method: a child's pid cannot be reused before the guard has reaped it.

use std::time::Duration;

use rustix::event::{Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpgrp, kill_process, kill_process_group, wait,
};

use crate::process;

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
    let (own, own_group) = (std::process::id(), getpgrp());
    let mut count = 0;
    for pid in process::all() {
        let stat = process::stat(pid).filter(|stat| stat.parent == own);
        let Some((child, group)) = stat.and_then(|stat| Some((raw(pid)?, raw(stat.group)?))) else {
            continue;
        };
        count += 1;
        // A group dies at once, between two forks, and it lies completely within one session of the
        // tree. Only the guard's own group, which every process in its session may join, is spared.
        if group != own_group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = kill_process(child, Signal::KILL);
    }
    count
}

fn raw(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

fn pause(duration: Duration) {
    let duration = Timespec::try_from(duration).expect("a few milliseconds fit into a timespec");
    let _ = poll(&mut [], Some(&duration));
}
