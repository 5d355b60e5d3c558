//! Parses the inputs of the web tools.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

/// Headers that only the client sets: with them, one request could be made to look like two.
const RESERVED_HEADERS: [&str; 9] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "keep-alive",
    "expect",
];

/// The longest timeout, in seconds.
const MAX_TIMEOUT: u64 = 300;

pub(super) fn headers(given: &Value) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in given.as_object().into_iter().flatten() {
        let value = value
            .as_str()
            .ok_or_else(|| format!("the value of header `{name}` must be of type string"))?;
        let (name, value) = header(name, value)?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Parses a header. Error messages do not contain the value, which may be a secret.
pub(super) fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let known = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| format!("`{name}` is not a valid header name"))?;
    if RESERVED_HEADERS.contains(&known.as_str()) || known.as_str().starts_with("proxy-") {
        return Err(format!("header `{name}` cannot be set"));
    }
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| format!("the value of header `{name}` is invalid"))?;
    value.set_sensitive(true);
    Ok((known, value))
}

/// The method, one of `known`; GET by default.
pub(super) fn method(input: &Value, known: &[Method]) -> Result<Method, String> {
    let Some(given) = input["method"].as_str() else {
        return Ok(Method::GET);
    };
    let wanted = known
        .iter()
        .find(|method| given.eq_ignore_ascii_case(method.as_str()));
    wanted.cloned().ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(Method::as_str).collect();
        format!("`method` must be one of {}", names.join(", "))
    })
}

pub(super) fn timeout(input: &Value, default: u64) -> Result<Duration, String> {
    match input["timeout"].as_u64().unwrap_or(default) {
        seconds @ 1..=MAX_TIMEOUT => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("`timeout` must be from 1 to {MAX_TIMEOUT} seconds")),
    }
}

/// A string, one of `known`; the first of them by default.
pub(super) fn choice<'a>(
    input: &'a Value,
    name: &str,
    known: &[&'a str],
) -> Result<&'a str, String> {
    match input[name].as_str() {
        None => Ok(known.first().copied().unwrap_or_default()),
        Some(given) if known.contains(&given) => Ok(given),
        Some(_) => Err(format!("`{name}` must be one of {}", known.join(", "))),
    }
}

/// A number from 1 to `max`.
pub(super) fn count(
    input: &Value,
    name: &str,
    default: usize,
    max: usize,
) -> Result<usize, String> {
    match crate::tools::number(input, name, default) {
        count if (1..=max).contains(&count) => Ok(count),
        _ => Err(format!("`{name}` must be from 1 to {max}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reserved_headers_are_refused() {
        for (given, reason) in [
            (json!({"Host": "other"}), "`Host` cannot be set"),
            (json!({"Content-Length": "1"}), "cannot be set"),
            (json!({"Transfer-Encoding": "chunked"}), "cannot be set"),
            (json!({"Proxy-Authorization": "x"}), "cannot be set"),
            (json!({"a b": "x"}), "`a b` is not a valid header name"),
            (json!({"": "x"}), "`` is not a valid header name"),
            (json!({"x": 1}), "`x` must be of type string"),
            (json!({"x": "secret\r\nHost: other"}), "is invalid"),
        ] {
            let problem = headers(&given).unwrap_err();
            assert!(problem.contains(reason), "{given}: {problem}");
            assert!(!problem.contains("secret"), "{problem}");
        }
        assert_eq!(headers(&json!({"X-One": "1"})).unwrap()["x-one"], "1");
        assert_eq!(headers(&Value::Null).unwrap().len(), 0);
    }

    #[test]
    fn timeouts_and_counts_have_bounds() {
        let seconds = |input: Value| timeout(&input, 10).ok().map(|time| time.as_secs());
        assert_eq!(seconds(json!({})), Some(10));
        assert_eq!(seconds(json!({"timeout": 300})), Some(300));
        assert_eq!(seconds(json!({"timeout": 0})), None);
        assert_eq!(seconds(json!({"timeout": 301})), None);
        assert_eq!(count(&json!({"n": 0}), "n", 5, 20).ok(), None);
        assert_eq!(count(&json!({"n": 20}), "n", 5, 20), Ok(20));
        assert_eq!(count(&json!({"n": 21}), "n", 5, 20).ok(), None);
    }
}
