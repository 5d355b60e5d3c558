//! Slows down clients that guess tokens.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use segno_core::ports::Clock;

use super::Peer;
use crate::error::Refusal;

/// How many failures of one peer are answered as such, within [`WINDOW`].
const MAX_FAILURES: u32 = 20;
const WINDOW: Duration = Duration::from_mins(1);
/// How many peers are remembered.
const MAX_PEERS: usize = 1024;

/// The failed attempts of each peer. A valid token is accepted however many failed before: nobody
/// guesses it, and nobody can lock others out.
pub(crate) struct FailedLogins {
    clock: Arc<dyn Clock>,
    peers: Mutex<HashMap<Peer, Failures>>,
}

struct Failures {
    since: Duration,
    count: u32,
}

impl FailedLogins {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            peers: Mutex::default(),
        }
    }

    /// Counts a failure, and returns its answer.
    pub(crate) fn count(&self, peer: Peer) -> Refusal {
        let now = self.clock.elapsed();
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|_, failures| now.saturating_sub(failures.since) < WINDOW);
        if peers.len() >= MAX_PEERS && !peers.contains_key(&peer) {
            return too_many(WINDOW);
        }
        let failures = peers.entry(peer).or_insert(Failures {
            since: now,
            count: 0,
        });
        failures.count = failures.count.saturating_add(1);
        if failures.count > MAX_FAILURES {
            return too_many(WINDOW.saturating_sub(now.saturating_sub(failures.since)));
        }
        Refusal::InvalidToken
    }
}

fn too_many(rest: Duration) -> Refusal {
    Refusal::TooManyFailures {
        seconds: rest.as_secs().max(1),
    }
}
