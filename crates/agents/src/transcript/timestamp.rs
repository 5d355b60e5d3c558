//! Timestamps as transcripts write them.

use segno_core::time::Timestamp;

/// Parses `2026-11-15T07:39:47.506Z`, with any number of decimals and `Z` or an offset; `None` for
/// anything else.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = bytes.get(from..to)?;
        let plain = digits.iter().all(u8::is_ascii_digit);
        plain.then(|| text[from..to].parse().ok())?
    };
    let sign = |at: usize, of: &[u8]| bytes.get(at).is_some_and(|byte| of.contains(byte));
    let signs = sign(4, b"-") && sign(7, b"-") && sign(10, b"Tt ") && sign(13, b":");
    if !signs || !sign(16, b":") {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let ranges = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !ranges || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (millis, rest) = decimals(text.get(19..)?)?;
    let offset = offset(rest)?;
    let minutes = (days(year, month, day) * 24 + hour) * 60 + minute - offset;
    Some(Timestamp((minutes * 60 + second) * 1000 + millis))
}

/// Milliseconds from `.506…`, and the rest of the text.
fn decimals(text: &str) -> Option<(i64, &str)> {
    let Some(fraction) = text.strip_prefix('.') else {
        return Some((0, text));
    };
    let end = fraction
        .bytes()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(fraction.len());
    if end == 0 {
        return None;
    }
    let (digits, rest) = fraction.split_at(end);
    let three: String = digits.chars().chain("00".chars()).take(3).collect();
    Some((three.parse().ok()?, rest))
}

/// Minutes east of UTC from `Z` or `+01:00`.
fn offset(text: &str) -> Option<i64> {
    if text == "Z" || text == "z" {
        return Some(0);
    }
    let sign = match text.bytes().next()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let part = |text: &str, most: i64| -> Option<i64> {
        let plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = plain.then(|| text.parse::<i64>().ok())??;
        (number <= most).then_some(number)
    };
    Some(sign * (part(hours, 23)? * 60 + part(minutes, 59)?))
}

/// Days from 1970-01-01, by years that begin in March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_round_trip() {
        for millis in [0, 951_782_400_000, 1_794_738_089_007, 1_709_164_799_999] {
            assert_eq!(
                parse_timestamp(&Timestamp(millis).to_string()),
                Some(Timestamp(millis))
            );
        }
    }

    #[test]
    fn timestamp_variants_parse_and_nonsense_does_not() {
        let at = Some(Timestamp(1_794_738_089_000));
        for text in [
            "2026-11-15T10:21:29Z",
            "2026-11-15T10:21:29.000123Z",
            "2026-11-15T11:21:29+01:00",
            "2026-11-15 10:21:29.0z",
        ] {
            assert_eq!(parse_timestamp(text), at, "{text}");
        }
        for text in [
            "",
            "yesterday",
            "2026-13-15T10:21:29Z",
            "2026-11-15T10:21:29",
            "2026-11-15T10:21:29.Z",
            "2026-11-15T10:21:29+1:00",
            "2026-11-15T+1:21:29Z",
            "2026-11-15Tää:21:29Z",
        ] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }
}
