//! Timestamps and their text forms. Times are for users; no guarantee depends on one (P15).
//!
//! The calendar is jiff's. Only its arithmetic and its parsers are used here: the clock and the time
//! zone of the machine enter through [`Clock`](crate::ports::Clock).

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;
use serde::{Deserialize, Serialize};

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// The calendar repeats after this many years, which have this many seconds.
const CYCLE_YEARS: i64 = 400;
const CYCLE: i64 = 146_097 * 86_400;

/// An instant: milliseconds since 1970-01-01 00:00 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Parses ISO 8601 with a UTC offset, as `2026-11-15T07:39:47.506Z`; `None` for anything else.
    /// What is finer than milliseconds is dropped.
    pub fn parse(text: &str) -> Option<Self> {
        let text = with_nine_decimals(text);
        let pieces = Pieces::parse(&*text).ok()?;
        let shown = pieces.date().to_datetime(pieces.time()?);
        let offset = pieces.to_numeric_offset()?.seconds();
        Some(Self::from_local(shown, |_| offset.into()))
    }

    /// The instant at which local clocks show `shown`, where `offset` returns their UTC offset in
    /// seconds at an instant. If they show it twice, the result is either instant.
    pub fn from_local(shown: DateTime, offset: impl Fn(Self) -> i64) -> Self {
        let nanos = shown.duration_since(EPOCH).as_nanos();
        let shown = i64::try_from(nanos.div_euclid(1_000_000))
            .expect("jiff's years end with 9999, which is 2^48 milliseconds");
        // The offset depends on the result: the first guess is close, the second exact.
        let near = Self(shown - offset(Self(shown)) * 1000);
        Self(shown - offset(near) * 1000)
    }

    /// What local clocks show at this instant, to the second, if they are `offset` seconds ahead of
    /// UTC; `None` outside the years -9999 to 9999.
    pub fn to_local(self, offset: i64) -> Option<DateTime> {
        let seconds = self.0.div_euclid(1000).saturating_add(offset);
        EPOCH.checked_add(SignedDuration::from_secs(seconds)).ok()
    }

    /// The instant `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// The instant `duration` earlier.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(millis))
    }

    /// The time from `earlier` to `self`; zero if the clock went backwards.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).try_into().unwrap_or(0))
    }

    /// The year and, in a year with the same calendar, the date and time that clocks show which are
    /// `offset` seconds ahead of UTC. Unlike jiff's years, these do not end.
    fn calendar(self, offset: i64) -> (i64, DateTime) {
        let seconds = self.0.div_euclid(1000).saturating_add(offset);
        let in_cycle = SignedDuration::from_secs(seconds.rem_euclid(CYCLE));
        let shown = EPOCH.saturating_add(in_cycle);
        let cycles = seconds.div_euclid(CYCLE);
        (i64::from(shown.year()) + cycles * CYCLE_YEARS, shown)
    }
}

/// The text with at most nine decimals: jiff refuses more.
fn with_nine_decimals(text: &str) -> Cow<'_, str> {
    let Some((seconds, rest)) = text.split_once('.') else {
        return text.into();
    };
    let offset = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    match rest[..rest.len() - offset.len()].get(..9) {
        Some(decimals) => format!("{seconds}.{decimals}{offset}").into(),
        None => text.into(),
    }
}

/// Formats an instant as local time, `offset` seconds ahead of UTC: `2026-11-15 11:21:29 +01:00`.
pub fn format_local(moment: Timestamp, offset: i64) -> String {
    let (year, shown) = moment.calendar(offset);
    let (sign, ahead) = if offset < 0 {
        ('-', -offset)
    } else {
        ('+', offset)
    };
    format!(
        "{year:04}-{:02}-{:02} {:02}:{:02}:{:02} {sign}{:02}:{:02}",
        shown.month(),
        shown.day(),
        shown.hour(),
        shown.minute(),
        shown.second(),
        ahead / 3600,
        ahead / 60 % 60
    )
}

/// ISO 8601 in UTC with milliseconds: `2026-11-15T10:21:29.000Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, shown) = self.calendar(0);
        write!(
            f,
            "{year:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            shown.month(),
            shown.day(),
            shown.hour(),
            shown.minute(),
            shown.second(),
            self.0.rem_euclid(1000)
        )
    }
}

