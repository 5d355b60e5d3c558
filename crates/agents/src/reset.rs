//! Parses when a usage limit resets from the error messages of programs that report it in no other
//! way.
//!
//! A message that cannot be parsed yields no time: the error is then handled like any other.

use std::time::Duration;

use jiff::civil::{DateTime, Time};
use segno_core::agent::{Error, ErrorKind};
use segno_core::ports::Clock;
use segno_core::time::Timestamp;

/// Programs report times to the minute; the limit ends when that minute has passed.
const MINUTE_MS: i64 = 60_000;

/// Adds the retry delay to a rate limit error if its message says when the limit resets.
pub(crate) fn with_retry_delay(error: Error, clock: &dyn Clock) -> Error {
    let ErrorKind::RateLimited(None) = error.kind else {
        return error;
    };
    let wait = parse_retry_delay(&error.message, clock);
    Error::new(ErrorKind::RateLimited(wait), error.message)
}

fn parse_retry_delay(message: &str, clock: &dyn Clock) -> Option<Duration> {
    let lower = message.to_lowercase();
    let now = clock.now();
    let span = parse_try_again_in(&lower).or_else(|| {
        Some(Duration::from_secs(json_number(
            &lower,
            "resets_in_seconds",
        )?))
    });
    span.or_else(|| {
        let at = json_number(&lower, "resets_at")
            .and_then(|seconds| Some(Timestamp(i64::try_from(seconds).ok()?.checked_mul(1000)?)))
            .or_else(|| parse_try_again_at(&lower, clock))?;
        Some(at.since(now)).filter(|wait| !wait.is_zero())
    })
}

