//! `Idempotency-Key`: a request that is sent again has one effect.
//!
//! A key belongs to a token and a route. Before the effect, the intent is stored; after it, the
//! outcome. The same request with the same key gets that outcome again; another request with it is
//! refused. While the first one works, others wait. If a server was killed between intent and
//! outcome, the route says whether the effect is there ([`Recover`]); a route that cannot tell
//! refuses, so that nothing is ever done twice (docs/decisions/0093).
//!
//! What has begun ends also if its client leaves: `observe` handles it in a task of its own.

mod keys;
mod mark;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use segno_core::checkpoint::Position;
use segno_core::digest::Digest;
use segno_core::fault::{Point, point};
use segno_core::id::{CheckpointId, SessionId};
use segno_core::journal::Head;
use segno_core::ports::{Boxed, Clock, Disk, Random};
use segno_core::store::Error as StoreError;
use segno_core::time::Timestamp;
use tokio::sync::watch;

use crate::Server;
use crate::error::{Failed, Refusal};
use crate::guard::Caller;
use crate::request::{read_in_time, session_of};
use crate::trace::{Trace, random_hex};
use keys::{Intent, Keys, Known, Outcome};

pub(crate) use mark::Mark;

/// The header of an outcome that was stored.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const MAX_KEY: usize = 128;
/// How long a request waits for an earlier one with its key.
const WAIT: Duration = Duration::from_secs(10);
/// The longest answer that is stored.
const MAX_ANSWER: usize = 4 << 20;

/// What one intent does, however often it is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operation {
    mark: String,
    at: Timestamp,
}

impl Operation {
    fn new(random: &dyn Random, at: Timestamp) -> Self {
        let mark = random_hex(random);
        Self { mark, at }
    }

    /// The id of the checkpoint that this operation takes.
    pub(crate) fn checkpoint(&self) -> (CheckpointId, Timestamp) {
        (CheckpointId::new(self.at, self.entropy()), self.at)
    }

    /// The id of the session that this operation starts.
    pub(crate) fn new_session(&self) -> SessionId {
        SessionId::new(self.at, self.entropy())
    }

    fn entropy(&self) -> [u8; 10] {
        let digest = Digest::of(self.mark.as_bytes());
        let mut entropy = [0; 10];
        entropy.copy_from_slice(&digest.as_bytes()[..10]);
        entropy
    }
}

/// A request that a killed server had begun.
#[derive(Debug)]
pub(crate) struct Interrupted {
    pub(crate) operation: Operation,
    session: Option<(SessionId, Position)>,
}

impl Interrupted {
    /// The session of the request, and the run that was its newest.
    pub(crate) fn session(&self) -> Result<(SessionId, &Position), Refusal> {
        let found = self.session.as_ref().map(|(id, at)| (*id, at));
        found.ok_or(Refusal::OutcomeUnknown)
    }

    /// The effect in the session.
    pub(crate) async fn effect(&self, server: &Server) -> Result<Option<Mark>, Failed> {
        let (session, at) = self.session()?;
        let head = Head {
            seq: at.seq,
            hash: at.hash,
        };
        let store = &*server.env.store;
        Ok(mark::find(store, session, head, &self.operation.mark).await?)
    }
}

/// Whether an interrupted request had its effect.
pub(crate) enum Recovered {
    /// It had; this is its answer.
    Done(Response),
    /// It had none, and never will.
    NotDone,
    Unknown,
}

/// Finds out whether an interrupted request had its effect.
pub(crate) type Recover =
    for<'a> fn(&'a Server, &'a Interrupted) -> Boxed<'a, Result<Recovered, Failed>>;

/// A route whose requests may have keys.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    pub(crate) path: &'static str,
    pub(crate) recover: Option<Recover>,
}

/// The requests with keys.
#[derive(Clone)]
pub(crate) struct Requests {
    keys: Arc<Keys>,
    clock: Arc<dyn Clock>,
    running: Arc<Mutex<HashMap<Digest, watch::Receiver<()>>>>,
}

impl Requests {
    pub(crate) fn new(folder: PathBuf, disk: Arc<dyn Disk>, clock: Arc<dyn Clock>) -> Self {
        Self {
            keys: Arc::new(Keys::new(folder, disk, Arc::clone(&clock))),
            clock,
            running: Arc::default(),
        }
    }

