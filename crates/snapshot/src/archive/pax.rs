//! PAX records, which precede a member and contain what does not fit into its header block.

use crate::entry::FileTime;

/// The longest records that are read for one member (P10).
pub(super) const LONGEST: u64 = 8 * 1024 * 1024;

/// Appends a record: its own length, a key, a value.
pub(super) fn put(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    out.extend_from_slice(length.to_string().as_bytes());
    out.push(b' ');
    out.extend_from_slice(key);
    out.push(b'=');
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// A key and a value.
type Record<'a> = (&'a [u8], &'a [u8]);

/// Parses records.
pub(super) fn records(mut bytes: &[u8]) -> Result<Vec<Record<'_>>, &'static str> {
    const WRONG: &str = "its extended header cannot be parsed";
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let space = bytes.iter().take(20).position(|byte| *byte == b' ');
        let digits = &bytes[..space.ok_or(WRONG)?];
        let length = std::str::from_utf8(digits).ok();
        let length: usize = length.and_then(|it| it.parse().ok()).ok_or(WRONG)?;
        if length <= digits.len() + 1 || length > bytes.len() {
            return Err(WRONG);
        }
        let (record, rest) = bytes.split_at(length);
        let record = &record[digits.len() + 1..];
        let record = record.strip_suffix(b"\n").ok_or(WRONG)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or(WRONG)?;
        records.push((&record[..equals], &record[equals + 1..]));
        bytes = rest;
    }
    Ok(records)
}

/// A timestamp as seconds with a fraction.
pub(super) fn format_time(time: FileTime) -> String {
    let FileTime { seconds, nanos } = time;
    // The fraction of a negative number counts downwards.
    let (sign, seconds, nanos) = match (seconds, nanos) {
        (0.., _) => ("", seconds.unsigned_abs(), nanos),
        (_, 0) => ("-", seconds.unsigned_abs(), 0),
        _ => ("-", (seconds + 1).unsigned_abs(), 1_000_000_000 - nanos),
    };
    if nanos == 0 {
        return format!("{sign}{seconds}");
    }
    let fraction = format!("{nanos:09}");
    format!("{sign}{seconds}.{}", fraction.trim_end_matches('0'))
}

/// Parses a timestamp; digits beyond nanoseconds are dropped.
pub(super) fn parse_time(value: &[u8]) -> Option<FileTime> {
    let text = std::str::from_utf8(value).ok()?;
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let seconds: i64 = whole.parse().ok()?;
    let fraction = format!("{fraction:0<9}");
    let nanos: u32 = fraction.get(..9)?.parse().ok()?;
    Some(match (negative, nanos) {
        (false, nanos) => FileTime { seconds, nanos },
        (true, 0) => FileTime {
            seconds: -seconds,
            nanos: 0,
        },
        (true, nanos) => FileTime {
            seconds: (-seconds).checked_sub(1)?,
            nanos: 1_000_000_000 - nanos,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pax_records_encode_their_own_length() {
        for length in 0..1200 {
            let mut out = Vec::new();
            let value = vec![b'\n'; length];
            put(&mut out, b"key", &value);
            put(&mut out, b"other", b"a=b");
            let read = records(&out).unwrap();
            assert_eq!(read, [(&b"key"[..], &value[..]), (b"other", b"a=b")]);
        }
    }

    #[test]
    fn malformed_pax_records_are_refused() {
        for wrong in [
            "5 a=b\n",
            "7 a=b\n",
            "6 a=bc",
            "6 abc\n",
            "x a=b\n",
            " a=b\n",
            "0 \n",
            "99999999999999999999 a=b\n",
            "-6 a=b\n",
        ] {
            assert!(records(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn timestamps_round_trip_before_and_after_1970() {
        for seconds in [i64::MIN + 1, -2, -1, 0, 1, 1_794_738_089, i64::MAX] {
            for nanos in [0, 1, 120_000_000, 999_999_999] {
                let time = FileTime { seconds, nanos };
                let text = format_time(time);
                assert_eq!(parse_time(text.as_bytes()), Some(time), "{text}");
            }
        }
        let half = FileTime {
            seconds: -2,
            nanos: 500_000_000,
        };
        assert_eq!(format_time(half), "-1.5");
        for wrong in ["", "-", ".5", "1.x", "1e9", "99999999999999999999", "+1"] {
            assert_eq!(parse_time(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
