//! Maps HTTP failures to errors. The kind decides whether the engine retries.

use std::error::Error as _;
use std::time::Duration;

use reqwest::{Response, StatusCode};
use segno_core::agent::{Error, ErrorKind};
use serde_json::Value;

use super::reset::retry_after;

/// How many bytes of an error response are read.
const MAX_BODY: usize = 64 * 1024;

/// How many characters of it are shown.
const MAX_SHOWN: usize = 500;

/// The error of a request without any response.
pub(crate) fn request_error(error: &reqwest::Error) -> Error {
    let kind = if error.is_timeout() {
        ErrorKind::Timeout
    } else if error.is_builder() {
        ErrorKind::Invalid
    } else {
        ErrorKind::Network
    };
    Error::new(kind, describe_error(error))
}

/// Describes an error with its causes, without the URL: that may contain a key.
pub(crate) fn describe_error(error: &reqwest::Error) -> String {
    let mut text = match error.url().and_then(|url| url.host_str()) {
        Some(host) => format!("{host} cannot be reached"),
        None => "the request failed".to_owned(),
    };
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Passes a successful response through; any other becomes an error.
pub(crate) async fn check_status(response: Response) -> Result<Response, Error> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let wait = retry_after(response.headers());
    Err(error_of_response(status, wait, &body_text(response).await))
}

/// The body of an error response, as far as it is read.
pub(crate) async fn body_text(mut response: Response) -> String {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BODY {
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}

fn error_of_response(status: StatusCode, wait: Option<Duration>, body: &str) -> Error {
    let json: Value = serde_json::from_str(body).unwrap_or_default();
    let error = &unwrap_list(&json)["error"];
    let word = |key: &str| error[key].as_str().unwrap_or_default();
    let words = [word("type"), word("code")];
    let wait = wait.or_else(|| retry_delay(error));
    let message = match (word("message"), error.as_str()) {
        ("", Some(text)) => text.to_owned(),
        ("", None) => summary(body),
        (message, _) => message.to_owned(),
    };
    let kind = match status.as_u16() {
        // Waiting does not restore a used-up quota.
        429 if words.contains(&"insufficient_quota") => ErrorKind::Auth,
        429 => ErrorKind::RateLimited(wait),
        401 | 403 => ErrorKind::Auth,
        404 => ErrorKind::NotFound,
        408 => ErrorKind::Timeout,
        // Gemini reports an invalid key with status 400.
        400 if message.starts_with("API key not valid") => ErrorKind::Auth,
        503 | 529 if wait.is_some() => ErrorKind::RateLimited(wait),
        500.. => ErrorKind::Server,
        _ if is_too_long(&words, &message) => ErrorKind::ContextFull,
        status => kind_of_client_error(status),
    };
    let status = match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    };
    Error::new(kind, format!("{status}: {message}"))
}

/// The kind of a status that says only that the request is at fault, or nothing that is known.
pub(crate) fn kind_of_client_error(status: u16) -> ErrorKind {
    match status {
        400 | 402 | 405 | 406 | 411 | 413 | 414 | 415 | 422 | 431 => ErrorKind::Invalid,
        _ => ErrorKind::Unknown,
    }
}

/// Unwraps Gemini's errors, which come in a list of one.
pub(crate) fn unwrap_list(value: &Value) -> &Value {
    value.get(0).unwrap_or(value)
}

/// Gemini's retry delay: `{"retryDelay": "34.5s"}` among the details.
fn retry_delay(error: &Value) -> Option<Duration> {
    let details = error["details"].as_array()?;
    let delay = details.iter().find_map(|one| one["retryDelay"].as_str())?;
    let seconds = delay.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

pub(crate) fn is_too_long(words: &[&str], message: &str) -> bool {
    let message = message.to_lowercase();
    words.contains(&"context_length_exceeded")
        || message.contains("prompt is too long")
        || message.contains("input is too long")
        || message.contains("too many input tokens")
        || message.contains("exceeds the maximum number of tokens")
        || message.contains("context length")
        || message.contains("context window")
}

/// The error that a server reports by name in the middle of a stream.
pub(crate) fn stream_error(word: &str, message: &str) -> Error {
    let kind = match word {
        "rate_limit_error" | "rate_limit_exceeded" | "RESOURCE_EXHAUSTED" => {
            ErrorKind::RateLimited(None)
        }
        "authentication_error"
        | "permission_error"
        | "invalid_api_key"
        | "UNAUTHENTICATED"
        | "PERMISSION_DENIED" => ErrorKind::Auth,
        "not_found_error" | "NOT_FOUND" => ErrorKind::NotFound,
        "invalid_request_error" | "INVALID_ARGUMENT" if is_too_long(&[], message) => {
            ErrorKind::ContextFull
        }
        "invalid_request_error" | "INVALID_ARGUMENT" => ErrorKind::Invalid,
        _ => ErrorKind::Server,
    };
    Error::new(kind, format!("{word}: {message}"))
}

/// The error for a response that violates the protocol.
pub(crate) fn protocol_error(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Server, what)
}

