//! Ends what a process guard left behind that was itself killed.
//!
//! The kernel kills the agent together with its guard (`replace_process` in [`process_guard`]), but not
//! what the agent had started. A guard therefore marks the agent's environment, which everything below
//! inherits, with a name of itself. A process whose guard is gone is an orphan: the driver ends it when
//! it notices that the guard is gone, and the next run of the session does so before it starts anything.
//!
//! A process that has cleared its environment, has left the agent, and outlives a killed guard is not
//! found.
//!
//! [`process_guard`]: super::process_guard

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;
use std::{fmt, io};

use tokio::process::Child;

use crate::process::{self, Process};

/// The environment variable that names the guard of a process.
pub(super) const GUARD: &str = "SEGNO_GUARD";
/// The environment variable that names the session of a process.
pub(crate) const SESSION: &str = "SEGNO_SESSION";

/// How long one round waits for a process to end.
const ROUND: Duration = Duration::from_millis(50);
/// How many rounds a guard gets that has lost its owner and is ending its tree, before it is killed.
const PATIENCE: u32 = 60;
/// How many rounds there are.
const ROUNDS: u32 = 200;

/// The name of a process guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GuardMark {
    pid: u32,
    /// When it started, in kernel ticks since boot.
    started: u64,
    /// The process that started it.
    owner: u32,
    /// The pid namespace in which these pids mean something.
    namespace: String,
}

/// What became of a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GuardState {
    /// It guards for a living owner, or in another container, where nobody here can tell.
    Guarding,
    /// Its owner is gone; it is ending its tree.
    Ending,
    Gone,
}

impl fmt::Display for GuardMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pid,
            started,
            owner,
            namespace,
        } = self;
        write!(f, "{pid}:{started}:{owner}:{namespace}")
    }
}

impl GuardMark {
    /// The mark of the guard `pid`; `None` if there is no such process.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let stat = process::stat(pid)?;
        Some(Self {
            pid,
            started: stat.started,
            owner: stat.parent,
            namespace: process::namespace(),
        })
    }

    fn parse(mark: &str) -> Option<Self> {
        let mut fields = mark.splitn(4, ':');
        Some(Self {
            pid: fields.next()?.parse().ok()?,
            started: fields.next()?.parse().ok()?,
            owner: fields.next()?.parse().ok()?,
            namespace: fields.next()?.to_owned(),
        })
    }

    fn state(&self) -> GuardState {
        if self.namespace != process::namespace() {
            return GuardState::Guarding;
        }
        let stat = process::stat(self.pid).filter(|stat| stat.started == self.started);
        match stat.filter(process::Stat::is_alive) {
            None => GuardState::Gone,
            Some(stat) if stat.parent == self.owner => GuardState::Guarding,
            Some(_) => GuardState::Ending,
        }
    }
}

/// Waits until a guard has ended and, if it was killed, ends what it left behind.
pub(crate) async fn end_guard(mut guard: Child) {
    let pid = guard.id();
    let killed = guard
        .wait()
        .await
        .is_ok_and(|status| status.signal().is_some());
    if !killed {
        return;
    }
    let is_below =
        move |found: &GuardMark| Some(found.pid) == pid && found.owner == std::process::id();
    // The next run refuses what this could not end.
    let _ = tokio::task::spawn_blocking(move || end(is_below, |_| true)).await;
}

/// Ends what earlier runs of a session left behind, and what belongs to no session; waits for guards that
/// are doing so. Returns the pids. An error says which processes do not end.
pub fn end_orphans(session: &str) -> io::Result<Vec<u32>> {
    // Programs that serve no step, such as MCP servers, know no session.
    let belongs = |pid: u32| process::variable(pid, SESSION).is_none_or(|value| value == session);
    end(|_| true, belongs)
}

/// Ends the processes whose guard is wanted and gone. This process and those above it are spared.
fn end(
    is_wanted: impl Fn(&GuardMark) -> bool,
    belongs: impl Fn(u32) -> bool,
) -> io::Result<Vec<u32>> {
    let spared = process::self_and_ancestors();
    let mut ended = Vec::new();
    for round in 0..ROUNDS {
        let mut left = Vec::new();
        for pid in process::all().filter(|pid| !spared.contains(pid)) {
            // Opened before it is looked at: see `process`.
            let Some((process, guard)) = Process::open(pid).zip(mark_of(pid)) else {
                continue;
            };
            if !is_wanted(&guard) || !belongs(pid) {
                continue;
            }
            match guard.state() {
                GuardState::Guarding => continue,
                GuardState::Ending if round < PATIENCE => {}
                GuardState::Ending => {
                    Process::open(guard.pid).map_or(Ok(()), |guard| guard.kill())?;
                }
                GuardState::Gone => {
                    process.kill()?;
                    ended.push(pid);
                }
            }
            left.push((pid, process));
        }
        let Some((_, first)) = left.first() else {
            ended.sort_unstable();
            ended.dedup();
            return Ok(ended);
        };
        first.wait(ROUND);
        if round + 1 == ROUNDS {
            let pids: Vec<String> = left.iter().map(|(pid, _)| pid.to_string()).collect();
            let message = format!("process {} does not end", pids.join(", "));
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
    }
    Ok(ended)
}

fn mark_of(pid: u32) -> Option<GuardMark> {
    GuardMark::parse(&process::variable(pid, GUARD)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_reads_back() {
        let mark = GuardMark::of(std::process::id()).unwrap();
        assert_eq!(GuardMark::parse(&mark.to_string()), Some(mark.clone()));
        assert_eq!(mark.state(), GuardState::Guarding);
        for broken in ["", "1:2:3", "a:2:3:n", "1:2:x:n"] {
            assert_eq!(GuardMark::parse(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn guard_is_told_from_later_processes_of_its_pid() {
        let here = GuardMark::of(std::process::id()).unwrap();
        let elsewhere = |change: fn(&mut GuardMark)| {
            let mut mark = here.clone();
            change(&mut mark);
            mark.state()
        };
        assert_eq!(elsewhere(|mark| mark.started += 1), GuardState::Gone);
        assert_eq!(elsewhere(|mark| mark.owner += 1), GuardState::Ending);
        // What the pids of another container mean is not known here.
        let other_container = elsewhere(|mark| {
            mark.namespace.push('x');
            mark.started += 1;
        });
        assert_eq!(other_container, GuardState::Guarding);
    }
}
