//! The right to write a session's journal.
//!
//! A lease is granted by comparing and setting one row, so one of any number of askers gets it.
//! Each grant raises the run number, and the store compares run numbers inside every write (P3):
//! an owner that was overtaken can do no harm, whatever any clock says. Time only decides from
//! when on others may ask.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::SessionId;
use crate::journal::Run;
use crate::time::Timestamp;

/// A process that can own a lease, told apart from every other that ever had its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// The machine's name, for people.
    pub host: String,
    /// This boot of the machine's kernel.
    pub boot: String,
    /// The process namespace: the same number means another process in another container.
    pub namespace: String,
    /// The process number.
    pub pid: u32,
    /// When the process started, in the kernel's ticks since boot.
    pub started: u64,
}

/// A session's lease as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// The newest run granted.
    pub run: Run,
    /// Who has it; nobody after a release.
    pub owner: Option<Owner>,
    /// Since when.
    pub since: Timestamp,
    /// Until when, unless it is renewed.
    pub until: Timestamp,
    /// How long that is from now, by the store's own clock; zero if it ran out.
    pub remaining: Duration,
}

/// How the owner's process is doing, as far as can be seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// It runs on this machine.
    Running,
    /// It is on this machine and stopped (SIGSTOP, debugger, frozen).
    Stopped,
    /// It was on this machine and is no more.
    Gone,
    /// It is on another machine, in another container, or from before a reboot.
    OutOfSight,
}

/// What may be done about a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Ask for it.
    Ask,
    /// End the stopped owner, then ask: a stopped process may hold the database's file lock.
    EndAndAsk,
    /// It is held.
    Held,
}

/// Decides whether a lease may be asked for.
pub fn judge(lease: &Lease, liveness: Liveness) -> Verdict {
    let expired = lease.remaining.is_zero();
    match (&lease.owner, liveness) {
        (None, _) | (Some(_), Liveness::Gone) => Verdict::Ask,
        (Some(_), Liveness::Stopped) if expired => Verdict::EndAndAsk,
        (Some(_), _) if expired => Verdict::Ask,
        (Some(_), _) => Verdict::Held,
    }
}

/// Looks at, and ends, processes that own leases.
pub trait Processes: Send + Sync {
    /// This process.
    fn current(&self) -> Owner;

    /// The name of this machine, as its owners have it.
    fn host(&self) -> String {
        self.current().host
    }

    /// How `owner` is doing.
    fn liveness(&self, owner: &Owner) -> Liveness;

    /// Ends `owner`, and returns when it is gone. Does nothing to a process that merely has the
    /// same number.
    fn end(&self, owner: &Owner) -> std::io::Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(owned: bool, remaining: u64) -> Lease {
        let process = Owner {
            host: "a".into(),
            boot: "b".into(),
            namespace: "n".into(),
            pid: 1,
            started: 1,
        };
        Lease {
            session: SessionId::new(Timestamp(0), [0; 10]),
            run: Run(1),
            owner: owned.then_some(process),
            since: Timestamp(0),
            until: Timestamp(0),
            remaining: Duration::from_secs(remaining),
        }
    }

    #[test]
    fn who_may_ask_and_when() {
        use Liveness::{Gone, OutOfSight, Running, Stopped};
        use Verdict::{Ask, EndAndAsk, Held};
        for (owned, remaining, liveness, verdict) in [
            (false, 9, Running, Ask),
            (true, 9, Gone, Ask),
            (true, 0, Gone, Ask),
            (true, 9, Running, Held),
            (true, 0, Running, Ask),
            (true, 9, Stopped, Held),
            (true, 0, Stopped, EndAndAsk),
            (true, 9, OutOfSight, Held),
            (true, 0, OutOfSight, Ask),
        ] {
            assert_eq!(
                judge(&lease(owned, remaining), liveness),
                verdict,
                "{liveness:?} {remaining}"
            );
        }
    }
}