/// Formats a duration for users: `850 ms`, `4.2 s`, `3 min 20 s`, `2 h 05 min`, `3 d 4 h`.
pub fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_formatted_in_utc() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_164_799_999, "2024-02-28T23:59:59.999Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (1_794_738_089_007, "2026-11-15T10:21:29.007Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (-62_167_219_200_000, "0000-01-01T00:00:00.000Z"),
            (-62_167_219_200_001, "-001-12-31T23:59:59.999Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "10000-01-01T00:00:00.000Z"),
            (i64::MAX, "292278994-08-17T07:12:55.807Z"),
            (i64::MIN, "-292275055-05-16T16:47:04.192Z"),
        ] {
            assert_eq!(Timestamp(millis).to_string(), text);
        }
    }

    #[test]
    fn local_times_use_their_utc_offset() {
        let moment = Timestamp(1_794_738_089_007);
        for (offset, text) in [
            (0, "2026-11-15 10:21:29 +00:00"),
            (20_700, "2026-11-15 16:06:29 +05:45"),
            (-39_600, "2026-11-14 23:21:29 -11:00"),
        ] {
            assert_eq!(format_local(moment, offset), text);
            let shown = moment.to_local(offset).unwrap();
            assert_eq!(
                Timestamp::from_local(shown, |_| offset),
                Timestamp(1_794_738_089_000)
            );
        }
        for (millis, offset, text) in [
            (-1, 3600, "1970-01-01 00:59:59 +01:00"),
            (253_402_300_799_999, 3600, "10000-01-01 00:59:59 +01:00"),
            (i64::MAX, -3600, "292278994-08-17 06:12:55 -01:00"),
        ] {
            assert_eq!(format_local(Timestamp(millis), offset), text);
        }
        assert_eq!(Timestamp(253_402_300_799_999).to_local(3600), None);
    }

    #[test]
    fn dates_round_trip_through_text() {
        for day in (-700_000..2_900_000).step_by(37) {
            let moment = Timestamp(day * 86_400_000 + 43_200_001);
            assert_eq!(Timestamp::parse(&moment.to_string()), Some(moment));
        }
    }

    #[test]
    fn iso_8601_with_an_offset_parses() {
        for (text, millis) in [
            ("2026-11-15T10:21:29Z", 1_794_738_089_000),
            ("2026-11-15T10:21:29.000123Z", 1_794_738_089_000),
            ("2026-11-15T10:21:29.999999999Z", 1_794_738_089_999),
            ("2026-11-15T10:21:29.0070000000000Z", 1_794_738_089_007),
            ("2026-11-15T10:21:29.5Z", 1_794_738_089_500),
            ("2026-11-15t10:21:29.0z", 1_794_738_089_000),
            ("2026-11-15 10:21:29.0z", 1_794_738_089_000),
            ("2026-11-15T11:21:29+01:00", 1_794_738_089_000),
            ("2026-11-15T16:06:29+05:45", 1_794_738_089_000),
            ("2026-11-14T23:21:29-11:00", 1_794_738_089_000),
            ("2026-11-16T10:20:29+23:59", 1_794_738_089_000),
            ("2026-11-15T10:21:29-00:00", 1_794_738_089_000),
            ("2024-02-29T00:00:00Z", 1_709_164_800_000),
            ("2000-02-29T23:59:59Z", 951_868_799_000),
            // The calendar has no leap seconds.
            ("2016-12-31T23:59:60Z", 1_483_228_799_000),
            ("1969-12-31T23:59:59.9999Z", -1),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
            ("9999-12-31T23:59:59-01:00", 253_402_304_399_000),
        ] {
            assert_eq!(Timestamp::parse(text), Some(Timestamp(millis)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_timestamps() {
        for text in [
            "",
            "yesterday",
            "1794738089",
            "2026-11-15",
            "2026-11-15T10:21:29",
            "2026-11-15T10:21:29.Z",
            "2026-11-15T10:21:29+1:00",
            "2026-11-15T10:21:29+24:60",
            "2026-11-15T10:21:29 CET",
            "2026-11-15T10:21:29Z and more",
            "2026-11-15T+1:21:29Z",
            "2026-11-15Tää:21:29Z",
            "2026-11-15T10:21:2\u{665}Z",
            "2026-00-15T10:21:29Z",
            "2026-13-15T10:21:29Z",
            "2026-11-00T10:21:29Z",
            "2026-11-31T10:21:29Z",
            "2026-02-29T10:21:29Z",
            "2100-02-29T10:21:29Z",
            "2026-11-15T24:00:00Z",
            "2026-11-15T10:60:00Z",
            "2026-11-15T10:21:61Z",
            "10000-01-01T00:00:00Z",
            "99999999999999999999-01-01T00:00:00Z",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    #[test]
    fn offset_is_taken_at_the_resulting_instant() {
        // Two hours ahead until 01:00 UTC of this day, one hour from then on.
        let change = Timestamp(1_792_890_000_000);
        let offset = |at: Timestamp| if at < change { 7200 } else { 3600 };
        for (hour, before) in [(1, true), (3, false)] {
            let shown = DateTime::constant(2026, 10, 25, hour, 30, 0, 0);
            let moment = Timestamp::from_local(shown, offset);
            assert_eq!(moment < change, before);
            assert_eq!(moment.to_local(offset(moment)), Some(shown));
        }
    }

    #[test]
    fn clock_going_backwards_yields_zero_elapsed() {
        assert_eq!(Timestamp(5).since(Timestamp(9)), Duration::ZERO);
    }

    #[test]
    fn durations_are_formatted_for_people() {
        for (millis, text) in [
            (850, "850 ms"),
            (4200, "4.2 s"),
            (200_000, "3 min 20 s"),
            (7_500_000, "2 h 05 min"),
            (273_600_000, "3 d 4 h"),
        ] {
            assert_eq!(format_duration(Duration::from_millis(millis)), text);
        }
    }
}
