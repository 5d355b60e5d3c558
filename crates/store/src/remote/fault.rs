//! Classifies errors of the object store, and decides whether a retry is worthwhile.
//!
//! Servers quote the request in their answers, and with it secrets: a session token is part of the
//! request that a refusal quotes. So only the status of an answer and S3's error code are passed
//! on.

use object_store::Error as Store;
use object_store::client::{HttpError, HttpErrorKind};

#[derive(Debug)]
pub(super) enum Fault {
    Missing,
    NoPlace,
    Exists,
    /// The server does not support conditional writes.
    Unconditional,
    Denied(String),
    /// A retry may succeed.
    Transient(String),
    /// There is no answer, which seldom changes soon.
    Unreachable(String),
    /// A retry will not help.
    Permanent(String),
}

impl From<Store> for Fault {
    fn from(error: Store) -> Self {
        let text = error.to_string();
        let (status, code) = (status(&text), code(&text));
        match error {
            _ if code == Some("NoSuchBucket") => Fault::NoPlace,
            Store::NotFound { .. } => Fault::Missing,
            Store::AlreadyExists { .. }
            | Store::Precondition { .. }
            | Store::NotModified { .. } => Fault::Exists,
            Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => {
                Fault::Denied(answered(status, code))
            }
            Store::NotImplemented { .. } | Store::NotSupported { .. } => Fault::Unconditional,
            _ if matches!(status, Some(401 | 403)) => Fault::Denied(answered(status, code)),
            _ if status == Some(501) || code == Some("NotImplemented") => Fault::Unconditional,
            _ if status.is_some_and(is_permanent) => Fault::Permanent(answered(status, code)),
            _ if text.contains("redirect without LOCATION") => {
                Fault::Permanent("the bucket is in another region than AWS_REGION says".to_owned())
            }
            _ if status.is_some() || code.is_some() => Fault::Transient(answered(status, code)),
            error => transport(&error),
        }
    }
}

/// Classifies failures without an answer: of the connection, of the credentials, of a disk.
fn transport(error: &Store) -> Fault {
    let mut kind = None;
    let mut deepest: &(dyn std::error::Error + 'static) = error;
    while let Some(source) = deepest.source() {
        if let Some(http) = source.downcast_ref::<HttpError>() {
            kind = Some(http.kind());
        }
        deepest = source;
    }
    if let Some(io) = deepest.downcast_ref::<std::io::Error>()
        && kind.is_none()
    {
        return match io.kind() {
            std::io::ErrorKind::PermissionDenied => Fault::Denied(io.to_string()),
            _ => Fault::Permanent(io.to_string()),
        };
    }
    let reason = deepest.to_string();
    match kind {
        Some(HttpErrorKind::Connect) => Fault::Unreachable(reason),
        Some(HttpErrorKind::Timeout) => Fault::Transient("it did not respond in time".to_owned()),
        Some(_) => Fault::Transient(reason),
        None => Fault::Permanent(reason),
    }
}

/// Whether a status says that the request itself is wrong.
fn is_permanent(status: u16) -> bool {
    (300..500).contains(&status) && !matches!(status, 408 | 429)
}

fn answered(status: Option<u16>, code: Option<&str>) -> String {
    let words = [
        status.map(|status| status.to_string()),
        code.map(str::to_owned),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    if words.is_empty() {
        return "it gave no reason".to_owned();
    }
    format!("it answered {}", words.join(" "))
}

/// The status in the text of an error.
fn status(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The error code in an answer of S3.
fn code(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let is_word = code.len() <= 64 && code.chars().all(|c| c.is_ascii_alphanumeric());
    is_word.then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, body: &str) -> Store {
        let text = format!("Server returned non-2xx status code: {status} X: {body}");
        Store::Generic {
            store: "S3",
            source: text.into(),
        }
    }

    #[test]
    fn only_status_and_code_of_answers_are_shown() {
        let body = "<Error><Code>SlowDown</Code><CanonicalRequest>x-amz-security-token:IQoJ</CanonicalRequest></Error>";
        let fault = Fault::from(refusal(503, body));
        assert!(
            matches!(&fault, Fault::Transient(reason) if reason == "it answered 503 SlowDown"),
            "{fault:?}"
        );
        assert!(!format!("{fault:?}").contains("IQoJ"));
    }

    #[test]
    fn transient_and_permanent_errors_are_distinguished() {
        for passing in [500, 502, 503, 504, 429, 408] {
            let fault = Fault::from(refusal(passing, ""));
            assert!(matches!(fault, Fault::Transient(_)), "{passing} {fault:?}");
        }
        for lasting in [301, 400, 405] {
            let fault = Fault::from(refusal(lasting, ""));
            assert!(matches!(fault, Fault::Permanent(_)), "{lasting} {fault:?}");
        }
        assert!(matches!(
            Fault::from(refusal(501, "")),
            Fault::Unconditional
        ));
        let body = "<Code>NoSuchBucket</Code>";
        assert!(matches!(Fault::from(refusal(404, body)), Fault::NoPlace));
    }
}
