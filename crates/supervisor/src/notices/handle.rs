//! The handle that programs use: it stores the notices of runs, and delivers what is stored.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use segno_core::id::SessionId;
use segno_core::journal::{Head, JournalEvent};
use segno_core::session::Status;
use segno_core::store::Summary;
use segno_engine::{Env, Observer, history};
use tokio::sync::{Notify, mpsc, oneshot};

use super::delivery::Pass;
use super::error::Error;
use super::facts::Facts;
use super::kind::Kind;
use super::message::Message;
use super::notice::{Notice, checkpoint_notice, notices};
use super::observer::{self, NoticeObserver, Signal};
use super::outbox::{Entry, Outbox, TargetState};
use super::sender::{Outcome, Programs, Sender};
use super::target::Target;

/// How many events may wait to become notices. There are a few per run.
const MAX_QUEUED: usize = 256;

/// How often undelivered notices of other processes are looked for.
const POLL: Duration = Duration::from_secs(2);

/// How often a process that ends asks for the lock of the outbox.
const LOCK_POLL: Duration = Duration::from_millis(50);

/// Who started a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    User,
    /// The worker, by itself.
    Automatic,
}

/// What notices need besides the environment of runs.
pub struct Settings {
    /// The folder of the outbox: `notices` in the home.
    pub folder: PathBuf,
    pub targets: Vec<Target>,
    pub programs: Arc<dyn Programs>,
    /// Reads an environment variable.
    pub variable: fn(&str) -> Option<String>,
}

/// How a test notice reached a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tested {
    pub target: String,
    pub channel: &'static str,
    /// Why it was not delivered.
    pub error: Option<String>,
}

/// The undelivered notices, and what is known about the targets.
pub struct Pending {
    pub entries: Vec<Entry>,
    pub states: Vec<(String, TargetState)>,
    /// How many notices were dropped because there were too many, or because they were too old.
    pub dropped: usize,
}

/// Stores and delivers notices. Clones share everything.
#[derive(Clone)]
pub struct Notices(Arc<Inner>);

pub(super) struct Inner {
    pub(super) env: Env,
    targets: Vec<Target>,
    pub(super) outbox: Outbox,
    sender: Sender,
    /// The queue of the task that stores notices, once an observer exists.
    signals: Mutex<Option<mpsc::Sender<Signal>>>,
    /// Events that found the queue full.
    pub(super) overflowed: AtomicUsize,
    /// A notice was stored.
    stored: Notify,
    /// Held during a pass.
    delivering: tokio::sync::Mutex<()>,
}

impl Notices {
    pub fn new(env: &Env, settings: Settings) -> Self {
        let sender = Sender {
            clock: Arc::clone(&env.clock),
            disk: Arc::clone(&env.disk),
            programs: settings.programs,
            variable: settings.variable,
            redactor: Arc::clone(&env.redactor),
            client: OnceLock::new(),
        };
        Self(Arc::new(Inner {
            outbox: Outbox::new(settings.folder, Arc::clone(&env.disk)),
            env: env.clone(),
            targets: settings.targets,
            sender,
            signals: Mutex::default(),
            overflowed: AtomicUsize::new(0),
            stored: Notify::new(),
            delivering: tokio::sync::Mutex::default(),
        }))
    }

    /// Wraps the observer of a run, so that the run's notices are stored and delivered. Without
    /// targets it returns `inner` itself.
    pub fn observe(&self, inner: Arc<dyn Observer>, origin: Origin) -> Arc<dyn Observer> {
        if self.0.targets.is_empty() {
            return inner;
        }
        Arc::new(NoticeObserver {
            inner,
            notices: Arc::clone(&self.0),
            signals: self.signals(),
            origin,
        })
    }

    /// The queue of the task that stores notices. The first call starts the task, and one that
    /// delivers.
    fn signals(&self) -> mpsc::Sender<Signal> {
        let mut signals = lock(&self.0.signals);
        let start = || {
            let (sender, receiver) = mpsc::channel(MAX_QUEUED);
            tokio::spawn(observer::store_notices(Arc::clone(&self.0), receiver));
            let notices = self.clone();
            tokio::spawn(async move { notices.deliver().await });
            sender
        };
        signals.get_or_insert_with(start).clone()
    }

    /// Stores the notices about what was appended to a session after `before` was read: for events
    /// that no observer saw, such as a run that was found lost.
    pub async fn report_since(&self, before: &Summary) {
        if self.0.targets.is_empty() {
            return;
        }
        let mut facts = Facts::of_summary(before, before.status == Status::Running);
        let mut events = Vec::new();
        let env = &self.0.env;
        let read = history::read_events(env, before.id, before.head, |entry| {
            events.push(entry);
            Ok::<(), history::Error>(())
        });
        // What cannot be read is reported by the command that reads it.
        let _: Result<Head, _> = read.await;
        for entry in events {
            self.0.store(before.id, &entry, &facts).await;
            facts.apply(&entry);
        }
    }

