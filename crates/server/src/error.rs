//! Errors as clients see them: `application/problem+json` (RFC 9457).
//!
//! The kind of an error alone decides the status. The text is redacted where it leaves the server.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use segno_core::error::{Diagnose, Diagnosis, Kind};
use segno_core::id::{CheckpointId, Name};
use segno_secrets::redact::Redactor;
use serde_json::json;

/// A request that the server refuses before it reaches a use case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("this server does not answer to the host `{host}`")]
    WrongHost { host: String },
    #[error("the request comes from another site: {origin}")]
    ForeignOrigin { origin: String },
    #[error("the request has no token")]
    NoToken,
    #[error("the token is not valid; it may have been revoked, or expired")]
    InvalidToken,
    #[error("the login code is not valid; it may have been used, or expired")]
    InvalidCode,
    #[error("too many failed attempts; try again in {seconds} seconds")]
    TooManyFailures { seconds: u64 },
    #[error("this needs the scope `{needed}`; the token has `{given}`")]
    ScopeTooSmall {
        needed: &'static str,
        given: &'static str,
    },
    #[error("there is no such address: {path}")]
    NoSuchRoute { path: String },
    #[error("checkpoint {checkpoint} does not belong to session `{name}`")]
    OtherSession {
        checkpoint: CheckpointId,
        name: Name,
    },
    #[error("{path} does not accept {method}")]
    WrongMethod { path: String, method: String },
    #[error("the body must be JSON, with `Content-Type: application/json`")]
    NotJson,
    #[error("the body has more than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the body did not arrive in time")]
    TooSlow,
    #[error("the request cannot be read: {reason}")]
    Malformed { reason: String },
    #[error("{folder} may not be chosen: {reason}")]
    FolderNotAllowed {
        folder: String,
        reason: &'static str,
    },
    #[error("artifact `{path}` cannot be downloaded: {reason}")]
    NoDownload { path: String, reason: String },
    #[error("another verification is running")]
    Verifying,
    #[error("the session changed: its newest event is {newest}, not {expected}")]
    Stale { newest: u64, expected: String },
    #[error("this Idempotency-Key was used for another request")]
    KeyReused,
    #[error("the first request with this Idempotency-Key is still working")]
    StillWorking,
    #[error(
        "it is not known whether the first request with this Idempotency-Key had its effect: the server was killed, or failed, while it worked"
    )]
    OutcomeUnknown,
    #[error("too many requests that change something work at the same time")]
    TooManyWrites,
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::WrongHost { .. } => StatusCode::MISDIRECTED_REQUEST,
            Self::ForeignOrigin { .. }
            | Self::ScopeTooSmall { .. }
            | Self::FolderNotAllowed { .. } => StatusCode::FORBIDDEN,
            Self::NoToken | Self::InvalidToken | Self::InvalidCode => StatusCode::UNAUTHORIZED,
            Self::TooManyFailures { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::NoSuchRoute { .. } | Self::OtherSession { .. } => StatusCode::NOT_FOUND,
            Self::WrongMethod { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotJson => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Malformed { .. } => StatusCode::BAD_REQUEST,
            Self::Stale { .. } => StatusCode::PRECONDITION_FAILED,
            Self::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::NoDownload { .. }
            | Self::Verifying
            | Self::StillWorking
            | Self::OutcomeUnknown => StatusCode::CONFLICT,
            Self::TooManyWrites => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// After how many seconds the same request may succeed.
    fn retry_after(&self) -> Option<u64> {
        match self {
            Self::TooManyFailures { seconds } => Some(*seconds),
            Self::StillWorking | Self::TooManyWrites => Some(1),
            _ => None,
        }
    }
}

impl Diagnose for Refusal {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::WrongHost { .. } => Diagnosis::new(Kind::Forbidden, "N0101")
                .hint("add the host with `segno serve --host NAME`"),
            Self::ForeignOrigin { .. } => Diagnosis::new(Kind::Forbidden, "N0101"),
            Self::NoToken | Self::InvalidToken => Diagnosis::new(Kind::Forbidden, "N0102").hint(
                "`segno token create NAME` makes one for a program; `segno open` logs a browser in",
            ),
            Self::InvalidCode => Diagnosis::new(Kind::Forbidden, "N0102")
                .hint("`segno open` makes a new one, which works once and for five minutes"),
            Self::TooManyFailures { .. } => Diagnosis::new(Kind::Unavailable, "N0103"),
            Self::ScopeTooSmall { needed, .. } => Diagnosis::new(Kind::Forbidden, "N0104").hint(
                format!("`segno token create NAME --scope {needed}` makes one that may"),
            ),
            Self::NoSuchRoute { .. } | Self::WrongMethod { .. } => {
                Diagnosis::new(Kind::NotFound, "N0105").hint("/openapi.json lists all addresses")
            }
            Self::OtherSession { .. } => Diagnosis::new(Kind::NotFound, "N0105")
                .hint("`GET …/checkpoints` lists those of a session"),
            Self::NotJson | Self::TooLarge { .. } | Self::TooSlow | Self::Malformed { .. } => {
                Diagnosis::new(Kind::Invalid, "N0106")
            }
            Self::FolderNotAllowed { .. } => Diagnosis::new(Kind::Forbidden, "N0115")
                .hint("`segno serve --allow-folder FOLDER` allows new folders below FOLDER"),
            Self::NoDownload { .. } => Diagnosis::new(Kind::Conflict, "N0114"),
            Self::Verifying => Diagnosis::new(Kind::Conflict, "N0116")
                .hint("wait until it has ended, and try again"),
            Self::Stale { .. } => Diagnosis::new(Kind::Conflict, "N0107")
                .hint("read the session again, and decide again"),
            Self::KeyReused => Diagnosis::new(Kind::Conflict, "N0120")
                .hint("use a new key for each request, and the same one only to send it again"),
            Self::StillWorking => Diagnosis::new(Kind::Conflict, "N0121")
                .hint("send the same request again after the time in Retry-After"),
            Self::OutcomeUnknown => Diagnosis::new(Kind::Conflict, "N0122")
                .hint("read the session, and use a new key if the effect is not there"),
            Self::TooManyWrites => Diagnosis::new(Kind::Unavailable, "N0123")
                .hint("send the same request again after the time in Retry-After"),
        }
    }
}

