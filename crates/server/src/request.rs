//! Reads requests: bounded bodies, and parameters whose names are all known.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use segno_core::checkpoint::Manifest;
use segno_core::store::Summary;
use segno_sessions as sessions;
use segno_sessions::checkpoint;
use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Deserializer};

use crate::Server;
use crate::error::{Failed, Refusal};
use crate::trace::Trace;

/// The largest body.
pub(crate) const MAX_BODY: usize = 1 << 20;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);

/// A JSON body. An absent body counts as `{}`.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Server> for JsonBody<T> {
    type Rejection = Failed;

    async fn from_request(request: Request, server: &Server) -> Result<Self, Failed> {
        let (parts, body) = request.into_parts();
        let bytes = read_in_time(body, server).await?;
        if bytes.is_empty() {
            return parse(b"{}");
        }
        check_type(&parts.headers)?;
        parse(&bytes)
    }
}

/// The whole body of a request.
pub(crate) async fn read_in_time(body: Body, server: &Server) -> Result<Vec<u8>, Refusal> {
    tokio::select! {
        bytes = read(body) => bytes,
        () = server.env.clock.sleep(BODY_TIME) => Err(Refusal::TooSlow),
    }
}

async fn read(body: Body) -> Result<Vec<u8>, Refusal> {
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes().to_vec()),
        Err(error) if error.is::<LengthLimitError>() => Err(Refusal::TooLarge { limit: MAX_BODY }),
        Err(error) => Err(Refusal::Malformed {
            reason: error.to_string(),
        }),
    }
}

fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let value = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let (kind, parameters) = match value.map(|it| it.split_once(';').unwrap_or((it, ""))) {
        Some((kind, parameters)) => (kind.trim().to_ascii_lowercase(), parameters),
        None => return Err(Refusal::NotJson),
    };
    let charset = parameters.trim().to_ascii_lowercase();
    let plain = matches!(charset.as_str(), "" | "charset=utf-8" | "charset=\"utf-8\"");
    if kind != "application/json" || !plain || headers.contains_key(CONTENT_ENCODING) {
        return Err(Refusal::NotJson);
    }
    Ok(())
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<JsonBody<T>, Failed> {
    match serde_json::from_slice(bytes) {
        Ok(value) => Ok(JsonBody(value)),
        Err(error) => Err(Refusal::Malformed {
            reason: error.to_string(),
        }
        .into()),
    }
}

/// The parameters after `?`.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Server> for Query<T> {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _: &Server) -> Result<Self, Failed> {
        match axum::extract::Query::<T>::try_from_uri(&parts.uri) {
            Ok(axum::extract::Query(value)) => Ok(Self(value)),
            Err(rejection) => Err(Refusal::Malformed {
                reason: rejection.body_text(),
            }
            .into()),
        }
    }
}

/// How many items a page may have: from 1 to `MOST`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit<const MOST: usize>(pub(crate) usize);

impl<'de, const MOST: usize> Deserialize<'de> for Limit<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let limit = usize::deserialize(deserializer)?;
        if (1..=MOST).contains(&limit) {
            return Ok(Self(limit));
        }
        let problem = format_args!("a page has from 1 to {MOST} items, not {limit}");
        Err(de::Error::custom(problem))
    }
}

/// The session in the path: its id, its name, or a unique prefix of either.
pub(crate) struct Session(pub(crate) Summary);

impl FromRequestParts<Server> for Session {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, Failed> {
        let reference = path_part(parts, server, "session").await?;
        let summary = sessions::find(&server.env, &reference).await?;
        if let Some(trace) = parts.extensions.get::<Trace>() {
            trace.set_session(summary.id);
        }
        check_head(&parts.headers, &summary)?;
        Ok(Self(summary))
    }
}

/// The session in the path, if the route has one, whatever its newest event is.
pub(crate) async fn session_of(
    parts: &mut Parts,
    server: &Server,
) -> Result<Option<Summary>, Failed> {
    let Ok(reference) = path_part(parts, server, "session").await else {
        return Ok(None);
    };
    Ok(Some(sessions::find(&server.env, &reference).await?))
}

/// The checkpoint in the path, which belongs to the session in the path.
pub(crate) struct Checkpoint(pub(crate) Manifest);

impl FromRequestParts<Server> for Checkpoint {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, Failed> {
        let Session(summary) = Session::from_request_parts(parts, server).await?;
        let reference = path_part(parts, server, "checkpoint").await?;
        let manifest = checkpoint::find(&server.env, &reference).await?;
        if manifest.session != summary.id {
            let (checkpoint, name) = (manifest.id, summary.name);
            return Err(Refusal::OtherSession { checkpoint, name }.into());
        }
        Ok(Self(manifest))
    }
}

/// A named part of the path, decoded.
async fn path_part(parts: &mut Parts, server: &Server, name: &str) -> Result<String, Failed> {
    let path = axum::extract::RawPathParams::from_request_parts(parts, server).await;
    let params = path.map_err(|rejection| Refusal::Malformed {
        reason: rejection.body_text(),
    })?;
    let found = params.iter().find(|(key, _)| *key == name);
    let value = found.map(|(_, value)| value.to_owned());
    value.ok_or_else(|| {
        Refusal::Malformed {
            reason: format!("the path has no {name}"),
        }
        .into()
    })
}

/// With `If-Match: "SEQ"`, the newest event must be that one: the client decided on what it saw.
fn check_head(headers: &HeaderMap, summary: &Summary) -> Result<(), Refusal> {
    let Some(expected) = headers.get("if-match") else {
        return Ok(());
    };
    let expected = String::from_utf8_lossy(expected.as_bytes()).into_owned();
    let newest = summary.head.seq.0;
    if expected == "*" || expected.trim_matches('"') == newest.to_string() {
        return Ok(());
    }
    Err(Refusal::Stale { newest, expected })
}

/// The form of a page.
pub(crate) struct Form<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Server> for Form<T> {
    type Rejection = Failed;

    async fn from_request(request: Request, server: &Server) -> Result<Self, Failed> {
        let bytes = read_in_time(request.into_body(), server).await?;
        let mut uri = b"/?".to_vec();
        uri.extend(bytes);
        let malformed = |reason: String| Refusal::Malformed { reason };
        let uri = Uri::try_from(uri).map_err(|error| malformed(error.to_string()))?;
        match axum::extract::Query::<T>::try_from_uri(&uri) {
            Ok(axum::extract::Query(value)) => Ok(Self(value)),
            Err(rejection) => Err(malformed(rejection.body_text()).into()),
        }
    }
}