    /// Waits until no other request with this key works.
    async fn turn(&self, key: Digest) -> Result<Turn, Refusal> {
        let mut limit = self.clock.sleep(WAIT);
        loop {
            let mut other = match self.try_turn(key) {
                Ok(turn) => return Ok(turn),
                Err(other) => other,
            };
            tokio::select! {
                // Its sender is dropped at its end.
                _ = other.changed() => {}
                () = &mut limit => return Err(Refusal::StillWorking),
            }
        }
    }

    /// The turn, or what ends with the request that has it.
    fn try_turn(&self, key: Digest) -> Result<Turn, watch::Receiver<()>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = running.get(&key) {
            return Err(other.clone());
        }
        let (ended, waiting) = watch::channel(());
        running.insert(key, waiting);
        Ok(Turn {
            running: Arc::clone(&self.running),
            key,
            _ended: ended,
        })
    }

    /// Runs file operations where they do not hold up other requests.
    async fn files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Keys) -> Result<T, keys::Error> + Send + 'static,
    ) -> Result<T, keys::Error> {
        let keys = Arc::clone(&self.keys);
        let done = tokio::task::spawn_blocking(move || work(&keys)).await;
        done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }
}

/// The right to work on a key, until it is dropped.
struct Turn {
    running: Arc<Mutex<HashMap<Digest, watch::Receiver<()>>>>,
    key: Digest,
    _ended: watch::Sender<()>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.remove(&self.key);
    }
}

/// Handles a request with a key once.
pub(crate) async fn once(
    State((server, route)): State<(Server, Route)>,
    request: Request,
    next: Next,
) -> Response {
    let handled = match key_of(request.headers()) {
        Ok(None) => return next.run(request).await,
        Ok(Some(key)) => handle(server, route, &key, request, next).await,
        Err(refusal) => Err(refusal.into()),
    };
    handled.unwrap_or_else(IntoResponse::into_response)
}

fn key_of(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let mut given = headers.get_all("idempotency-key").iter();
    let key = match (given.next(), given.next()) {
        (None, _) => return Ok(None),
        (Some(key), None) => key.to_str().unwrap_or_default(),
        (Some(_), Some(_)) => "",
    };
    let is_usable = (1..=MAX_KEY).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic());
    if is_usable {
        return Ok(Some(key.to_owned()));
    }
    Err(Refusal::Malformed {
        reason: format!("Idempotency-Key must be 1 to {MAX_KEY} visible ASCII characters, once"),
    })
}

async fn handle(
    server: Server,
    route: Route,
    key: &str,
    request: Request,
    next: Next,
) -> Result<Response, Failed> {
    let (parts, body) = request.into_parts();
    let body = read_in_time(body, &server).await?;
    let caller = parts.extensions.get::<Caller>();
    let token = caller.map_or("", Caller::token_id).as_bytes();
    let key = Digest::of_fields(&[token, route.path.as_bytes(), key.as_bytes()]);
    let turn = server.requests.turn(key).await?;
    let once = Once {
        fingerprint: fingerprint(&parts, &body),
        server,
        route,
        key,
    };
    let handled = once.handle(parts, body, next).await;
    drop(turn);
    handled
}

fn fingerprint(parts: &Parts, body: &[u8]) -> Digest {
    let address = parts.uri.path_and_query();
    let address = address.map_or("", |address| address.as_str());
    Digest::of_fields(&[address.as_bytes(), body])
}

/// One request with a key.
struct Once {
    server: Server,
    route: Route,
    key: Digest,
    fingerprint: Digest,
}

impl Once {
    async fn handle(
        &self,
        mut parts: Parts,
        body: Vec<u8>,
        next: Next,
    ) -> Result<Response, Failed> {
        let (requests, key) = (&self.server.requests, self.key);
        let operation = match requests.files(move |keys| keys.find(&key)).await? {
            Known::Nothing => self.begin(&mut parts).await?,
            Known::Damaged => return Err(Refusal::OutcomeUnknown.into()),
            Known::Intent(intent) | Known::Outcome(intent, _)
                if intent.fingerprint != self.fingerprint =>
            {
                return Err(Refusal::KeyReused.into());
            }
            Known::Outcome(_, outcome) => return Ok(replay(outcome)),
            Known::Intent(intent) => match self.recover(intent).await? {
                Ok(operation) => operation,
                Err(answer) => return self.finish(answer).await,
            },
        };
        if let Some(caller) = parts.extensions.get_mut::<Caller>() {
            caller.set_mark(&operation.mark);
        }
        if let Some(trace) = parts.extensions.get::<Trace>() {
            trace.set_operation(&operation.mark);
        }
        parts.extensions.insert(operation);
        let response = next.run(Request::from_parts(parts, Body::from(body))).await;
        point(Point::RequestAfterEffect);
        self.finish(response).await
    }

