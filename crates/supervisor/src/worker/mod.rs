//! Runs what should run and does not: sessions that someone asked a worker to run, and sessions
//! whose run was lost and whose policy says that they are resumed.
//!
//! There is one queue: the sessions with the status `pending`. People and programs put a session
//! there with a request in its journal ([`segno_sessions::background`]), and so does the worker
//! itself, when its [`verdict`] about a lost run says so. Each pending session gets a process of its
//! own ([`runs`]). Any number of workers may share a home: the lease decides which of their
//! processes runs a session, and the others end at once.
//!
//! The loop keeps no truth: a worker that is killed loses nothing, and the next one finds the same
//! sessions. A run does not end with its worker.

mod registry;
mod runs;
pub mod verdict;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use segno_core::fault::{Point, point};
use segno_core::id::{Name, SessionId};
use segno_core::journal::{Failure, Seq};
use segno_core::session::Status;
use segno_core::store::{Changed, Filter, InboxMessage, Summary, Watch};
use segno_core::time::Timestamp;
use segno_engine::{Env, history};
use segno_sessions::background;
use segno_sessions::chat::{self, Effect, Limits};
use segno_sessions::{ListedSession, recover};
use tokio::sync::watch;

pub use registry::{WorkerRecord, workers};
pub use runs::Launch;

use crate::notices::Notices;
use registry::Registration;
use runs::Runs;
use verdict::{Facts, Verdict, judge};

/// How often the owners of runs in other processes are looked at.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// How often everything is looked at again, and chats are swept.
const SCAN_INTERVAL: Duration = Duration::from_mins(5);
/// The same where the machine cannot report changes.
const SCAN_WITHOUT_WATCH: Duration = Duration::from_secs(2);
/// How often a process may end before its run starts.
const MAX_FAILED_STARTS: u32 = 5;
/// How long a run that was told twice to stop may take, before it is left alone.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// What a worker decided or saw, for its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    Started(Name),
    Ended {
        name: Name,
        status: Status,
    },
    /// The worker asked for a run by itself.
    Resumed {
        name: Name,
        evidence: String,
    },
    /// A user has to decide.
    Parked {
        name: Name,
        reason: String,
    },
    /// The process of a run could not be started, or ended before its run began.
    NotStarted {
        name: Name,
        reason: String,
    },
    /// A session could not be read.
    Unreadable {
        session: SessionId,
        reason: String,
    },
}

/// Settings of a worker.
#[derive(Debug, Clone)]
pub struct Settings {
    /// No run is started while this many are active in the home, those of other processes included.
    pub max_runs: usize,
    /// How long runs may take to finish their step when the worker stops.
    pub drain: Duration,
    /// When chats are paused and archived.
    pub chats: Limits,
    /// The folder where workers say who they are.
    pub folder: PathBuf,
}

/// A worker. Call [`Worker::run`].
pub struct Worker {
    env: Env,
    launch: Arc<dyn Launch>,
    notices: Notices,
    report: Arc<dyn Fn(Report) + Send + Sync>,
    settings: Settings,
    registration: Registration,
    record: WorkerRecord,
    runs: Runs,
    /// The newest event of each of these sessions when its process was started.
    requests: HashMap<SessionId, Seq>,
    /// Sessions that another process runs.
    elsewhere: BTreeSet<SessionId>,
    /// Pending sessions, the oldest request first.
    pending: BTreeSet<(Timestamp, SessionId)>,
    /// When a session is looked at again.
    timers: BTreeMap<SessionId, Timestamp>,
    /// How often a session's process ended before its run began, and until when it is left alone.
    failed_starts: HashMap<SessionId, (u32, Duration)>,
    /// Sessions that were reported as parked.
    parked: BTreeSet<SessionId>,
    /// Sessions that need no worker, and their newest event: nothing is read again until it changes.
    at_rest: HashMap<SessionId, Seq>,
    next_scan: Duration,
}