/// A body in one line; HTML pages are not quoted.
pub(crate) fn summary(body: &str) -> String {
    let text = body.trim();
    let is_page = text
        .get(..15)
        .is_some_and(|start| start.to_ascii_lowercase().starts_with("<!doctype html"))
        || text
            .get(..5)
            .is_some_and(|start| start.eq_ignore_ascii_case("<html"));
    if is_page {
        return "an HTML page instead of an API response".to_owned();
    }
    if text.is_empty() {
        return "empty response body".to_owned();
    }
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, body: &str) -> ErrorKind {
        error_of_response(StatusCode::from_u16(status).unwrap(), None, body).kind
    }

    #[test]
    fn error_responses_map_to_kinds() {
        for (status, body, expected) in [
            (401, "", ErrorKind::Auth),
            (403, "{}", ErrorKind::Auth),
            (
                404,
                r#"{"error": {"type": "not_found_error"}}"#,
                ErrorKind::NotFound,
            ),
            (
                400,
                r#"{"error": {"message": "prompt is too long: 9 > 8"}}"#,
                ErrorKind::ContextFull,
            ),
            (
                400,
                r#"{"error": {"code": "context_length_exceeded"}}"#,
                ErrorKind::ContextFull,
            ),
            (
                400,
                r#"{"error": {"message": "max_tokens: must be positive"}}"#,
                ErrorKind::Invalid,
            ),
            (413, "", ErrorKind::Invalid),
            (429, "", ErrorKind::RateLimited(None)),
            (
                429,
                r#"{"error": {"code": "insufficient_quota"}}"#,
                ErrorKind::Auth,
            ),
            (500, "", ErrorKind::Server),
            (
                502,
                "<html><body>Bad Gateway</body></html>",
                ErrorKind::Server,
            ),
            (
                529,
                r#"{"error": {"type": "overloaded_error"}}"#,
                ErrorKind::Server,
            ),
        ] {
            assert_eq!(kind(status, body), expected, "{status} {body}");
        }
    }

    #[test]
    fn error_body_is_shown_in_one_line() {
        let message_of =
            |body: &str| error_of_response(StatusCode::BAD_GATEWAY, None, body).message;
        assert_eq!(message_of(""), "502 Bad Gateway: empty response body");
        assert_eq!(
            message_of("<!DOCTYPE html><html>"),
            "502 Bad Gateway: an HTML page instead of an API response"
        );
        assert_eq!(message_of("a\n  b"), "502 Bad Gateway: a b");
        assert_eq!(message_of(r#"{"error": "gone"}"#), "502 Bad Gateway: gone");
        assert_eq!(message_of(&"x".repeat(9000)).len(), 17 + MAX_SHOWN);
    }

    #[test]
    fn gemini_error_lists_and_retry_delays_are_parsed() {
        let body = |code: u16, status: &str, message: &str| {
            format!(
                r#"[{{"error": {{"code": {code}, "status": "{status}", "message": "{message}", "details": [{{"retryDelay": "2.5s"}}]}}}}]"#
            )
        };
        let error_of = |code: u16, body: &str| {
            let error = error_of_response(StatusCode::from_u16(code).unwrap(), None, body);
            (error.kind, error.message)
        };
        let (kind, message) = error_of(429, &body(429, "RESOURCE_EXHAUSTED", "slow"));
        let wait = Some(Duration::from_millis(2500));
        assert_eq!(kind, ErrorKind::RateLimited(wait));
        assert_eq!(message, "429 Too Many Requests: slow");
        let key = "API key not valid. Please pass a valid API key.";
        assert_eq!(
            error_of(400, &body(400, "INVALID_ARGUMENT", key)).0,
            ErrorKind::Auth
        );
        let long = "The input token count (9) exceeds the maximum number of tokens allowed (8).";
        let full = error_of(400, &body(400, "INVALID_ARGUMENT", long)).0;
        assert_eq!(full, ErrorKind::ContextFull);
    }
}
