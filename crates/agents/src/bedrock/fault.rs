//! What it means when Bedrock refuses, before an answer or in the middle of one.

use reqwest::{Response, StatusCode};
use segno_core::agent::{Error, ErrorKind};
use serde_json::Value;

use crate::http::{is_too_long, retry_after, summary, words};

/// The response, if it is an answer.
pub(super) async fn refused(response: Response) -> Result<Response, Error> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let wait = retry_after(response.headers());
    // `ThrottlingException:http://internal.amazon.com/…`
    let sort = response.headers().get("x-amzn-errortype");
    let sort = sort.and_then(|sort| sort.to_str().ok()).unwrap_or_default();
    let sort = sort.split(':').next().unwrap_or_default().to_owned();
    let body = words(response).await;
    let mut error = refusal(status, &sort, &body);
    if let (ErrorKind::RateLimited(_), Some(_)) = (error.kind, wait) {
        error.kind = ErrorKind::RateLimited(wait);
    }
    Err(error)
}

fn refusal(status: StatusCode, sort: &str, body: &str) -> Error {
    let json: Value = serde_json::from_str(body).unwrap_or_default();
    let word = |key: &str| json[key].as_str().unwrap_or_default();
    // `com.amazon.coral.service#AccessDeniedException`
    let typed = word("__type").rsplit('#').next().unwrap_or_default();
    let sort = if sort.is_empty() { typed } else { sort };
    let message = match (word("message"), word("Message")) {
        ("", "") => summary(body),
        ("", message) | (message, _) => summary(message),
    };
    let kind = kind(sort, &message).unwrap_or_else(|| by_status(status, &message));
    let name = match (sort, status.canonical_reason()) {
        ("", Some(reason)) => reason,
        ("", None) => "",
        (sort, _) => sort,
    };
    let start = format!("{} {name}", status.as_u16());
    Error::new(kind, format!("{}: {message}", start.trim_end()))
}

/// An error that is told in the middle of a stream.
pub(super) fn named(sort: &str, message: &str) -> Error {
    let (sort, message) = (summary(sort), summary(message));
    let kind = kind(&sort, &message).unwrap_or(ErrorKind::Server);
    Error::new(kind, format!("{sort}: {message}"))
}

/// What the name of an error says; nothing if it is not known. Streams begin it with a small letter.
fn kind(sort: &str, message: &str) -> Option<ErrorKind> {
    let sort = sort.strip_suffix("Exception").unwrap_or(sort);
    Some(match sort.to_ascii_lowercase().as_str() {
        "throttling" | "throttled" | "toomanyrequests" => ErrorKind::RateLimited(None),
        // A quota that is used up does not come back by waiting.
        "accessdenied"
        | "unrecognizedclient"
        | "invalidclienttokenid"
        | "invalidsignature"
        | "signaturedoesnotmatch"
        | "incompletesignature"
        | "missingauthenticationtoken"
        | "expiredtoken"
        | "servicequotaexceeded" => ErrorKind::Auth,
        "resourcenotfound" => ErrorKind::NotFound,
        "modeltimeout" => ErrorKind::Timeout,
        "validation" if is_too_long(&[], message) => ErrorKind::ContextFull,
        "validation" => ErrorKind::Invalid,
        "modelnotready" | "modelerror" | "modelstreamerror" | "serviceunavailable"
        | "internalserver" | "internalfailure" => ErrorKind::Server,
        _ => return None,
    })
}

fn by_status(status: StatusCode, message: &str) -> ErrorKind {
    match status.as_u16() {
        429 => ErrorKind::RateLimited(None),
        401 | 403 => ErrorKind::Auth,
        404 => ErrorKind::NotFound,
        408 => ErrorKind::Timeout,
        424 | 500.. => ErrorKind::Server,
        _ if is_too_long(&[], message) => ErrorKind::ContextFull,
        _ => ErrorKind::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_whether_to_come_back() {
        let limited = ErrorKind::RateLimited(None);
        for (status, sort, message, expected) in [
            (429, "ThrottlingException", "slow down", limited),
            (429, "ModelNotReadyException", "loading", ErrorKind::Server),
            (429, "", "", limited),
            (403, "AccessDeniedException", "no", ErrorKind::Auth),
            (403, "UnrecognizedClientException", "no", ErrorKind::Auth),
            (403, "InvalidSignatureException", "no", ErrorKind::Auth),
            (400, "ExpiredTokenException", "old", ErrorKind::Auth),
            (400, "ServiceQuotaExceededException", "all", ErrorKind::Auth),
            (
                404,
                "ResourceNotFoundException",
                "which",
                ErrorKind::NotFound,
            ),
            (408, "ModelTimeoutException", "late", ErrorKind::Timeout),
            (424, "ModelErrorException", "oh", ErrorKind::Server),
            (
                503,
                "ServiceUnavailableException",
                "busy",
                ErrorKind::Server,
            ),
            (500, "InternalServerException", "oh", ErrorKind::Server),
            (
                400,
                "ValidationException",
                "Malformed input",
                ErrorKind::Invalid,
            ),
            (
                400,
                "ValidationException",
                "Input is too long for requested model.",
                ErrorKind::ContextFull,
            ),
            (400, "SomethingNew", "x", ErrorKind::Invalid),
            (502, "", "x", ErrorKind::Server),
        ] {
            let body = format!("{{\"message\": \"{message}\"}}");
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(
                refusal(status, sort, &body).kind,
                expected,
                "{sort} {message}"
            );
        }
    }

    #[test]
    fn the_name_of_an_error_may_stand_in_its_body() {
        let body = r#"{"__type": "a.b#AccessDeniedException", "Message": "no\n entry"}"#;
        let error = refusal(StatusCode::BAD_REQUEST, "", body);
        assert_eq!(error.kind, ErrorKind::Auth);
        assert_eq!(error.message, "400 AccessDeniedException: no entry");
        let error = refusal(StatusCode::BAD_GATEWAY, "", "<html>");
        assert_eq!(
            error.message,
            "502 Bad Gateway: a page for browsers, not an answer"
        );
    }

    #[test]
    fn errors_in_a_stream_begin_with_a_small_letter() {
        for (sort, expected) in [
            ("throttlingException", ErrorKind::RateLimited(None)),
            ("validationException", ErrorKind::Invalid),
            ("modelStreamErrorException", ErrorKind::Server),
            ("somethingElse", ErrorKind::Server),
        ] {
            assert_eq!(named(sort, "x").kind, expected, "{sort}");
        }
    }
}
