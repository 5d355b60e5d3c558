//! The HTTP API of a home: the same use cases as the command line, for programs and pages.
//!
//! [`app`] is the API as a value that tests call without a socket; [`listen`] serves it. Every
//! request passes the [`guard`] before anything else happens (P13): an allowed host, no foreign
//! page, a valid token, a sufficient scope. [`access`] stores tokens. [`routes`] has one short
//! function per route, and one table from which the router, the OpenAPI document and the tests of
//! the guard are made. [`feed`] streams journal events, [`download`] sends artifacts.

pub mod access;
mod download;
mod error;
mod feed;
mod folders;
mod guard;
mod idempotency;
pub mod instance;
pub mod listen;
#[cfg(test)]
mod memory_disk;
mod observe;
mod request;
mod routes;
mod trace;

pub use guard::AllowedHosts;
pub use observe::{Audit, AuditError, Format as LogFormat, Log};
pub use routes::{ENDPOINTS, Endpoint, Method};

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use segno_engine::Env;
use tokio::sync::{Semaphore, watch};

use crate::access::{Logins, Tokens};
use crate::feed::Feed;
use crate::guard::FailedLogins;
use crate::idempotency::Requests;
use crate::observe::Reports;
use crate::observe::metrics::Metrics;
use crate::observe::metrics::sessions::SessionCounter;

/// What the API serves, and to whom.
#[derive(Clone)]
pub struct Server {
    env: Env,
    tokens: Tokens,
    logins: Logins,
    hosts: Arc<AllowedHosts>,
    failures: Arc<FailedLogins>,
    feed: Feed,
    /// The folder where the workers of the home say who they are.
    workers: PathBuf,
    /// The folders below which clients may choose folders.
    folders: Arc<Vec<PathBuf>>,
    /// A verification of everything occupies the disk, so that only one runs at a time.
    verifying: Arc<Semaphore>,
    requests: Requests,
    reports: Reports,
    counter: SessionCounter,
    /// For requests that may change something.
    writes: Arc<Semaphore>,
    /// When it was made.
    started: Duration,
    /// True once the server stops.
    stop: watch::Receiver<bool>,
}

impl Server {
    /// Must be called inside a runtime, because it watches the store for changes. Streams end when
    /// `stop` becomes true.
    pub fn new(
        env: Env,
        tokens: Tokens,
        hosts: AllowedHosts,
        workers: PathBuf,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let metrics = Arc::new(Metrics::default());
        let feed = Feed::start(&env, Arc::clone(&metrics));
        let logins = Logins::new(tokens.clone());
        let (folder, disk) = tokens.place();
        let clock = &env.clock;
        let audit = Audit::new(folder.to_owned(), Arc::clone(&disk), Arc::clone(clock));
        let requests = Requests::new(folder.join("requests"), disk, Arc::clone(clock));
        Self {
            failures: Arc::new(FailedLogins::new(Arc::clone(&env.clock))),
            tokens,
            logins,
            hosts: Arc::new(hosts),
            feed,
            workers,
            folders: Arc::default(),
            verifying: Arc::new(Semaphore::new(1)),
            requests,
            reports: Reports::new(audit, metrics),
            counter: SessionCounter::default(),
            writes: Arc::new(Semaphore::new(guard::MAX_WRITES)),
            started: env.clock.elapsed(),
            stop,
            env,
        }
    }

    /// The same server, which prints what happens.
    #[must_use]
    pub fn with_log(mut self, log: Log) -> Self {
        self.reports.log = Some(log);
        self
    }

    /// Prints what concerns the whole server.
    pub fn notice(&self, message: &str) {
        if let Some(log) = &self.reports.log {
            let message = self.env.redactor.redact(message);
            log.notice(&self.env.clock.now().to_string(), &message);
        }
    }

    /// Lets clients choose folders below `folders`, to restore checkpoints into and to place forks.
    #[must_use]
    pub fn allow_folders(mut self, folders: Vec<PathBuf>) -> Self {
        self.folders = Arc::new(folders);
        self
    }
}

/// The whole API, with its guard.
pub fn app(server: &Server) -> Router {
    routes::router(server)
}
