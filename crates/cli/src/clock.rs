//! The system clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chrono::{Local, Offset, TimeZone};
use segno_core::ports::{Boxed, Clock};
use segno_core::time::Timestamp;

pub(crate) struct MachineClock {
    begun: Instant,
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the door that the lint points to"
)]
impl MachineClock {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the door that the lint points to"
)]
impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        let millis = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => {
                i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis)
            }
        };
        Timestamp(millis)
    }

    fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    fn utc_offset(&self, at: Timestamp) -> i64 {
        offset(at)
    }

    fn sleep(&self, duration: Duration) -> Boxed<'_, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Offset of local time from UTC at a timestamp, in seconds. `TZ` overrides the system's time zone.
pub(crate) fn offset(at: Timestamp) -> i64 {
    let here = Local.timestamp_millis_opt(at.0).single();
    here.map_or(0, |here| here.offset().fix().local_minus_utc().into())
}