/// The code of a problem that was rendered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorCode(pub(crate) &'static str);

/// An error on its way to the client.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    status: StatusCode,
    kind: Kind,
    code: &'static str,
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
    retry_after: Option<u64>,
}

impl Problem {
    fn of(error: &dyn Diagnose, status: Option<StatusCode>) -> Self {
        let mut causes = Vec::new();
        let mut source = error.source();
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        let Diagnosis { kind, code, hint } = error.diagnosis();
        Self {
            status: status.unwrap_or(status_of(kind)),
            kind,
            code,
            message: error.to_string(),
            causes,
            hint,
            retry_after: None,
        }
    }

    /// The response. Only here the text leaves the server, so it is redacted here (P12).
    pub(crate) fn render(self, redactor: &Redactor) -> Response {
        let clean = |text: &str| redactor.redact(text).into_owned();
        let body = json!({
            "type": format!("/errors/{}", self.code),
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "code": self.code,
            "kind": self.kind,
            "detail": clean(&self.message),
            "causes": self.causes.iter().map(|cause| clean(cause)).collect::<Vec<_>>(),
            "hint": self.hint.as_deref().map(clean),
        });
        let mut response = (self.status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response.extensions_mut().insert(ErrorCode(self.code));
        response
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let mut problem = Self::of(&refusal, Some(refusal.status()));
        problem.retry_after = refusal.retry_after();
        problem
    }
}

/// Any error of a use case.
pub(crate) struct Failed(pub(crate) Problem);

impl<E: Diagnose + 'static> From<E> for Failed {
    fn from(error: E) -> Self {
        // `Refusal` also comes through `?`, and knows its status better than its kind does.
        let any: &dyn std::any::Any = &error;
        if let Some(refusal) = any.downcast_ref::<Refusal>() {
            return Self(refusal.clone().into());
        }
        Self(Problem::of(&error, None))
    }
}

/// Carries the problem to the layer that renders it.
impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let mut response = self.0.status.into_response();
        response.extensions_mut().insert(self.0);
        response
    }
}

/// The status of a kind of error.
const fn status_of(kind: Kind) -> StatusCode {
    match kind {
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::Conflict
        | Kind::Locked
        | Kind::Fenced
        | Kind::Changed
        | Kind::NeedsUser
        | Kind::LimitReached
        | Kind::RunFailed
        | Kind::Paused
        | Kind::Interrupted => StatusCode::CONFLICT,
        Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Kind::Invalid => StatusCode::BAD_REQUEST,
        Kind::InvalidSpec | Kind::Unsupported | Kind::FailedVerification => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        Kind::Forbidden => StatusCode::FORBIDDEN,
        Kind::Unusable | Kind::Damaged | Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The pages of `docs/errors`, one for each code.
#[derive(rust_embed::RustEmbed)]
#[folder = "../../docs/errors"]
struct Pages;

/// The page that explains a code.
pub(crate) fn explanation(code: &str) -> Option<String> {
    let page = Pages::get(&format!("{code}.md"))?;
    String::from_utf8(page.data.into_owned()).ok()
}
