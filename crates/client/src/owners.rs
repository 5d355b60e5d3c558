//! The processes that run a server's sessions, as far as the server tells.

use std::io;
use std::sync::{Mutex, PoisonError};

use segno_core::id::SessionId;
use segno_core::lease::{Liveness, Owner, Processes};

/// How many owners are remembered; a command asks about few.
const MOST: usize = 10_000;

/// Knows which owners of leases are stopped (SIGSTOP). All others count as out of sight: whether
/// they live is in the lease.
pub struct RemoteOwners {
    here: Owner,
    stopped: Mutex<Vec<Owner>>,
}

impl RemoteOwners {
    pub fn new(here: Owner) -> Self {
        Self {
            here,
            stopped: Mutex::default(),
        }
    }

    /// Remembers what the server said about an owner.
    pub(crate) fn note(&self, owner: &Owner, is_stopped: bool) {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.retain(|known| known != owner);
        if is_stopped && stopped.len() < MOST {
            stopped.push(owner.clone());
        }
    }
}

fn elsewhere() -> io::Error {
    io::Error::other("the process is on the machine of the server")
}

impl Processes for RemoteOwners {
    fn current(&self) -> Owner {
        self.here.clone()
    }

    fn liveness(&self, owner: &Owner) -> Liveness {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        if stopped.contains(owner) {
            Liveness::Stopped
        } else {
            Liveness::Unobservable
        }
    }

    fn kill(&self, _: &Owner) -> io::Result<()> {
        Err(elsewhere())
    }

    fn end_tree(&self, _: u32, _: u64) -> io::Result<()> {
        Err(elsewhere())
    }

    fn end_orphans(&self, _: SessionId) -> io::Result<Vec<u32>> {
        Err(elsewhere())
    }
}
