//! A manual clock, and randomness from a seed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use segno_core::ports::{Boxed, Clock, Random};
use segno_core::time::Timestamp;

/// Does not advance until a test advances it, or until every task sleeps: then it jumps to the
/// earliest wake-up time, so that sleepers wake in the order of their deadlines.
#[derive(Debug)]
pub struct ManualClock {
    millis: AtomicI64,
    sleepers: Mutex<BTreeSet<(i64, u64)>>,
    next: AtomicU64,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self {
            millis: AtomicI64::new(1_794_738_089_000),
            sleepers: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }
}

impl ManualClock {
    /// Advances the clock, or sets it back if `millis` is negative.
    pub fn advance(&self, millis: i64) {
        self.millis.fetch_add(millis, Ordering::SeqCst);
    }

    fn sleepers(&self) -> MutexGuard<'_, BTreeSet<(i64, u64)>> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.millis.load(Ordering::SeqCst))
    }

    fn elapsed(&self) -> Duration {
        self.now().since(Timestamp(0))
    }

    fn sleep(&self, duration: Duration) -> Boxed<'_, ()> {
        let until = self.now().after(duration).0;
        let key = (until, self.next.fetch_add(1, Ordering::SeqCst));
        self.sleepers().insert(key);
        let sleeper = Sleeper { clock: self, key };
        Box::pin(async move {
            loop {
                // Other tasks run first: they may register an earlier wake-up time.
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

/// One sleeping task. Dropping it removes the task from the clock, whether it woke or was
/// cancelled.
struct Sleeper<'a> {
    clock: &'a ManualClock,
    key: (i64, u64),
}

impl Sleeper<'_> {
    fn is_first(&self) -> bool {
        self.clock.sleepers().first() == Some(&self.key)
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.clock.sleepers().remove(&self.key);
    }
}

/// Random numbers that are the same for the same seed.
#[derive(Debug)]
pub struct Seeded(Mutex<u64>);

impl Seeded {
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn next(&self) -> u64 {
        let mut state = self
            .0
            .lock()
            .expect("no thread panics while it holds the lock");
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
