//! A histogram of durations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::exposition::Text;

/// The upper bounds of the buckets, in milliseconds, and as text in seconds.
const BOUNDS: [(u64, &str); 12] = [
    (1, "0.001"),
    (2, "0.002"),
    (5, "0.005"),
    (10, "0.01"),
    (25, "0.025"),
    (50, "0.05"),
    (100, "0.1"),
    (250, "0.25"),
    (1_000, "1"),
    (2_500, "2.5"),
    (10_000, "10"),
    (60_000, "60"),
];

/// How many durations were how long.
#[derive(Default)]
pub(super) struct Histogram {
    buckets: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    sum_us: AtomicU64,
}

impl Histogram {
    pub(super) fn add(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.iter().position(|(ms, _)| micros <= ms * 1000);
        if let Some(bucket) = bucket {
            self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(micros, Ordering::Relaxed);
    }

    pub(super) fn write(&self, text: &mut Text, name: &str, labels: &[(&str, &str)]) {
        let count = self.count.load(Ordering::Relaxed);
        let mut below = 0;
        let bucket_name = format!("{name}_bucket");
        for ((_, bound), bucket) in BOUNDS.iter().zip(&self.buckets) {
            below += bucket.load(Ordering::Relaxed);
            let labels = [labels, &[("le", bound)]].concat();
            // Others count meanwhile: no bucket has more than the whole.
            text.sample(&bucket_name, &labels, below.min(count));
        }
        text.sample(&bucket_name, &[labels, &[("le", "+Inf")]].concat(), count);
        let sum = self.sum_us.load(Ordering::Relaxed) as f64 / 1e6;
        text.sample(&format!("{name}_sum"), labels, sum);
        text.sample(&format!("{name}_count"), labels, count);
    }
}
