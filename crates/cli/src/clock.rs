//! The system clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
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
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door that the lint points to"
)]
pub(crate) fn offset(at: Timestamp) -> i64 {
    // Beyond jiff's years the rules of the last one apply.
    let (first, last) = (jiff::Timestamp::MIN, jiff::Timestamp::MAX);
    let millis = at.0.clamp(first.as_millisecond(), last.as_millisecond());
    let at = jiff::Timestamp::from_millisecond(millis).unwrap_or(last);
    TimeZone::system().to_offset(at).seconds().into()
}
