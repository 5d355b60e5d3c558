//! Parses when to retry from the headers of an error response.
//!
//! A time is measured against the server's own `Date` header, since the local clock may be wrong.
//! Without that header a time yields no delay.

use std::time::Duration;

use jiff::civil::DateTime;
use reqwest::header::HeaderMap;
use segno_core::time::Timestamp;

/// The rate limit counters of providers: the headers with the remaining count and with the reset.
const COUNTERS: [(&str, &str); 6] = [
    (
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
    ),
    (
        "anthropic-ratelimit-tokens-remaining",
        "anthropic-ratelimit-tokens-reset",
    ),
    (
        "anthropic-ratelimit-input-tokens-remaining",
        "anthropic-ratelimit-input-tokens-reset",
    ),
    (
        "anthropic-ratelimit-output-tokens-remaining",
        "anthropic-ratelimit-output-tokens-reset",
    ),
    (
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-requests",
    ),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
];

/// From here on, a number of seconds is a Unix time rather than a duration.
const MIN_UNIX_TIME: f64 = 1e9;

/// The delay before a retry: `retry-after`, else the latest reset of the exhausted counters.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let millis = text(headers, "retry-after-ms").and_then(|text| text.parse::<f64>().ok());
    if let Some(millis) = millis {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    if let Some(after) = text(headers, "retry-after") {
        let date = || wait_until(headers, parse_http_date(after)?);
        return parse_seconds(after).or_else(date);
    }
    if text(headers, "anthropic-ratelimit-unified-status") == Some("rejected") {
        return parse_header(headers, "anthropic-ratelimit-unified-reset");
    }
    let used_up = |name: &str| text(headers, name) == Some("0");
    let counters = COUNTERS.iter().filter(|(remaining, _)| used_up(remaining));
    let waits = counters.filter_map(|(_, reset)| parse_header(headers, reset));
    waits
        .max()
        .or_else(|| parse_header(headers, "x-ratelimit-reset"))
}

/// Parses a header that holds a duration or a time, in any of the known formats.
fn parse_header(headers: &HeaderMap, name: &str) -> Option<Duration> {
    let text = text(headers, name)?;
    match text.parse::<f64>() {
        Ok(seconds) if seconds >= MIN_UNIX_TIME => wait_until(headers, timestamp_from(seconds)?),
        _ => parse_seconds(text)
            .or_else(|| parse_units(text))
            .or_else(|| wait_until(headers, Timestamp::parse(text)?)),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    Some(headers.get(name)?.to_str().ok()?.trim())
}

/// Parses seconds.
fn parse_seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

/// Parses `6m0s`, `1h2m3.5s`, `20ms`.
fn parse_units(text: &str) -> Option<Duration> {
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let count: f64 = rest[..digits].parse().ok()?;
        let announcements = &rest[digits..];
        let end = announcements.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, more) = announcements.split_at(end.unwrap_or(announcements.len()));
        seconds += count
            * match unit {
                "d" => 86_400.0,
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 0.001,
                _ => return None,
            };
        rest = more;
    }
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|_| !text.is_empty())
}

fn timestamp_from(seconds: f64) -> Option<Timestamp> {
    let span = Duration::try_from_secs_f64(seconds).ok()?;
    Some(Timestamp(i64::try_from(span.as_millis()).ok()?))
}

/// The duration from the server's own time to `at`; `None` if that has passed.
fn wait_until(headers: &HeaderMap, at: Timestamp) -> Option<Duration> {
    let now = parse_http_date(text(headers, "date")?)?;
    Some(at.since(now)).filter(|wait| !wait.is_zero())
}

