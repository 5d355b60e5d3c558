//! Timestamps and their text forms. Times are for users; no guarantee depends on one (P15).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant: milliseconds since 1970-01-01 00:00 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
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
}

/// A local date and time, as a wall clock shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime {
    /// Year, month from 1 and day from 1.
    pub date: (i64, u32, u32),
    /// Hour of 24, minute and second.
    pub time: (u32, u32, u32),
}

impl WallTime {
    /// The local time at an instant, for clocks that are `offset` seconds ahead of UTC.
    pub fn at(moment: Timestamp, offset: i64) -> Self {
        let seconds = moment.0.div_euclid(1000).saturating_add(offset);
        let (year, month, day) = civil(seconds.div_euclid(86_400));
        let second = seconds.rem_euclid(86_400);
        let part = |part: i64| u32::try_from(part).unwrap_or_default();
        Self {
            date: (year, part(month), part(day)),
            time: (
                part(second / 3600),
                part(second / 60 % 60),
                part(second % 60),
            ),
        }
    }

    /// The instant of this local time, where `offset` returns the UTC offset at an instant; `None` if
    /// there is no such date or time. In an hour that occurs twice, the result is either instant.
    pub fn to_timestamp(self, offset: impl Fn(Timestamp) -> i64) -> Option<Timestamp> {
        let (year, month, day) = self.date;
        let (hour, minute, second) = self.time;
        if !(0..=9999).contains(&year) {
            return None;
        }
        let days = days(year, i64::from(month), i64::from(day));
        if civil(days) != (year, i64::from(month), i64::from(day))
            || hour > 23
            || minute > 59
            || second > 59
        {
            return None;
        }
        let shown = (days * 86_400 + i64::from(hour * 3600 + minute * 60 + second)) * 1000;
        // The offset depends on the result: the first guess is close, the second exact.
        let near = Timestamp(shown - offset(Timestamp(shown)) * 1000);
        Some(Timestamp(shown - offset(near) * 1000))
    }
}

/// Formats an instant as local time, `offset` seconds ahead of UTC: `2026-11-15 11:21:29 +01:00`.
pub fn format_local(moment: Timestamp, offset: i64) -> String {
    let WallTime { date, time } = WallTime::at(moment, offset);
    let (sign, ahead) = if offset < 0 {
        ('-', -offset)
    } else {
        ('+', offset)
    };
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02} {sign}{:02}:{:02}",
        date.0,
        date.1,
        date.2,
        time.0,
        time.1,
        time.2,
        ahead / 3600,
        ahead / 60 % 60
    )
}

/// ISO 8601 in UTC with milliseconds: `2026-11-15T10:21:29.000Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.0.div_euclid(86_400_000);
        let millis = self.0.rem_euclid(86_400_000);
        let (year, month, day) = civil(days);
        let (hour, minute) = (millis / 3_600_000, millis / 60_000 % 60);
        let (second, milli) = (millis / 1000 % 60, millis % 1000);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z"
        )
    }
}

/// Year, month and day of a day counted from 1970-01-01. The year is shifted to start in March, so that
/// the leap day is its last day and months follow one linear rule.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

/// The number of a day, counted from 1970-01-01: the inverse of [`civil`].
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
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
            (1_794_738_089_007, "2026-11-15T10:21:29.007Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "10000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp(millis).to_string(), text);
        }
    }

    #[test]
    fn civil_dates_round_trip() {
        for day in (-1_000_000..1_000_000).step_by(37) {
            let (year, month, of_month) = civil(day);
            assert_eq!(days(year, month, of_month), day);
        }
    }

    #[test]
    fn wall_times_use_their_utc_offset() {
        let moment = Timestamp(1_794_738_089_007);
        for (offset, text) in [
            (0, "2026-11-15 10:21:29 +00:00"),
            (20_700, "2026-11-15 16:06:29 +05:45"),
            (-39_600, "2026-11-14 23:21:29 -11:00"),
        ] {
            assert_eq!(format_local(moment, offset), text);
            let shown = WallTime::at(moment, offset);
            assert_eq!(
                shown.to_timestamp(|_| offset),
                Some(Timestamp(1_794_738_089_000))
            );
        }
    }

    #[test]
    fn out_of_range_wall_times_have_no_timestamp() {
        for date in [
            (i64::MIN, 11, 6),
            (i64::MAX, 11, 6),
            (2026, 2, 29),
            (2026, u32::MAX, u32::MAX),
        ] {
            let shown = WallTime {
                date,
                time: (8, 49, 0),
            };
            assert_eq!(shown.to_timestamp(|_| 0), None, "{date:?}");
        }
        let shown = WallTime {
            date: (2026, 11, 6),
            time: (u32::MAX, 60, 60),
        };
        assert_eq!(shown.to_timestamp(|_| 0), None);
    }

    #[test]
    fn offset_is_taken_at_the_resulting_instant() {
        // Two hours ahead until 01:00 UTC of this day, one hour from then on.
        let change = Timestamp(1_792_890_000_000);
        let offset = |at: Timestamp| if at < change { 7200 } else { 3600 };
        for (time, before) in [((1, 30, 0), true), ((3, 30, 0), false)] {
            let shown = WallTime {
                date: (2026, 10, 25),
                time,
            };
            let moment = shown.to_timestamp(offset).unwrap();
            assert_eq!(moment < change, before);
            assert_eq!(WallTime::at(moment, offset(moment)), shown);
        }
    }

    #[test]
    fn nonexistent_dates_have_no_timestamp() {
        for (date, time) in [
            ((2026, 2, 29), (1, 0, 0)),
            ((2026, 13, 1), (1, 0, 0)),
            ((2026, 0, 1), (1, 0, 0)),
            ((2026, 1, 0), (1, 0, 0)),
            ((2026, 1, 1), (24, 0, 0)),
            ((2026, 1, 1), (1, 60, 0)),
            ((123_456, 1, 1), (1, 0, 0)),
        ] {
            assert_eq!(
                WallTime { date, time }.to_timestamp(|_| 0),
                None,
                "{date:?}"
            );
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
