//! A clock that is turned by hand, and chance that comes from a seed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use segno_core::ports::{Boxed, Clock, Random};
use segno_core::time::Timestamp;

/// Stands still until it is turned, or until everyone waits: then it jumps to the moment that the
/// first of them waits for, so that sleepers wake in the order of their times.
#[derive(Debug)]
pub struct HandClock {
    millis: AtomicI64,
    sleepers: Mutex<BTreeSet<(i64, u64)>>,
    next: AtomicU64,
}

impl Default for HandClock {
    fn default() -> Self {
        Self {
            millis: AtomicI64::new(1_794_738_089_000),
            sleepers: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }
}

impl HandClock {
    /// Turns it forward, or back if negative.
    pub fn turn(&self, millis: i64) {
        self.millis.fetch_add(millis, Ordering::SeqCst);
    }

    fn sleepers(&self) -> MutexGuard<'_, BTreeSet<(i64, u64)>> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.millis.load(Ordering::SeqCst))
    }

    fn elapsed(&self) -> Duration {
        self.now().since(Timestamp(0))
    }

    fn sleep(&self, duration: Duration) -> Boxed<'_, ()> {
        let until = self.now().after(duration).0;
        let ticket = (until, self.next.fetch_add(1, Ordering::SeqCst));
        self.sleepers().insert(ticket);
        let sleeper = Sleeper {
            clock: self,
            ticket,
        };
        Box::pin(async move {
            loop {
                // Others get their turn first, and may want to wake earlier.
                tokio::task::yield_now().await;
                let now = self.millis.load(Ordering::SeqCst);
                if sleeper.is_first() {
                    self.millis.fetch_max(until, Ordering::SeqCst);
                    return;
                }
                if now >= until {
                    return;
                }
            }
        })
    }
}

/// Someone who waits; gone when it has woken or was given up.
struct Sleeper<'a> {
    clock: &'a HandClock,
    ticket: (i64, u64),
}

impl Sleeper<'_> {
    fn is_first(&self) -> bool {
        self.clock.sleepers().first() == Some(&self.ticket)
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.clock.sleepers().remove(&self.ticket);
    }
}

/// Chance that repeats itself from the same seed.
#[derive(Debug)]
pub struct Seeded(Mutex<u64>);

impl Seeded {
    /// The stream of numbers of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }

    /// A number below `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn next(&self) -> u64 {
        let mut state = self.0.lock().expect("no one panics while holding it");
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

impl Random for Seeded {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.next().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }
}
