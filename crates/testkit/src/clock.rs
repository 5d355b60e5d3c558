//! A clock that is turned by hand, and chance that comes from a seed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use segno_core::ports::{Boxed, Clock, Random};
use segno_core::time::Timestamp;

/// Stands still until it is turned. Waiting turns it.
#[derive(Debug)]
pub struct HandClock {
    millis: AtomicI64,
}

impl Default for HandClock {
    fn default() -> Self {
        Self {
            millis: AtomicI64::new(1_794_738_089_000),
        }
    }
}

impl HandClock {
    /// Turns it forward, or back if negative.
    pub fn turn(&self, millis: i64) {
        self.millis.fetch_add(millis, Ordering::SeqCst);
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
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.turn(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX));
        })
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
