//! One short function per route, and the table of all routes.
//!
//! The router, the OpenAPI document and the tests of the guard are made from [`ENDPOINTS`], so none
//! of them can miss a route.

mod artifacts;
mod checkpoint_files;
mod checkpoints;
mod control;
mod conversation;
mod events;
mod fork;
mod login;
mod openapi;
mod pages;
mod questions;
mod recovery;
mod reference;
mod runs;
mod service;
mod sessions;
mod stored;
mod workflows;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn_with_state, map_response_with_state};
use axum::routing::{MethodRouter, get, post};

use crate::Server;
use crate::access::Scope;
use crate::error::{Failed, Refusal};
use crate::guard;
use crate::idempotency::{self, Recover};
use crate::observe;
use openapi::Doc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
}

impl Method {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// A route of the API.
pub struct Endpoint {
    pub method: Method,
    pub path: &'static str,
    /// The scope that a caller needs; `None` if no token is needed.
    pub scope: Option<Scope>,
    pub(crate) doc: Doc,
    /// Finds the effect of a request with a key after the server was killed; absent: it is refused.
    recover: Option<Recover>,
    handler: fn() -> MethodRouter<Server>,
}

impl Endpoint {
    const fn recovered_by(mut self, recover: Recover) -> Self {
        self.recover = Some(recover);
        self
    }
}

/// A route that only reads.
const fn reads(path: &'static str, doc: Doc, handler: fn() -> MethodRouter<Server>) -> Endpoint {
    Endpoint {
        method: Method::Get,
        path,
        scope: Some(Scope::Read),
        doc,
        recover: None,
        handler,
    }
}

/// A route that only reads, but occupies the machine.
const fn administers(
    path: &'static str,
    doc: Doc,
    handler: fn() -> MethodRouter<Server>,
) -> Endpoint {
    Endpoint {
        method: Method::Get,
        path,
        scope: Some(Scope::Admin),
        doc,
        handler,
        recover: None,
    }
}

/// A route that changes something.
const fn operates(path: &'static str, doc: Doc, handler: fn() -> MethodRouter<Server>) -> Endpoint {
    Endpoint {
        method: Method::Post,
        path,
        scope: Some(Scope::Operate),
        doc,
        recover: None,
        handler,
    }
}

/// A route that needs no token.
const fn is_open(
    method: Method,
    path: &'static str,
    doc: Doc,
    handler: fn() -> MethodRouter<Server>,
) -> Endpoint {
    Endpoint {
        method,
        path,
        scope: None,
        doc,
        recover: None,
        handler,
    }
}

/// Every route.
pub const ENDPOINTS: &[Endpoint] = &[
    is_open(Method::Get, "/", pages::HOME, || get(pages::home)),
    is_open(Method::Get, "/login", login::FORM, || get(login::form)),
    is_open(Method::Post, "/login", login::LOGIN, || post(login::login)),
    is_open(Method::Get, "/style.css", pages::STYLE, || {
        get(pages::style)
    }),
    is_open(Method::Get, "/errors/{code}", pages::ERROR, || {
        get(pages::error)
    }),
    is_open(Method::Get, "/api", reference::REFERENCE, || {
        get(reference::reference)
    }),
    is_open(Method::Get, "/health", service::HEALTH, || {
        get(service::health)
    }),
    is_open(Method::Get, "/ready", service::READY, || {
        get(service::ready)
    }),
    is_open(Method::Get, "/openapi.json", service::OPENAPI, || {
        get(service::openapi)
    }),
    reads("/api/v1/workers", runs::WORKERS, || get(runs::workers)),
    reads("/api/v1/sessions", sessions::LIST, || get(sessions::list)),
    reads("/api/v1/sessions/{session}", sessions::SHOW, || {
        get(sessions::show)
    }),
    reads(
        "/api/v1/sessions/{session}/output",
        sessions::OUTPUT,
        || get(sessions::output),
    ),
    reads("/api/v1/sessions/{session}/steps", sessions::STEPS, || {
        get(sessions::steps)
    }),
    reads(
        "/api/v1/sessions/{session}/history/{category}",
        sessions::HISTORY,
        || get(sessions::history),
    ),
    reads(
        "/api/v1/sessions/{session}/context",
        sessions::CONTEXT,
        || get(sessions::context),
    ),
    reads(
        "/api/v1/sessions/{session}/resume-plan",
        sessions::RESUME_PLAN,
        || get(sessions::resume_plan),
    ),
    reads(
        "/api/v1/sessions/{session}/questions",
        questions::OF_SESSION,
        || get(questions::of_session),
    ),
    reads(
        "/api/v1/sessions/{session}/conversation",
        conversation::CONVERSATION,
        || get(conversation::conversation),
    ),
    reads(
        "/api/v1/sessions/{session}/plan",
        conversation::PLAN,
        || get(conversation::plan),
    ),
    reads(
        "/api/v1/sessions/{session}/artifacts",
        artifacts::LIST,
        || get(artifacts::list),
    ),
    reads(
        "/api/v1/sessions/{session}/artifacts/{artifact}",
        artifacts::DOWNLOAD,
        || get(artifacts::download),
    ),
    reads("/api/v1/sessions/{session}/events", events::EVENTS, || {
        get(events::events)
    }),
    reads("/api/v1/events", events::FEED, || get(events::feed)),
    reads(
        "/api/v1/sessions/{session}/checkpoints",
        checkpoints::LIST,
        || get(checkpoints::list),
    ),
    reads(
        "/api/v1/sessions/{session}/checkpoints/{checkpoint}",
        checkpoints::SHOW,
        || get(checkpoints::show),
    ),
    reads(
        "/api/v1/sessions/{session}/checkpoints/{checkpoint}/{section}",
        checkpoints::SECTION,
        || get(checkpoints::section),
    ),
    reads(
        "/api/v1/sessions/{session}/checkpoints/{checkpoint}/files",
        checkpoint_files::FILES,
        || get(checkpoint_files::files),
    ),
    reads(
        "/api/v1/sessions/{session}/checkpoints/{checkpoint}/diff",
        checkpoint_files::DIFF,
        || get(checkpoint_files::diff),
    ),
    reads("/api/v1/questions", questions::ALL, || get(questions::all)),
    reads("/api/v1/changes", stored::CHANGES, || get(stored::changes)),
    // Sessions as they are stored.
    reads("/api/v1/stored", stored::LIST, || get(stored::list)),
    reads("/api/v1/stored/{session}", stored::SHOW, || {
        get(stored::show)
    }),
    reads("/api/v1/stored/{session}/records", stored::RECORDS, || {
        get(stored::records)
    }),
    reads("/api/v1/manifests", stored::MANIFESTS, || {
        get(stored::manifests)
    }),
    reads("/api/v1/blobs/{digest}", stored::BLOB, || get(stored::blob)),
    reads("/api/v1/trash", stored::TRASH, || get(stored::trash)),
    reads("/metrics", service::METRICS, || get(service::metrics)),
    reads("/api/v1/search", sessions::SEARCH, || get(sessions::search)),
    administers("/api/v1/doctor", service::DOCTOR, || get(service::doctor)),
    // The addresses of an earlier design, for its clients.
    reads(
        "/api/workflows/{session}/snapshots",
        workflows::SNAPSHOTS,
        || get(workflows::snapshots),
    ),
    reads(
        "/api/workflows/{session}/snapshots/{checkpoint}",
        workflows::SNAPSHOT,
        || get(workflows::show),
    ),
    reads(
        "/api/workflows/{session}/snapshots/{checkpoint}/{part}",
        workflows::PART,
        || get(workflows::part),
    ),
    operates(
        "/api/workflows/{session}/pause",
        control::PAUSE_WORKFLOW,
        || post(control::pause_workflow),
    )
    .recovered_by(recovery::pause_workflow),
    operates(
        "/api/workflows/{session}/resume",
        runs::RESUME_WORKFLOW,
        || post(runs::resume_workflow),
    )
    .recovered_by(recovery::resume_workflow),
    operates("/api/v1/sessions", runs::START, || post(runs::start)).recovered_by(recovery::start),
    operates("/api/v1/sessions/{session}/resume", runs::RESUME, || {
        post(runs::resume)
    })
    .recovered_by(recovery::resume),
    operates("/api/v1/sessions/{session}/messages", runs::MESSAGE, || {
        post(runs::message)
    })
    .recovered_by(recovery::resume),
    operates("/api/v1/sessions/{session}/pause", control::PAUSE, || {
        post(control::pause)
    })
    .recovered_by(recovery::pause),
    operates("/api/v1/sessions/{session}/stop", control::STOP, || {
        post(control::stop)
    })
    .recovered_by(recovery::pause),
    operates("/api/v1/sessions/{session}/fork", fork::FORK, || {
        post(fork::fork)
    }),
    operates("/api/v1/sessions/{session}/cancel", control::CANCEL, || {
        post(control::cancel)
    })
    .recovered_by(recovery::cancel),
    operates("/api/v1/sessions/{session}/answer", control::ANSWER, || {
        post(control::answer)
    })
    .recovered_by(recovery::answer),
    operates("/api/v1/sessions/{session}/notes", control::NOTE, || {
        post(control::note)
    })
    .recovered_by(recovery::note),
    operates(
        "/api/v1/sessions/{session}/checkpoints",
        checkpoints::CREATE,
        || post(checkpoints::create),
    )
    .recovered_by(recovery::checkpoint),
    operates(
        "/api/v1/sessions/{session}/checkpoints/{checkpoint}/verify",
        checkpoints::VERIFY,
        || post(checkpoints::verify),
    )
    .recovered_by(recovery::repeat),
    operates(
        "/api/v1/sessions/{session}/checkpoints/{checkpoint}/restore",
        checkpoint_files::RESTORE,
        || post(checkpoint_files::restore),
    ),
];

/// The router of all routes, with the guard around them.
pub(crate) fn router(server: &Server) -> Router {
    let mut router = Router::new();
    for endpoint in ENDPOINTS {
        let mut handler = (endpoint.handler)();
        if let Some(scope) = endpoint.scope {
            if endpoint.method == Method::Post {
                let route = idempotency::Route {
                    path: endpoint.path,
                    recover: endpoint.recover,
                };
                let state = (server.clone(), route);
                handler = handler.route_layer(from_fn_with_state(state, idempotency::once));
            }
            let state = (server.clone(), scope);
            handler = handler.route_layer(from_fn_with_state(state, guard::check_token));
        }
        router = router.route(endpoint.path, handler);
    }
    router
        .fallback(no_such_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(server.clone(), guard::check_site))
        .layer(map_response_with_state(server.clone(), guard::finish))
        .layer(from_fn_with_state(server.clone(), observe::report))
        .with_state(server.clone())
}

async fn no_such_route(request: Request) -> Failed {
    let path = request.uri().path().to_owned();
    Refusal::NoSuchRoute { path }.into()
}

async fn wrong_method(request: Request) -> Failed {
    Refusal::WrongMethod {
        path: request.uri().path().to_owned(),
        method: request.method().to_string(),
    }
    .into()
}
