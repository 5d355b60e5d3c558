//! What every request passes before anything else happens (P13).
//!
//! In this order: the host must be one of ours, so that a name that an attacker points at this
//! address is refused; no page of another site may be behind the request; the token must be valid;
//! its scope must suffice. Nothing has an effect before.

mod credentials;
mod failed_logins;
mod hosts;

pub(crate) use credentials::cookie;
pub(crate) use failed_logins::FailedLogins;
pub use hosts::AllowedHosts;

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::header::{HeaderName, HeaderValue};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::Server;
use crate::access::{Scope, TokenRecord};
use crate::error::{Failed, Problem, Refusal};
use crate::trace::Trace;

/// How many requests that may change something work at once.
pub(crate) const MAX_WRITES: usize = 256;

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A process of this user, over the Unix socket.
    Local,
    Network(IpAddr),
}

/// Who sent a request that the guard let through.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    token: TokenRecord,
    /// What marks the effect of a request with a key.
    mark: Option<String>,
}

impl Caller {
    /// Who asked, for the journal.
    pub(crate) fn name(&self) -> String {
        match &self.mark {
            None => format!("{} (server)", self.token.name),
            Some(mark) => format!("{} (server, operation {mark})", self.token.name),
        }
    }

    pub(crate) fn token_id(&self) -> &str {
        &self.token.id
    }

    pub(crate) fn set_mark(&mut self, mark: &str) {
        self.mark = Some(mark.to_owned());
    }
}

/// Sets the headers that every response has, and renders problems.
pub(crate) async fn finish(State(server): State<Server>, mut response: Response) -> Response {
    const HEADERS: [(HeaderName, HeaderValue); 6] = [
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(
                "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
                 connect-src 'self'; font-src 'self'; form-action 'self'; frame-ancestors 'none'; \
                 base-uri 'none'",
            ),
        ),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (
            header::REFERRER_POLICY,
            HeaderValue::from_static("no-referrer"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            HeaderValue::from_static("same-origin"),
        ),
    ];
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        response = problem.render(&server.env.redactor);
    }
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(value);
    }
    response
}

/// Refuses requests for other hosts and from pages of other sites. For all routes.
pub(crate) async fn check_site(
    State(server): State<Server>,
    request: Request,
    next: Next,
) -> Response {
    match server.hosts.check(&request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => Failed(refusal.into()).into_response(),
    }
}

/// Lets requests through whose token has the scope.
pub(crate) async fn check_token(
    State((server, needed)): State<(Server, Scope)>,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = match authenticate(&server, &request, needed) {
        Ok(caller) => caller,
        Err(failed) => return failed.into_response(),
    };
    request.extensions_mut().insert(caller);
    if !changes(&request) {
        return next.run(request).await;
    }
    let Ok(_permit) = server.writes.try_acquire() else {
        return Failed(Refusal::TooManyWrites.into()).into_response();
    };
    next.run(request).await
}

/// Whether a request may change something.
fn changes(request: &Request) -> bool {
    !matches!(*request.method(), Method::GET | Method::HEAD)
}

fn authenticate(server: &Server, request: &Request, needed: Scope) -> Result<Caller, Failed> {
    let peer = request.extensions().get::<Peer>().copied();
    let peer = peer.unwrap_or(Peer::Local);
    let given = credentials::of(request)?;
    let Some(token) = server.tokens.verify(&given.token)? else {
        return Err(server.failures.count(peer).into());
    };
    if let Some(trace) = request.extensions().get::<Trace>() {
        trace.set_token(&token.name);
    }
    // A browser sends the cookie with every request, and `Origin` with every change.
    if given.is_cookie && changes(request) && !request.headers().contains_key(header::ORIGIN) {
        let origin = "a browser that does not say".to_owned();
        return Err(Refusal::ForeignOrigin { origin }.into());
    }
    if token.scope < needed {
        return Err(Refusal::ScopeTooSmall {
            needed: needed.as_str(),
            given: token.scope.as_str(),
        }
        .into());
    }
    Ok(Caller { token, mark: None })
}

/// Notes in each request of a connection who is at its other end.
#[derive(Clone, Copy)]
pub(crate) struct SetPeer(pub(crate) Peer);

impl<S> tower::Layer<S> for SetPeer {
    type Service = axum::middleware::AddExtension<S, Peer>;

    fn layer(&self, service: S) -> Self::Service {
        axum::Extension(self.0).layer(service)
    }
}
