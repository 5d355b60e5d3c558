//! What an error of the object store means, and whether it is worth another try.
//!
//! Servers repeat in their answers what they were sent, and with it what must not be seen: a
//! session's token stands in the request that a refusal quotes. So nothing of an answer is passed on
//! but its status and the one word that S3 calls its code.

use object_store::Error as Store;
use object_store::client::{HttpError, HttpErrorKind};

/// Why a request failed.
#[derive(Debug)]
pub(super) enum Fault {
    /// There is no such object.
    Missing,
    /// There is no such bucket.
    NoPlace,
    /// An object of that name is there.
    Exists,
    /// The server cannot make an object only if there is none.
    Unconditional,
    /// This person may not.
    Denied(String),
    /// It may work in a moment.
    Passing(String),
    /// Nobody answers there, which seldom changes in a moment.
    Unreachable(String),
    /// It will not work.
    Lasting(String),
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
            _ if status.is_some_and(is_lasting) => Fault::Lasting(answered(status, code)),
            _ if text.contains("redirect without LOCATION") => {
                Fault::Lasting("the bucket is in another region than AWS_REGION says".to_owned())
            }
            _ if status.is_some() || code.is_some() => Fault::Passing(answered(status, code)),
            error => transport(&error),
        }
    }
}

/// Failures without an answer: of the connection, of the credentials, of a disk.
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
            _ => Fault::Lasting(io.to_string()),
        };
    }
    let reason = deepest.to_string();
    match kind {
        Some(HttpErrorKind::Connect) => Fault::Unreachable(reason),
        Some(HttpErrorKind::Timeout) => Fault::Passing("it did not answer in time".to_owned()),
        Some(_) => Fault::Passing(reason),
        None => Fault::Lasting(reason),
    }
}

/// Whether a status says that the request itself is wrong.
fn is_lasting(status: u16) -> bool {
    (300..500).contains(&status) && !matches!(status, 408 | 429)
}

fn answered(status: Option<u16>, code: Option<&str>) -> String {
    let words = [
        status.map(|status| status.to_string()),
        code.map(str::to_owned),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    if words.is_empty() {
        return "it does not say why".to_owned();
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

/// The code in an answer of S3.
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
    fn an_answer_is_named_by_its_status_and_code_and_nothing_else_of_it_is_passed_on() {
        let body = "<Error><Code>SlowDown</Code><CanonicalRequest>x-amz-security-token:IQoJ</CanonicalRequest></Error>";
        let fault = Fault::from(refusal(503, body));
        assert!(
            matches!(&fault, Fault::Passing(reason) if reason == "it answered 503 SlowDown"),
            "{fault:?}"
        );
        assert!(!format!("{fault:?}").contains("IQoJ"));
    }

    #[test]
    fn what_is_worth_another_try_is_told_from_what_is_not() {
        for passing in [500, 502, 503, 504, 429, 408] {
            let fault = Fault::from(refusal(passing, ""));
            assert!(matches!(fault, Fault::Passing(_)), "{passing} {fault:?}");
        }
        for lasting in [301, 400, 405] {
            let fault = Fault::from(refusal(lasting, ""));
            assert!(matches!(fault, Fault::Lasting(_)), "{lasting} {fault:?}");
        }
        assert!(matches!(
            Fault::from(refusal(501, "")),
            Fault::Unconditional
        ));
        let body = "<Code>NoSuchBucket</Code>";
        assert!(matches!(Fault::from(refusal(404, body)), Fault::NoPlace));
    }
}