/// Parses `Wed, 21 Oct 2026 07:28:00 GMT`. The day of the week is ignored.
fn parse_http_date(text: &str) -> Option<Timestamp> {
    let (_, date) = text.split_once(", ")?;
    let date = DateTime::strptime("%d %b %Y %H:%M:%S GMT", date).ok()?;
    Some(Timestamp::from_local(date, |_| 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: (&str, &str) = ("date", "Wed, 21 Oct 2026 07:28:00 GMT");

    fn retry_delay(given: &[(&'static str, &str)]) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.insert(*name, value.parse().unwrap());
        }
        retry_after(&headers)
    }

    #[test]
    fn retry_after_is_parsed_in_s_and_ms() {
        for (name, value, expected) in [
            ("retry-after", "2", Some(Duration::from_secs(2))),
            ("retry-after", "0.5", Some(Duration::from_millis(500))),
            ("retry-after-ms", "30", Some(Duration::from_millis(30))),
            ("retry-after", "-1", None),
            ("retry-after", "inf", None),
            ("retry-after", "soon", None),
            ("x-other", "2", None),
        ] {
            assert_eq!(retry_delay(&[(name, value)]), expected, "{name}: {value}");
        }
    }

    #[test]
    fn retry_time_is_relative_to_the_server_date() {
        let then = "Wed, 21 Oct 2026 07:29:30 GMT";
        let wait = Some(Duration::from_secs(90));
        assert_eq!(retry_delay(&[DATE, ("retry-after", then)]), wait);
        assert_eq!(retry_delay(&[("retry-after", then)]), None);
        let over = ("retry-after", "Wed, 21 Oct 2026 07:27:00 GMT");
        assert_eq!(retry_delay(&[DATE, over]), None);
        for nonsense in [
            "Wed, 32 Oct 2026 07:28:00 GMT",
            "Wed, 21 Oct 2026 07:28:00 CET",
            "Wed, 21 Oct 2026 07:28:00 +0100",
            "Wed, 21 Oct 2026 07:28:00",
            "Wed, 21 Okt 2026 07:28:00 GMT",
            "Mon, 29 Feb 2027 07:28:00 GMT",
            "Wed, 21 Oct 99999999999999999999 07:28:00 GMT",
            "Wed, 21 Oct 2026 24:28:00 GMT",
            "21 Oct 2026 07:28:00 GMT",
        ] {
            assert_eq!(
                retry_delay(&[DATE, ("retry-after", nonsense)]),
                None,
                "{nonsense}"
            );
        }
    }

    #[test]
    fn exhausted_counters_give_the_retry_delay() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let anthropic = [
            DATE,
            ("anthropic-ratelimit-requests-remaining", "7"),
            ("anthropic-ratelimit-requests-reset", "2026-10-21T09:00:00Z"),
            ("anthropic-ratelimit-tokens-remaining", "0"),
            ("anthropic-ratelimit-tokens-reset", "2026-10-21T07:28:45Z"),
        ];
        assert_eq!(retry_delay(&anthropic), seconds(45));
        let unified = [
            DATE,
            ("anthropic-ratelimit-unified-status", "rejected"),
            ("anthropic-ratelimit-unified-reset", "1792571340"),
        ];
        assert_eq!(retry_delay(&unified), seconds(3660));
        let openai = |remaining| {
            retry_delay(&[
                ("x-ratelimit-remaining-requests", remaining),
                ("x-ratelimit-reset-requests", "6m0.5s"),
                ("x-ratelimit-remaining-tokens", "0"),
                ("x-ratelimit-reset-tokens", "20ms"),
            ])
        };
        assert_eq!(openai("0"), Some(Duration::from_millis(360_500)));
        assert_eq!(openai("9"), Some(Duration::from_millis(20)));
        assert_eq!(retry_delay(&[("x-ratelimit-reset", "12")]), seconds(12));
        assert_eq!(
            retry_delay(&[DATE, ("x-ratelimit-reset", "1792567690")]),
            seconds(10)
        );
        for nonsense in ["6q", "m", "6", "1.2.3s", ""] {
            let headers = [
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-requests", nonsense),
            ];
            let expected = if nonsense == "6" { seconds(6) } else { None };
            assert_eq!(retry_delay(&headers), expected, "{nonsense}");
        }
    }
}