impl Worker {
    pub fn new(
        env: Env,
        launch: Arc<dyn Launch>,
        notices: Notices,
        report: Arc<dyn Fn(Report) + Send + Sync>,
        settings: Settings,
    ) -> io::Result<Self> {
        let owner = env.processes.current();
        registry::remove_gone(&settings.folder, &*env.disk, &*env.processes);
        let disk = Arc::clone(&env.disk);
        Ok(Self {
            registration: Registration::new(&settings.folder, disk, &owner)?,
            record: WorkerRecord::new(owner, env.clock.now(), settings.max_runs),
            env,
            launch,
            notices,
            report,
            settings,
            runs: Runs::default(),
            requests: HashMap::new(),
            elsewhere: BTreeSet::new(),
            pending: BTreeSet::new(),
            timers: BTreeMap::new(),
            failed_starts: HashMap::new(),
            parked: BTreeSet::new(),
            at_rest: HashMap::new(),
            next_scan: Duration::ZERO,
        })
    }

    /// Works, and delivers notices, until `stop` is true, and then until its runs have stopped: they get time to finish
    /// their step, then they stop at once. What still runs after that is left alone.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut watch = self.env.store.watch().ok();
        let interval = match watch {
            Some(_) => SCAN_INTERVAL,
            None => SCAN_WITHOUT_WATCH,
        };
        self.registration.publish(&self.record);
        let notices = self.notices.clone();
        // What other processes left; a pass that is interrupted here says so in the next one.
        let delivering = tokio::spawn(async move { notices.deliver().await });
        loop {
            self.scan_if_due(interval).await;
            self.start_pending().await;
            let wait = self.until_next();
            let clock = Arc::clone(&self.env.clock);
            tokio::select! {
                changed = next_change(watch.as_deref_mut()) => self.on_change(changed).await,
                session = self.runs.next_ended() => self.on_end(session).await,
                () = clock.sleep(wait) => self.on_time().await,
                () = stopped(&mut stop) => break,
            }
        }
        self.drain().await;
        delivering.abort();
    }

    async fn on_change(&mut self, changed: Changed) {
        match changed {
            Changed::Sessions(sessions) => {
                for session in sessions {
                    self.look(session).await;
                }
            }
            Changed::Any => self.next_scan = Duration::ZERO,
        }
    }

    /// Looks at sessions whose time has come, and at runs in other processes.
    async fn on_time(&mut self) {
        let now = self.env.clock.now();
        let due = self.timers.iter().filter(|(_, at)| **at <= now);
        let due: Vec<SessionId> = due.map(|(session, _)| *session).collect();
        for session in due {
            self.timers.remove(&session);
            self.look(session).await;
        }
        for session in std::mem::take(&mut self.elsewhere) {
            self.look(session).await;
        }
    }

    /// How long there is nothing to do, as far as is known.
    fn until_next(&self) -> Duration {
        let (now, elapsed) = (self.env.clock.now(), self.env.clock.elapsed());
        let mut wait = self.next_scan.saturating_sub(elapsed);
        if !self.elsewhere.is_empty() {
            wait = wait.min(WATCH_INTERVAL);
        }
        if let Some(at) = self.timers.values().min() {
            wait = wait.min(at.since(now));
        }
        for (_, session) in &self.pending {
            if let Some((_, until)) = self.failed_starts.get(session) {
                wait = wait.min(until.saturating_sub(elapsed));
            }
        }
        wait
    }

    /// Looks at every session that may need a worker, from time to time: a report may be lost.
    async fn scan_if_due(&mut self, interval: Duration) {
        if self.env.clock.elapsed() < self.next_scan {
            return;
        }
        self.next_scan = self.env.clock.elapsed() + interval;
        let _ = chat::sweep(&self.env, self.settings.chats, Effect::Apply).await;
        let wanted = [
            Status::Pending,
            Status::Running,
            Status::Interrupted,
            Status::Waiting,
            Status::Paused,
        ];
        let filter = Filter {
            statuses: Some(wanted.to_vec()),
            ..Filter::default()
        };
        for summary in self
            .env
            .store
            .list(filter)
            .await
            .into_iter()
            .flatten()
            .flatten()
        {
            self.look_at(summary).await;
        }
    }

    async fn look(&mut self, session: SessionId) {
        // A run reports its own end; until then its events say nothing to a worker.
        if self.runs.contains(session) || self.elsewhere.contains(&session) {
            return;
        }
        match self.env.store.summary(session).await {
            Ok(summary) => self.look_at(summary).await,
            // Deleted, or being created.
            Err(_) => self.forget(session),
        }
    }

    fn forget(&mut self, session: SessionId) {
        self.pending.retain(|(_, pending)| *pending != session);
        self.timers.remove(&session);
        self.failed_starts.remove(&session);
        self.parked.remove(&session);
        self.at_rest.remove(&session);
    }

    async fn look_at(&mut self, summary: Summary) {
        let session = summary.id;
        if self.runs.contains(session) {
            return;
        }
        if let Err(reason) = self.decide(summary).await {
            (self.report)(Report::Unreadable { session, reason });
        }
    }

    async fn decide(&mut self, summary: Summary) -> Result<(), String> {
        let session = summary.id;
        self.pending.retain(|(_, pending)| *pending != session);
        self.timers.remove(&session);
        let listed = ListedSession::of(&self.env, summary).await.map_err(shown)?;
        match listed.status {
            Status::Running => {
                self.elsewhere.insert(session);
                return Ok(());
            }
            Status::Pending => {
                self.pending.insert((listed.summary.updated_at, session));
                return Ok(());
            }
            Status::Paused if self.at_rest.get(&session) == Some(&listed.summary.head.seq) => {
                return Ok(());
            }
            Status::Interrupted | Status::Waiting | Status::Paused => {}
            _ => {
                self.forget(session);
                return Ok(());
            }
        }
        match self.judge(&listed).await? {
            Verdict::Run => {}
            Verdict::Rest => {
                self.at_rest.insert(session, listed.summary.head.seq);
            }
            Verdict::Resume { at, .. } if at > self.env.clock.now() => {
                self.timers.insert(session, at);
            }
            Verdict::Resume { evidence, .. } => self.resume(listed, evidence).await?,
            Verdict::Park { reason } => {
                if listed.summary.status == Status::Running {
                    self.recover(&listed.summary).await?;
                }
                if self.parked.insert(session) {
                    let name = listed.summary.name;
                    (self.report)(Report::Parked { name, reason });
                }
            }
        }
        Ok(())
    }

    async fn judge(&self, listed: &ListedSession) -> Result<Verdict, String> {
        let session = listed.summary.id;
        let state = history::load_state(&self.env, session)
            .await
            .map_err(shown)?;
        let workflow = history::recorded_spec(&self.env, session, &state).await;
        let policy = workflow.map_err(shown)?.auto_resume;
        let is_answered = listed.status == Status::Waiting && {
            let inbox = self.env.store.pending(session).await.map_err(shown)?;
            let mut messages = inbox.iter().map(|(_, message)| message);
            messages.any(|message| matches!(message, InboxMessage::Answer { .. }))
        };
        Ok(judge(&Facts {
            status: listed.status,
            state: &state,
            policy,
            is_answered,
            now: self.env.clock.now(),
        }))
    }

    /// Records that a run was lost, with a checkpoint of what it left. `None` if another process was
    /// faster.
    async fn recover(&self, summary: &Summary) -> Result<Option<Summary>, String> {
        let recovered = recover::recover(&self.env, summary, &|_, _| {}).await;
        let recovered = recovered.map_err(shown)?;
        if recovered.is_some() {
            self.notices.report_since(summary).await;
        }
        Ok(recovered.map(|recovered| recovered.summary))
    }

    /// Asks for a run of a session.
    async fn resume(&mut self, listed: ListedSession, evidence: String) -> Result<(), String> {
        let mut summary = listed.summary;
        if summary.status == Status::Running {
            let Some(recovered) = self.recover(&summary).await? else {
                return Ok(());
            };
            summary = recovered;
        }
        match background::request_automatically(&self.env, &summary, evidence.clone()).await {
            Ok(summary) => {
                let name = summary.name;
                self.pending.insert((summary.updated_at, summary.id));
                (self.report)(Report::Resumed { name, evidence });
                Ok(())
            }
            Err(error) if error.is_held() => Ok(()),
            Err(error) => Err(shown(error)),
        }
    }

    /// Starts pending sessions, as long as there is room.
    async fn start_pending(&mut self) {
        let elapsed = self.env.clock.elapsed();
        let is_due = |session: &SessionId| {
            let failed = self.failed_starts.get(session);
            failed.is_none_or(|(_, until)| *until <= elapsed)
        };
        let room = self.settings.max_runs;
        let room = room.saturating_sub(self.runs.len() + self.elsewhere.len());
        let due = self.pending.iter().filter(|(_, session)| is_due(session));
        let due: Vec<_> = due.take(room).copied().collect();
        for (at, session) in due {
            self.pending.remove(&(at, session));
            self.start(session).await;
        }
    }

    async fn start(&mut self, session: SessionId) {
        // Another worker may have been faster, or a user may have withdrawn it.
        let Ok(summary) = self.env.store.summary(session).await else {
            return;
        };
        if summary.status != Status::Pending {
            self.look_at(summary).await;
            return;
        }
        match self.launch.launch(session) {
            Ok(child) => {
                point(Point::WorkerAfterLaunch);
                self.runs.add(session, child);
                self.requests.insert(session, summary.head.seq);
                (self.report)(Report::Started(summary.name));
                self.publish();
            }
            Err(error) => self.on_failed_start(summary, error.to_string()).await,
        }
    }

    fn publish(&mut self) {
        self.record.sessions = self.runs.sessions();
        self.registration.publish(&self.record);
    }

    async fn on_end(&mut self, session: SessionId) {
        self.publish();
        let request = self.requests.remove(&session);
        let Ok(summary) = self.env.store.summary(session).await else {
            return;
        };
        // Otherwise it ran, and someone has requested another run since.
        if summary.status == Status::Pending && request == Some(summary.head.seq) {
            let reason = "its process ended before the run began".to_owned();
            return self.on_failed_start(summary, reason).await;
        }
        self.failed_starts.remove(&session);
        self.parked.remove(&session);
        let (name, status) = (summary.name.clone(), summary.status);
        (self.report)(Report::Ended { name, status });
        self.look_at(summary).await;
    }

    /// Tries again later, a few times. Then the request is withdrawn, so that its author learns it.
    async fn on_failed_start(&mut self, summary: Summary, reason: String) {
        let session = summary.id;
        let (count, until) = self.failed_starts.entry(session).or_default();
        *count += 1;
        let wait = Duration::from_secs(1 << (*count).min(6));
        *until = self.env.clock.elapsed() + wait;
        let name = summary.name.clone();
        if *count < MAX_FAILED_STARTS {
            self.pending.insert((summary.updated_at, session));
        } else {
            self.failed_starts.remove(&session);
            let failure = Failure {
                kind: "R0128".to_owned(),
                message: format!("the run was not started: {reason}"),
            };
            let _ = background::withdraw_failed(&self.env, &summary, failure).await;
        }
        (self.report)(Report::NotStarted { name, reason });
    }

    /// Lets the runs finish their steps.
    async fn drain(mut self) {
        for wait in [self.settings.drain, LAST_WAIT] {
            self.runs.ask_to_stop();
            let clock = Arc::clone(&self.env.clock);
            let deadline = clock.sleep(wait);
            let mut deadline = std::pin::pin!(deadline);
            while self.runs.len() > 0 {
                tokio::select! {
                    session = self.runs.next_ended() => {
                        if let Ok(Summary { name, status, .. }) = self.env.store.summary(session).await {
                            (self.report)(Report::Ended { name, status });
                        }
                    }
                    () = deadline.as_mut() => break,
                }
            }
        }
    }
}

/// Returns when the worker is to stop.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The next change of any session; never without a watch.
async fn next_change(watch: Option<&mut (dyn Watch + 'static)>) -> Changed {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

fn shown(error: impl std::error::Error) -> String {
    error.to_string()
}
