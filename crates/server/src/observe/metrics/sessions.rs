//! Counts sessions, steps and usage, beside the requests.
//!
//! The first scrape starts it. It reads all sessions once, a few at a time, and then only those that
//! changed, at most [`BATCH`] each [`PAUSE`]; how many wait is a metric, too. A scrape reads numbers
//! that are ready.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use segno_core::id::SessionId;
use segno_core::journal::Seq;
use segno_core::session::Status;
use segno_core::store::{Changed, Error as StoreError, Filter, Summary};
use segno_engine::{Env, history, lease};
use tokio::sync::OnceCell;

/// How many sessions are read at once.
const BATCH: usize = 50;
/// How long others work between two batches.
const PAUSE: Duration = Duration::from_millis(50);
/// How long to wait when changes cannot be watched.
const WITHOUT_WATCH: Duration = Duration::from_mins(1);

/// How many runs a scrape checks.
const MAX_CHECKED: usize = 200;

/// The numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    pub(super) by_status: BTreeMap<&'static str, u64>,
    pub(super) uncounted: u64,
    pub(super) damaged: u64,
    pub(super) active: u64,
    pub(super) questions: u64,
    pub(super) steps: u64,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cost_micro_usd: u64,
}

/// What is known about one session.
struct Session {
    seq: Seq,
    status: Status,
    is_active: bool,
    questions: u64,
    steps: u64,
    input_tokens: u64,
    output_tokens: u64,
    cost_micro_usd: u64,
}

#[derive(Default)]
struct Known {
    sessions: HashMap<SessionId, Session>,
    damaged: BTreeSet<SessionId>,
    waiting: BTreeSet<SessionId>,
}

/// Counts the sessions of a home, once somebody asks.
#[derive(Clone, Default)]
pub(crate) struct SessionCounter {
    known: Arc<Mutex<Known>>,
    started: Arc<OnceCell<()>>,
}

impl SessionCounter {
    /// The numbers as far as they are known.
    pub(crate) async fn counts(&self, env: &Env) -> Counts {
        let start = async || {
            // The first answer is not empty, if there are few sessions.
            self.read_page(env, None).await;
            tokio::spawn(follow(env.clone(), self.clone()));
        };
        self.started.get_or_init(start).await;
        self.check_active(env).await;
        self.lock().counts()
    }

    /// A run that was killed reports nothing.
    async fn check_active(&self, env: &Env) {
        let active: Vec<SessionId> = {
            let known = self.lock();
            let active = known.sessions.iter().filter(|(_, it)| it.is_active);
            active.map(|(id, _)| *id).take(MAX_CHECKED).collect()
        };
        for id in active {
            let lease = env.store.lease(id).await;
            let is_active = lease.is_ok_and(|lease| lease::verdict(env, &lease).is_held());
            if let Some(session) = self.lock().sessions.get_mut(&id) {
                session.is_active = is_active;
            }
        }
    }

    /// Reads the sessions that are older than `before`. Returns the oldest one, unless it was the
    /// last.
    async fn read_page(&self, env: &Env, before: Option<SessionId>) -> Option<SessionId> {
        let filter = Filter {
            before,
            limit: Some(BATCH),
            ..Filter::default()
        };
        let page = env.store.list(filter).await.unwrap_or_default();
        let found: Vec<Summary> = page.into_iter().flatten().collect();
        for summary in &found {
            self.count(env, summary).await;
        }
        let last = found.last().filter(|_| found.len() == BATCH);
        last.map(|summary| summary.id)
    }

    /// Reads all sessions, and forgets those that are gone.
    async fn read_all(&self, env: &Env) {
        let trashed = env.store.list_trash().await.unwrap_or_default();
        for gone in trashed.into_iter().flatten() {
            self.forget(gone.session);
        }
        let mut before = None;
        loop {
            before = self.read_page(env, before).await;
            if before.is_none() {
                return;
            }
            env.clock.sleep(PAUSE).await;
        }
    }

    /// Reads the sessions that changed.
    async fn read_changed(&self, env: &Env, changed: BTreeSet<SessionId>) {
        self.lock().waiting.clone_from(&changed);
        for (index, session) in changed.into_iter().enumerate() {
            if index % BATCH == BATCH - 1 {
                env.clock.sleep(PAUSE).await;
            }
            match env.store.summary(session).await {
                Ok(summary) if self.is_news(env, &summary).await => {
                    self.count(env, &summary).await;
                }
                Ok(_) | Err(StoreError::NoSession(_)) => self.forget(session),
                Err(_) => drop(self.lock().damaged.insert(session)),
            }
            self.lock().waiting.remove(&session);
        }
    }

    /// False for a session in the trash, which changed without an event.
    async fn is_news(&self, env: &Env, summary: &Summary) -> bool {
        let known = self.lock().sessions.get(&summary.id).map(|it| it.seq);
        if known != Some(summary.head.seq) {
            return true;
        }
        let trashed = env.store.list_trash().await.unwrap_or_default();
        let mut trashed = trashed.into_iter().flatten();
        !trashed.any(|trashed| trashed.session == summary.id)
    }

    async fn count(&self, env: &Env, summary: &Summary) {
        let is_active = match (summary.status, env.store.lease(summary.id).await) {
            (Status::Running, Ok(lease)) => lease::verdict(env, &lease).is_held(),
            _ => false,
        };
        match history::load_state(env, summary.id).await {
            Ok(state) => {
                let session = Session {
                    seq: summary.head.seq,
                    status: summary.status,
                    is_active,
                    questions: state.questions.len() as u64,
                    steps: state.finished,
                    input_tokens: state.usage.input_tokens,
                    output_tokens: state.usage.output_tokens,
                    cost_micro_usd: state.usage.cost.0,
                };
                let mut known = self.lock();
                known.damaged.remove(&summary.id);
                known.sessions.insert(summary.id, session);
            }
            Err(_) => drop(self.lock().damaged.insert(summary.id)),
        }
    }

    fn forget(&self, session: SessionId) {
        let mut known = self.lock();
        known.sessions.remove(&session);
        known.damaged.remove(&session);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn counts(&self) -> Counts {
        let mut counts = Counts {
            uncounted: self.waiting.len() as u64,
            damaged: self.damaged.len() as u64,
            by_status: Status::ALL.iter().map(|it| (it.as_str(), 0)).collect(),
            ..Counts::default()
        };
        for session in self.sessions.values() {
            *counts.by_status.entry(session.status.as_str()).or_default() += 1;
            counts.active += u64::from(session.is_active);
            counts.questions += session.questions;
            counts.steps += session.steps;
            counts.input_tokens += session.input_tokens;
            counts.output_tokens += session.output_tokens;
            counts.cost_micro_usd += session.cost_micro_usd;
        }
        counts
    }
}

/// Counts what changes, for as long as the runtime lives.
async fn follow(env: Env, counter: SessionCounter) {
    loop {
        if let Ok(mut watch) = env.store.watch() {
            counter.read_all(&env).await;
            loop {
                match watch.changed().await {
                    Changed::Sessions(changed) => counter.read_changed(&env, changed).await,
                    Changed::Any => counter.read_all(&env).await,
                }
                env.clock.sleep(PAUSE).await;
            }
        }
        env.clock.sleep(WITHOUT_WATCH).await;
        counter.read_all(&env).await;
    }
}
