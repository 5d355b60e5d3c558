//! The server itself.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use segno_core::snapshot::Depth;
use segno_core::store::Filter;
use segno_sessions::{doctor, json as shapes};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::Server;
use crate::error::{Failed, Refusal};
use crate::observe::metrics::process::Process;
use crate::routes::openapi::{self, Doc};

/// How many findings a verification lists.
const MAX_FINDINGS: usize = 1000;

pub(super) const HEALTH: Doc = Doc::new("Whether the process answers", "Health");

pub(super) async fn health(State(server): State<Server>) -> Json<Value> {
    Json(json!({"v": 1, "kind": "health", "version": server.env.version}))
}

pub(super) const READY: Doc = Doc::new("Whether sessions can be read", "Health");

pub(super) async fn ready(State(server): State<Server>) -> Result<Json<Value>, Failed> {
    let filter = Filter {
        limit: Some(1),
        ..Filter::default()
    };
    server.env.store.list(filter).await?;
    Ok(health(State(server)).await)
}

pub(super) const DOCTOR: Doc = Doc::new(
    "Verify all stored data, except the content of files, and name what is damaged",
    "Verification",
);

/// Reads every journal, so it runs on a thread of its own, and only once at a time.
pub(super) async fn doctor(State(server): State<Server>) -> Result<Json<Value>, Failed> {
    let Ok(turn) = Arc::clone(&server.verifying).try_acquire_owned() else {
        return Err(Refusal::Verifying.into());
    };
    let (env, runtime) = (server.env.clone(), Handle::current());
    let verifying = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let depth = Depth::Structure;
        runtime.block_on(doctor::verify(&env, depth, |_, _| {}, &|_, _| {}))
    });
    let report = verifying.await.expect("a verification does not panic")?;
    Ok(Json(json!({
        "v": 1,
        "kind": "verification",
        "findings": report.findings.iter().take(MAX_FINDINGS).map(shapes::finding).collect::<Vec<_>>(),
        "not_listed": report.findings.len().saturating_sub(MAX_FINDINGS),
        "report": shapes::report(&report, false),
    })))
}

pub(super) const OPENAPI: Doc = Doc::new("This API as an OpenAPI document", "Anything");

pub(super) async fn openapi(State(server): State<Server>) -> Json<Value> {
    Json(openapi::document(server.env.version))
}

pub(super) const METRICS: Doc = Doc::text("What the server measures, for Prometheus");

pub(super) async fn metrics(State(server): State<Server>) -> Response {
    let env = &server.env;
    let counts = server.counter.counts(env).await;
    let (_, disk) = server.tokens.place();
    let uptime = env.clock.elapsed().saturating_sub(server.started);
    let metrics = &server.reports.metrics;
    let text = metrics.text(&counts, &Process::now(&*disk), env.version, uptime);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}