    /// Delivers what is stored, for at most `limit`: for a process that ends. Waits for a pass of
    /// another process.
    pub async fn finish(&self, limit: Duration) {
        if self.0.targets.is_empty() {
            return;
        }
        let clock = &self.0.env.clock;
        tokio::select! {
            () = self.finish_now() => {}
            () = clock.sleep(limit) => {}
        }
    }

    async fn finish_now(&self) {
        let signals = lock(&self.0.signals).clone();
        if let Some(signals) = signals {
            let (reply, flushed) = oneshot::channel();
            if signals.send(Signal::Flush(reply)).await.is_ok() {
                let _ = flushed.await;
            }
        }
        while let Ok(None) = self.drain().await {
            self.0.env.clock.sleep(LOCK_POLL).await;
        }
    }

    /// Sends everything that is due, once, and returns how many messages were delivered; `None` if
    /// another process is delivering.
    pub async fn drain(&self) -> Result<Option<usize>, Error> {
        let unusable = |reason: io::Error| Error::Outbox {
            path: self.0.outbox.folder().to_owned(),
            reason,
        };
        let _turn = self.0.delivering.lock().await;
        if self.0.targets.is_empty() || self.0.outbox.is_empty() {
            return Ok(Some(0));
        }
        let Some(_lock) = self.0.outbox.lock().map_err(unusable)? else {
            return Ok(None);
        };
        let Inner {
            outbox,
            sender,
            targets,
            ..
        } = &*self.0;
        let pass = Pass::begin(outbox, sender, targets).map_err(unusable)?;
        pass.run(targets).await.map(Some).map_err(unusable)
    }

    /// Delivers notices of all processes of this home until the future is dropped.
    pub async fn deliver(&self) {
        loop {
            // An outbox that cannot be used now is tried again.
            let _ = self.drain().await;
            tokio::select! {
                () = self.0.stored.notified() => {}
                () = self.0.env.clock.sleep(POLL) => {}
            }
        }
    }

    /// Sends a test notice to one target, or to all, at once and beside the outbox.
    pub async fn test(&self, only: Option<&str>) -> Result<Vec<Tested>, Error> {
        let targets = &self.0.targets;
        if targets.is_empty() {
            return Err(Error::NoTargets);
        }
        let wanted = |target: &&Target| only.is_none_or(|only| only == target.name);
        let wanted: Vec<&Target> = targets.iter().filter(wanted).collect();
        if wanted.is_empty() {
            return Err(Error::UnknownTarget {
                name: only.unwrap_or_default().to_owned(),
                known: targets.iter().map(|target| target.name.clone()).collect(),
            });
        }
        let notice = self.0.test_notice();
        let mut tested = Vec::new();
        for target in wanted {
            let message = Message {
                first: &notice,
                more: &[],
                attempt: 1,
                is_repeated: false,
            };
            let error = match self.0.sender.send(target, &message).await {
                Outcome::Delivered => None,
                Outcome::Failed { reason, .. }
                | Outcome::Refused(reason)
                | Outcome::Unavailable(reason) => Some(reason),
            };
            tested.push(Tested {
                target: target.name.clone(),
                channel: target.channel.as_str(),
                error,
            });
        }
        Ok(tested)
    }

    /// The targets of the settings.
    pub fn targets(&self) -> &[Target] {
        &self.0.targets
    }

    /// What is not delivered yet.
    pub fn pending(&self) -> Result<Pending, Error> {
        let outbox = &self.0.outbox;
        let unusable = |reason: io::Error| Error::Outbox {
            path: outbox.folder().to_owned(),
            reason,
        };
        Ok(Pending {
            entries: outbox.list().map_err(unusable)?,
            states: outbox.states().0.into_iter().collect(),
            dropped: outbox.dropped(),
        })
    }
}

impl Inner {
    /// Derives and stores the notices about an event.
    pub(super) async fn store(&self, session: SessionId, entry: &JournalEvent, facts: &Facts) {
        let mut found = notices(session, entry, facts);
        if found.iter().any(|notice| notice.kind == Kind::Lost) {
            let listed = self.env.store.list_checkpoints(Some(session)).await;
            if let Ok(checkpoints) = listed {
                found.extend(checkpoint_notice(session, entry, facts, &checkpoints));
            }
        }
        for notice in found {
            let notice = notice.cleaned(&self.env.redactor);
            let accepting = self.targets.iter().filter(|it| it.filter.accepts(&notice));
            let names: Vec<String> = accepting.map(|target| target.name.clone()).collect();
            // A notice that cannot be stored must not end the run; the journal has the event.
            if !names.is_empty() && self.outbox.put(&notice, names).is_ok() {
                self.stored.notify_one();
            }
        }
    }

    fn test_notice(&self) -> Notice {
        let now = self.env.clock.now();
        let mut entropy = [0; 10];
        self.env.random.fill(&mut entropy);
        Notice {
            kind: Kind::Test,
            session: SessionId::new(now, entropy),
            name: "test".to_owned(),
            status: Status::Completed,
            seq: 0,
            run: 0,
            at: now,
            title: "Segno: test notice".to_owned(),
            text: "notices to this target arrive".to_owned(),
            hint: None,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
