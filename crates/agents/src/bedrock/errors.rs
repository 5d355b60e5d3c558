//! Maps Bedrock's errors, before a response or in the middle of one.

use reqwest::{Response, StatusCode};
use segno_core::agent::{Error, ErrorKind};
use serde_json::Value;

use crate::http::{body_text, is_too_long, kind_of_client_error, retry_after, summary};

/// Passes a successful response through; any other becomes an error.
pub(super) async fn check_status(response: Response) -> Result<Response, Error> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let wait = retry_after(response.headers());
    // `ThrottlingException:http://internal.amazon.com/…`
    let error_type = response.headers().get("x-amzn-errortype");
    let error_type = error_type
        .and_then(|error_type| error_type.to_str().ok())
        .unwrap_or_default();
    let error_type = error_type.split(':').next().unwrap_or_default().to_owned();
    let body = body_text(response).await;
    let mut error = error_of_response(status, &error_type, &body);
    if let (ErrorKind::RateLimited(_), Some(_)) = (error.kind, wait) {
        error.kind = ErrorKind::RateLimited(wait);
    }
    Err(error)
}

fn error_of_response(status: StatusCode, error_type: &str, body: &str) -> Error {
    let json: Value = serde_json::from_str(body).unwrap_or_default();
    let word = |key: &str| json[key].as_str().unwrap_or_default();
    // `com.amazon.coral.service#AccessDeniedException`
    let typed = word("__type").rsplit('#').next().unwrap_or_default();
    let error_type = if error_type.is_empty() {
        typed
    } else {
        error_type
    };
    let message = match (word("message"), word("Message")) {
        ("", "") => summary(body),
        ("", message) | (message, _) => summary(message),
    };
    let kind = kind(error_type, &message).unwrap_or_else(|| kind_of_status(status, &message));
    let name = match (error_type, status.canonical_reason()) {
        ("", Some(reason)) => reason,
        ("", None) => "",
        (error_type, _) => error_type,
    };
    let start = format!("{} {name}", status.as_u16());
    Error::new(kind, format!("{}: {message}", start.trim_end()))
}

/// An error in the middle of a stream.
pub(super) fn stream_error(error_type: &str, message: &str) -> Error {
    let (error_type, message) = (summary(error_type), summary(message));
    let kind = kind(&error_type, &message).unwrap_or(ErrorKind::Unknown);
    Error::new(kind, format!("{error_type}: {message}"))
}

/// Maps the name of an error; `None` if it is not known. In streams the name begins with a small
/// letter.
fn kind(error_type: &str, message: &str) -> Option<ErrorKind> {
    let error_type = error_type.strip_suffix("Exception").unwrap_or(error_type);
    Some(match error_type.to_ascii_lowercase().as_str() {
        "throttling" | "throttled" | "toomanyrequests" => ErrorKind::RateLimited(None),
        // Waiting does not restore a used-up quota.
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

fn kind_of_status(status: StatusCode, message: &str) -> ErrorKind {
    match status.as_u16() {
        429 => ErrorKind::RateLimited(None),
        401 | 403 => ErrorKind::Auth,
        404 => ErrorKind::NotFound,
        408 => ErrorKind::Timeout,
        424 | 500.. => ErrorKind::Server,
        _ if is_too_long(&[], message) => ErrorKind::ContextFull,
        status => kind_of_client_error(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_responses_map_to_kinds() {
        let limited = ErrorKind::RateLimited(None);
        for (status, error_type, message, expected) in [
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
            (418, "SomethingNew", "x", ErrorKind::Unknown),
        ] {
            let body = format!("{{\"message\": \"{message}\"}}");
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(
                error_of_response(status, error_type, &body).kind,
                expected,
                "{error_type} {message}"
            );
        }
    }

    #[test]
    fn error_type_is_read_from_the_body() {
        let body = r#"{"__type": "a.b#AccessDeniedException", "Message": "no\n entry"}"#;
        let error = error_of_response(StatusCode::BAD_REQUEST, "", body);
        assert_eq!(error.kind, ErrorKind::Auth);
        assert_eq!(error.message, "400 AccessDeniedException: no entry");
        let error = error_of_response(StatusCode::BAD_GATEWAY, "", "<html>");
        assert_eq!(
            error.message,
            "502 Bad Gateway: an HTML page instead of an API response"
        );
    }

    #[test]
    fn stream_errors_map_to_kinds() {
        for (error_type, expected) in [
            ("throttlingException", ErrorKind::RateLimited(None)),
            ("validationException", ErrorKind::Invalid),
            ("modelStreamErrorException", ErrorKind::Server),
            ("somethingElse", ErrorKind::Unknown),
        ] {
            assert_eq!(stream_error(error_type, "x").kind, expected, "{error_type}");
        }
    }
}
