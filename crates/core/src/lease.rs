//! The lease: the right to write a session's journal.
//!
//! The store grants a lease with one compare-and-set, so exactly one of any number of callers gets it.
//! Each grant increments the run, and the store compares runs inside every write (P3): a fenced owner
//! can do no harm, whatever any clock says. Time only decides from when on another process may acquire
//! the lease.

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

/// Whether and how a lease may be acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseDecision {
    /// Acquire it.
    Acquire,
    /// Kill the stopped owner, then acquire: a stopped process may hold the database's file lock.
    KillAndAcquire,
    /// Another process holds it.
    Held,
}

/// Decides whether a lease may be acquired.
pub fn assess(lease: &Lease, liveness: Liveness) -> LeaseDecision {
    let expired = lease.remaining.is_zero();
    match (&lease.owner, liveness) {
        (None, _) | (Some(_), Liveness::Gone) => LeaseDecision::Acquire,
        (Some(_), Liveness::Stopped) if expired => LeaseDecision::KillAndAcquire,
        (Some(_), _) if expired => LeaseDecision::Acquire,
        (Some(_), _) => LeaseDecision::Held,
    }
}

/// Inspects and kills processes that own leases.
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
    fn verdict_depends_on_expiry_and_liveness() {
        use LeaseDecision::{Acquire, Held, KillAndAcquire};
        use Liveness::{Gone, Running, Stopped, Unobservable};
        for (owned, remaining, liveness, verdict) in [
            (false, 9, Running, Acquire),
            (true, 9, Gone, Acquire),
            (true, 0, Gone, Acquire),
            (true, 9, Running, Held),
            (true, 0, Running, Acquire),
            (true, 9, Stopped, Held),
            (true, 0, Stopped, KillAndAcquire),
            (true, 9, Unobservable, Held),
            (true, 0, Unobservable, Acquire),
        ] {
            assert_eq!(
                assess(&lease(owned, remaining), liveness),
                verdict,
                "{liveness:?} {remaining}"
            );
        }
    }

    #[test]
    fn host_is_that_of_this_process() {
        struct Here;

        impl Processes for Here {
            fn current(&self) -> Owner {
                lease(true, 0).owner.unwrap()
            }

            fn liveness(&self, _: &Owner) -> Liveness {
                Liveness::Unobservable
            }

            fn kill(&self, _: &Owner) -> std::io::Result<()> {
                Ok(())
            }
        }

        assert_eq!(Here.host(), "a");
    }
}