    /// Stores the intent of a new key.
    async fn begin(&self, parts: &mut Parts) -> Result<Operation, Failed> {
        let session = match session_of(parts, &self.server).await? {
            None => None,
            Some(summary) => Some((
                summary.id,
                Position {
                    run: summary.run,
                    seq: summary.head.seq,
                    hash: summary.head.hash,
                },
            )),
        };
        let env = &self.server.env;
        let operation = Operation::new(&*env.random, env.clock.now());
        let intent = Intent {
            v: 1,
            route: self.route.path.to_owned(),
            fingerprint: self.fingerprint,
            operation: operation.mark.clone(),
            at_ms: operation.at.0,
            session,
        };
        let key = self.key;
        let begin = move |keys: &Keys| keys.begin(&key, &intent);
        self.server.requests.files(begin).await?;
        point(Point::RequestAfterIntent);
        Ok(operation)
    }

    /// The operation of an intent that had no effect yet, or the answer of one that had.
    async fn recover(&self, intent: Intent) -> Result<Result<Operation, Response>, Failed> {
        let interrupted = Interrupted {
            operation: Operation {
                mark: intent.operation,
                at: Timestamp(intent.at_ms),
            },
            session: intent.session,
        };
        let recovered = match self.route.recover {
            Some(recover) => recover(&self.server, &interrupted).await?,
            None => Recovered::Unknown,
        };
        match recovered {
            Recovered::Done(response) => Ok(Err(response)),
            Recovered::NotDone => Ok(Ok(interrupted.operation)),
            Recovered::Unknown => Err(Refusal::OutcomeUnknown.into()),
        }
    }

    /// Stores the outcome. A refusal changed nothing, so its key can be used again. A failure may
    /// have had an effect: its intent stays, and the next request with the key finds out.
    async fn finish(&self, response: Response) -> Result<Response, Failed> {
        let (requests, key) = (&self.server.requests, self.key);
        if response.status().is_client_error() {
            requests.files(move |keys| keys.forget(&key)).await?;
            return Ok(response);
        }
        if !response.status().is_success() {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        // A longer one is not stored, and lost to its sender: the next request finds it out.
        let body = to_bytes(body, MAX_ANSWER).await;
        let body = body.map_err(|_| Refusal::OutcomeUnknown)?;
        let header = |name| {
            let value = parts.headers.get(name);
            value.and_then(|it: &HeaderValue| it.to_str().ok().map(str::to_owned))
        };
        let outcome = Outcome {
            v: 1,
            status: parts.status.as_u16(),
            content_type: header(CONTENT_TYPE),
            location: header(LOCATION),
            body: String::from_utf8_lossy(&body).into_owned(),
        };
        // The effect is durable, and it carries its mark: an outcome that cannot be stored now is
        // found out by the next request, so this one is answered with what happened.
        let _ = requests
            .files(move |keys| keys.finish(&key, &outcome))
            .await;
        point(Point::RequestAfterOutcome);
        Ok(Response::from_parts(parts, Body::from(body)))
    }
}

fn replay(outcome: Outcome) -> Response {
    let status = StatusCode::from_u16(outcome.status).unwrap_or(StatusCode::OK);
    let mut response = (status, outcome.body).into_response();
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, outcome.content_type),
        (LOCATION, outcome.location),
    ] {
        if let Some(value) = value.and_then(|it| HeaderValue::from_str(&it).ok()) {
            headers.insert(name, value);
        }
    }
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

/// The run of a session, now.
pub(crate) async fn newest_run(
    server: &Server,
    session: SessionId,
) -> Result<segno_core::journal::Run, StoreError> {
    Ok(server.env.store.lease(session).await?.run)
}
