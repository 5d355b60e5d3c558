//! The lease: the right to write a session's journal.
//!
//! The store grants a lease with one compare-and-set, so exactly one of any number of callers gets it.
//! Each grant increments the run, and the store compares runs inside every write (P3): a fenced owner
//! can do no harm, whatever any clock says.
//!
//! On one machine the owner's life decides when another process may acquire the lease, not the time
//! (P15): the owner holds a lock that the kernel releases when it dies. Time decides only where no
//! such lock can be seen, between machines.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::SessionId;
use crate::journal::Run;
use crate::time::Timestamp;

/// The identity of a process that can own a lease; distinguishes it from other processes that ever had
/// the same pid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// The host name, for users.
    pub host: String,
    /// The kernel's boot id.
    pub boot: String,
    /// The pid namespace: the same pid means another process in another container.
    pub namespace: String,
    pub pid: u32,
    /// When the process started, in kernel ticks since boot.
    pub started: u64,
}

/// A session's lease as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub session: SessionId,
    /// The newest granted run.
    pub run: Run,
    /// The current owner; `None` after a release.
    pub owner: Option<Owner>,
    /// When the lease was granted.
    pub since: Timestamp,
    /// When the lease expires unless it is renewed.
    pub until: Timestamp,
    /// The time until expiry by the store's own clock; zero if the lease has expired.
    pub remaining: Duration,
    /// Whether the owner lives, as far as the operating system's locks tell.
    pub lock: OwnerLock,
}

/// The lock that the owner of a lease holds while it lives. The operating system releases it when the
/// owner's process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerLock {
    /// Nobody holds it: the owner, if there is one, is gone.
    Free,
    /// A living process holds it.
    Held,
    /// The store has no such lock, or cannot see it.
    Unknown,
}

/// The state of the owner's process, as far as this process can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// The process runs on this machine.
    Running,
    /// The process is on this machine and stopped (SIGSTOP, debugger, frozen).
    Stopped,
    /// The process was on this machine and no longer exists.
    Gone,
    /// The process is on another machine, in another container, or from before a reboot.
    Unobservable,
}

/// Whether a lease may be acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseDecision {
    /// Acquire it.
    Acquire,
    /// A living process holds it.
    Held,
    /// A process holds it that lives and is stopped (SIGSTOP). Only a user or their policy may end it.
    HeldByStopped,
}

impl LeaseDecision {
    /// Whether a living process holds the lease, stopped or not.
    pub const fn is_held(self) -> bool {
        matches!(self, Self::Held | Self::HeldByStopped)
    }
}

/// Decides whether a lease may be acquired.
pub fn assess(lease: &Lease, liveness: Liveness) -> LeaseDecision {
    let alive = if liveness == Liveness::Stopped {
        LeaseDecision::HeldByStopped
    } else {
        LeaseDecision::Held
    };
    match (lease.lock, &lease.owner) {
        // Also without an owner: another process is acquiring it right now.
        (OwnerLock::Held, _) => alive,
        (OwnerLock::Free, _) | (OwnerLock::Unknown, None) => LeaseDecision::Acquire,
        (OwnerLock::Unknown, Some(_)) => match liveness {
            Liveness::Gone => LeaseDecision::Acquire,
            Liveness::Running | Liveness::Stopped => alive,
            Liveness::Unobservable if lease.remaining.is_zero() => LeaseDecision::Acquire,
            Liveness::Unobservable => LeaseDecision::Held,
        },
    }
}

/// Inspects and kills processes: those that own leases, and those that agents run in.
pub trait Processes: Send + Sync {
    /// This process.
    fn current(&self) -> Owner;

    /// This machine's host name, as in [`Owner::host`].
    fn host(&self) -> String {
        self.current().host
    }

    /// The state of `owner`'s process.
    fn liveness(&self, owner: &Owner) -> Liveness;

    /// Kills `owner` and returns when the process is gone. Does nothing to another process that merely
    /// has the same pid.
    fn kill(&self, owner: &Owner) -> std::io::Result<()>;

    /// Ends a process and everything below it, and returns when they are gone. Does nothing to another
    /// process that merely has the same pid: `started` is as in [`Owner::started`].
    fn end_tree(&self, pid: u32, started: u64) -> std::io::Result<()>;

    /// Ends the processes that earlier runs of a session started and left behind, and returns their
    /// pids when they are gone. The caller holds the session's lease.
    fn end_orphans(&self, session: SessionId) -> std::io::Result<Vec<u32>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(lock: OwnerLock, owned: bool, remaining: u64) -> Lease {
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
            lock,
        }
    }

    #[test]
    fn lock_decides_and_time_only_without_one() {
        use LeaseDecision::{Acquire, Held, HeldByStopped};
        use Liveness::{Gone, Running, Stopped, Unobservable};
        use OwnerLock::{Free, Unknown};
        let locked = OwnerLock::Held;
        for (lock, owned, remaining, liveness, decision) in [
            // The wall clock says nothing where a lock does (P15).
            (locked, true, 0, Running, Held),
            (locked, true, 9, Running, Held),
            (locked, true, 0, Unobservable, Held),
            (locked, true, 0, Gone, Held),
            (locked, false, 0, Gone, Held),
            (locked, true, 0, Stopped, HeldByStopped),
            (locked, true, 9, Stopped, HeldByStopped),
            (Free, true, 9, Unobservable, Acquire),
            (Free, true, 9, Running, Acquire),
            (Free, false, 9, Gone, Acquire),
            (Unknown, false, 9, Running, Acquire),
            (Unknown, true, 9, Gone, Acquire),
            (Unknown, true, 0, Running, Held),
            (Unknown, true, 0, Stopped, HeldByStopped),
            (Unknown, true, 9, Unobservable, Held),
            (Unknown, true, 0, Unobservable, Acquire),
        ] {
            assert_eq!(
                assess(&lease(lock, owned, remaining), liveness),
                decision,
                "{lock:?} {owned} {remaining} {liveness:?}"
            );
        }
    }

    #[test]
    fn host_is_that_of_this_process() {
        struct Here;

        impl Processes for Here {
            fn current(&self) -> Owner {
                lease(OwnerLock::Unknown, true, 0).owner.unwrap()
            }

            fn liveness(&self, _: &Owner) -> Liveness {
                Liveness::Unobservable
            }

            fn kill(&self, _: &Owner) -> std::io::Result<()> {
                Ok(())
            }

            fn end_tree(&self, _: u32, _: u64) -> std::io::Result<()> {
                Ok(())
            }

            fn end_orphans(&self, _: SessionId) -> std::io::Result<Vec<u32>> {
                Ok(Vec::new())
            }
        }

        assert_eq!(Here.host(), "a");
    }
}
