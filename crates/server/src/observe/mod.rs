//! What is reported about requests: an id for each, the audit log, lines on stderr and metrics.
//!
//! A request that may change something is handled in a task of its own, so that it ends, and is in
//! the audit log, also if its client leaves meanwhile. Such tasks are bounded: one that reads a body
//! ends with its connection, and the guard limits how many of the others work at once.

mod audit;
mod log;
pub(crate) mod metrics;
mod record;

use std::panic::resume_unwind;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;

use crate::Server;
use crate::error::ErrorCode;
use crate::guard::Peer;
use crate::trace::Trace;
use metrics::Metrics;
use record::Record;

pub use audit::{Audit, Error as AuditError};
pub use log::{Format, Log};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Where requests are reported.
#[derive(Clone)]
pub(crate) struct Reports {
    audit: Audit,
    pub(crate) log: Option<Log>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Reports {
    pub(crate) fn new(audit: Audit, metrics: Arc<Metrics>) -> Self {
        Self {
            audit,
            log: None,
            metrics,
        }
    }
}

/// Handles a request and reports it.
pub(crate) async fn report(State(server): State<Server>, request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return handle(&server, request, next).await;
    }
    let handled = tokio::spawn(async move { handle(&server, request, next).await }).await;
    handled.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}

async fn handle(server: &Server, mut request: Request, next: Next) -> Response {
    let (env, reports) = (&server.env, &server.reports);
    let trace = Trace::new(&*env.random);
    let began = env.clock.elapsed();
    let peer = request.extensions().get::<Peer>().copied();
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map(|route| route.as_str().to_owned());
    let method = request.method().to_string();
    request.extensions_mut().insert(trace.clone());
    let mut response = next.run(request).await;
    let code = response.extensions().get::<ErrorCode>().map(|code| code.0);
    let record = Record {
        time: env.clock.now().to_string(),
        trace,
        peer: peer.unwrap_or(Peer::Local),
        method,
        route,
        status: response.status().as_u16(),
        code,
        took: env.clock.elapsed().saturating_sub(began),
    };
    let (method, route) = (&record.method, record.route.as_deref());
    reports
        .metrics
        .count_request(method, route, record.status, record.took);
    if record.may_have_changed() || record.is_refused() {
        write_audit(server, &record).await;
    }
    if let Some(log) = &reports.log {
        log.request(&record, &env.redactor);
    }
    let id = HeaderValue::from_str(record.trace.id()).expect("an id of digits");
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// Adds a request to the audit log. What happened has happened: if the log cannot be written, the
/// client gets its answer, and the log on stderr and a metric tell of it.
async fn write_audit(server: &Server, record: &Record) {
    let line = record.fields(&server.env.redactor);
    let (audit, is_refused) = (server.reports.audit.clone(), record.is_refused());
    let written = tokio::task::spawn_blocking(move || audit.append(line, is_refused)).await;
    let written = written.unwrap_or_else(|error| resume_unwind(error.into_panic()));
    if let Err(error) = written {
        server.reports.metrics.count_audit_failure();
        if let Some(log) = &server.reports.log {
            log.notice(
                &record.time,
                &format!(
                    "the audit log has no line of request {}: {error}",
                    record.trace.id()
                ),
            );
        }
    }
}