/// Parses the duration in `… try again in 2 days 3 hours 4 minutes.`
pub(crate) fn parse_try_again_in(lower: &str) -> Option<Duration> {
    let (_, rest) = lower.split_once("try again in ")?;
    let mut words = rest.split([' ', ',']).filter(|w| !w.is_empty());
    let mut seconds = 0_u64;
    while let Some(count) = words.next().and_then(|word| word.parse::<u64>().ok()) {
        let unit = match words.next()?.trim_end_matches(['.', 's']) {
            "day" => 24 * 3600,
            "hour" => 3600,
            "minute" | "min" => 60,
            "second" | "sec" | "" => 1,
            _ => break,
        };
        seconds = seconds.saturating_add(count.saturating_mul(unit));
    }
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Parses the number after a JSON key: `"resets_at": 1794803700`.
fn json_number(lower: &str, key: &str) -> Option<u64> {
    let (_, rest) = lower.split_once(key)?;
    let rest = rest.strip_prefix('"').unwrap_or(rest).trim_start();
    let rest = rest.strip_prefix(':')?.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

/// Parses `… try again at 1:59 AM.` (the next occurrence) or `… try again at Nov 20th, 2026 1:59
/// AM.`, both in local time.
fn parse_try_again_at(lower: &str, clock: &dyn Clock) -> Option<Timestamp> {
    let (_, rest) = lower.split_once("try again at ")?;
    let words = rest.split([' ', ',']).filter(|word| !word.is_empty());
    let punctuation = |c: char| !c.is_ascii_alphanumeric();
    let words = words.map(|word| word.trim_end_matches(punctuation));
    let words: Vec<&str> = words.take(5).collect();
    let reset_on = |shown| {
        let begins = Timestamp::from_local(shown, |at| clock.utc_offset(at));
        Timestamp(begins.0 + MINUTE_MS)
    };
    if let [month, day, year, time, half] = words[..]
        && let day = day.trim_end_matches(|c: char| c.is_ascii_alphabetic())
        && let shown = format!("{month} {day} {year} {time} {half}")
        && let Ok(shown) = DateTime::strptime("%b %d %Y %I:%M %p", shown)
    {
        return Some(reset_on(shown));
    }
    let [time, half, ..] = words[..] else {
        return None;
    };
    let time = Time::strptime("%I:%M %p", format!("{time} {half}")).ok()?;
    // Today's time, if it has not passed; otherwise tomorrow's.
    let now = clock.now();
    let days = [now, now.after(Duration::from_hours(24))];
    let mut resets = days.into_iter().filter_map(|day| {
        let date = day.to_local(clock.utc_offset(day))?.date();
        Some(reset_on(date.to_datetime(time)))
    });
    resets.find(|at| *at > now)
}

#[cfg(test)]
mod tests {
    use segno_core::ports::Boxed;

    use super::*;

    /// A clock fixed at 2026-11-15 10:21:29 UTC, in a time zone with this offset in seconds.
    struct ClockAt(i64);

    impl Clock for ClockAt {
        fn now(&self) -> Timestamp {
            Timestamp(1_794_738_089_000)
        }

        fn elapsed(&self) -> Duration {
            Duration::ZERO
        }

        fn utc_offset(&self, _: Timestamp) -> i64 {
            self.0
        }

        fn sleep(&self, _: Duration) -> Boxed<'_, ()> {
            Box::pin(std::future::pending())
        }
    }

    fn retry_seconds(message: &str, offset: i64) -> Option<u64> {
        let error = Error::new(ErrorKind::RateLimited(None), message);
        match with_retry_delay(error, &ClockAt(offset)).kind {
            ErrorKind::RateLimited(wait) => wait.map(|wait| wait.as_secs()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reset_times_are_parsed_in_local_time() {
        for (message, offset, seconds) in [
            (
                "You’ve hit your usage limit. Try again at 10:25 AM.",
                0,
                271,
            ),
            (
                "You've hit your usage limit. Upgrade to Pro or try again at 12:00 PM.",
                0,
                5971,
            ),
            // The current minute.
            ("Try again at 10:21 AM.", 0, 31),
            // The previous minute: tomorrow's.
            ("Try again at 10:20 AM.", 0, 86_371),
            ("Try again at 12:05 AM.", 0, 49_471),
            // Local time is 16:06:29.
            ("Try again at 4:10 PM.", 20_700, 271),
            ("Try again at 10:25 AM.", 20_700, 65_971),
            ("Try again at Nov 15th, 2026 10:25 AM.", 0, 271),
            ("Try again at Dec 1st, 2026 12:00 AM.", 0, 1_345_171),
            ("Try again at Feb 29th, 2028 12:00 PM.", 20_700, 40_679_671),
            ("Try again at 10:25 AM. See the docs, or upgrade.", 0, 271),
            ("Try again in 3 days 2 hours 5 minutes.", 0, 266_700),
            ("try again in 45 seconds", 0, 45),
            (
                r#"{"error":{"type":"usage_limit_reached","resets_in_seconds":90}}"#,
                0,
                90,
            ),
            (r#"{"resets_at": 1794738189, "x": 1}"#, 20_700, 100),
        ] {
            assert_eq!(retry_seconds(message, offset), Some(seconds), "{message}");
        }
    }

    #[test]
    fn unparsable_reset_times_give_no_delay() {
        for message in [
            "usage limit reached",
            "Try again later.",
            "Try again at",
            "Try again at noon.",
            "Try again at 13:05 PM.",
            "Try again at 0:05 AM.",
            "Try again at 1:60 AM.",
            "Try again at 10:25.",
            "Try again at 10:25 UTC.",
            "Try again at Nov 31st, 2026 1:00 AM.",
            "Try again at Feb 29th, 2027 1:00 AM.",
            "Try again at Nov 20th 1:00 AM.",
            "Try again at Nov 20th, 2026.",
            "Try again at Foo 3rd, 2026 1:00 AM.",
            "Try again at Nov 3rd, 99999999999999999999 1:00 AM.",
            // In the past.
            "Try again at Nov 14th, 2026 1:00 AM.",
            r#"{"resets_at": 1794738089}"#,
            r#"{"resets_at": -5}"#,
            r#"{"resets_at": 99999999999999999999999}"#,
            r#"{"resets_at": 18446744073709551615}"#,
            r#"{"resets_at": "soon"}"#,
            "try again in many days",
        ] {
            assert_eq!(retry_seconds(message, 0), None, "{message}");
        }
    }
}
