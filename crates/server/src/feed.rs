//! Streams journal events as server-sent events.
//!
//! A reader gets each event exactly once: the position of a stream is the journal's own `seq`, so
//! a client that reconnects with `Last-Event-ID` continues where it was, after any restart of
//! either side. Nothing is queued for a slow reader: events are read from the journal when the
//! connection can take them, so a reader costs one page of events, however slow it is (P10).
//!
//! Between events, a reader gets previews of running answers ([`previews`]). They have no position, and
//! an event of their step replaces them.

mod changes;
mod previews;
mod session;

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::select_all;
use futures_util::stream::{self, Stream};
use segno_core::error::Diagnose;
use segno_core::id::SessionId;
use segno_core::journal::{Head, Seq};
use segno_core::store::{Changed, Error as StoreError};
use segno_core::time::Timestamp;
use segno_engine::Env;
use serde_json::json;
use tokio::sync::{broadcast, watch};

use crate::observe::metrics::{Metrics, OpenReader};
use previews::Shown;
use session::{Changes, Line, Page, SessionFeed};

/// How often a silent stream sends a comment, and looks for events that nobody reported.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long to wait before watching is tried again, and how often readers look meanwhile.
const WITHOUT_WATCH: Duration = Duration::from_millis(100);

/// Tells the readers of a session when its journal may have grown.
#[derive(Clone)]
pub(crate) struct Feed {
    sessions: Arc<Mutex<HashMap<SessionId, Arc<SessionFeed>>>>,
    changes: broadcast::Sender<Changed>,
    metrics: Arc<Metrics>,
}

impl Feed {
    /// Starts to watch the store, for as long as the runtime lives.
    pub(crate) fn start(env: &Env, metrics: Arc<Metrics>) -> Self {
        let feed = Self {
            sessions: Arc::default(),
            changes: broadcast::Sender::new(changes::WAITING),
            metrics,
        };
        tokio::spawn(watch_store(env.clone(), feed.clone()));
        tokio::spawn(watch_previews(env.clone(), feed.clone()));
        feed
    }

    /// Which sessions change from now on.
    pub(crate) fn changes(
        &self,
        env: &Env,
        stop: watch::Receiver<bool>,
    ) -> impl Stream<Item = String> + Send + use<> {
        let (receiver, open) = (self.changes.subscribe(), self.metrics.open_reader());
        changes::frames(env.clone(), receiver, stop, open)
    }

    fn subscribe(&self, session: SessionId) -> (Arc<SessionFeed>, watch::Receiver<Changes>) {
        let mut sessions = self.lock();
        sessions.retain(|_, feed| feed.has_readers());
        let new = || Arc::new(SessionFeed::new(session));
        let feed = sessions.entry(session).or_insert_with(new);
        (Arc::clone(feed), feed.subscribe())
    }

    /// Tells that journals may have grown.
    fn note_growth(&self, changed: &Changed) {
        // Without readers there is nobody to tell.
        let _ = self.changes.send(changed.clone());
        self.notify(changed, SessionFeed::bump);
    }

    fn notify(&self, changed: &Changed, bump: impl Fn(&SessionFeed)) {
        let sessions = self.lock();
        match changed {
            Changed::Sessions(changed) => {
                let feeds = changed.iter().filter_map(|session| sessions.get(session));
                feeds.for_each(|feed| bump(feed));
            }
            Changed::Any => sessions.values().for_each(|feed| bump(feed)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Arc<SessionFeed>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn watch_store(env: Env, feed: Feed) {
    loop {
        if let Ok(mut watch) = env.store.watch() {
            // Whatever happened before this watch.
            feed.note_growth(&Changed::Any);
            loop {
                feed.note_growth(&watch.changed().await);
            }
        }
        env.clock.sleep(WITHOUT_WATCH).await;
        feed.note_growth(&Changed::Any);
    }
}

async fn watch_previews(env: Env, feed: Feed) {
    loop {
        if let Ok(mut watch) = env.store.watch_previews() {
            feed.notify(&Changed::Any, SessionFeed::bump_preview);
            loop {
                feed.notify(&watch.changed().await, SessionFeed::bump_preview);
            }
        }
        env.clock.sleep(WITHOUT_WATCH).await;
        feed.notify(&Changed::Any, SessionFeed::bump_preview);
    }
}

/// A session that a stream follows.
struct Followed {
    feed: Arc<SessionFeed>,
    head: Head,
    changes: watch::Receiver<Changes>,
    /// How many changes of the journal were seen.
    seen: u64,
    is_dirty: bool,
    previews: Shown,
}

impl Followed {
    /// Takes note of what was reported: a change of the journal must be read.
    fn note_changes(&mut self) {
        let journal = self.changes.borrow_and_update().journal;
        self.is_dirty |= journal != self.seen;
        self.seen = journal;
    }
}

/// Streams the events of several sessions, each after a position.
pub(crate) struct Reader {
    env: Env,
    followed: Vec<Followed>,
    frames: VecDeque<String>,
    metrics: Arc<Metrics>,
    /// Events since then are as old as they are late.
    opened_at: Timestamp,
    _open: OpenReader,
    /// True once the server stops.
    stop: watch::Receiver<bool>,
}

/// What a reader waited for.
enum Next {
    Changed(usize),
    Nothing,
    Stop,
}

impl Reader {
    /// A stream that continues after `positions`. An error if a journal does not reach its position.
    pub(crate) async fn open(
        env: &Env,
        feed: &Feed,
        positions: Vec<(SessionId, Seq)>,
        stop: watch::Receiver<bool>,
    ) -> Result<Self, StoreError> {
        let mut followed = Vec::new();
        for (session, after) in positions {
            // Subscribed first, so that no change between the reading and the waiting is missed.
            let (session_feed, changes) = feed.subscribe(session);
            let head = match after {
                Seq(0) => Head::genesis(session),
                seq => Head {
                    seq,
                    hash: env.store.event(session, seq).await?.hash,
                },
            };
            followed.push(Followed {
                feed: session_feed,
                head,
                changes,
                seen: 0,
                is_dirty: true,
                previews: Shown::default(),
            });
        }
        let first = json!({"v": 1, "kind": "stream", "resume": "ok"});
        Ok(Self {
            env: env.clone(),
            followed,
            stop,
            metrics: Arc::clone(&feed.metrics),
            opened_at: env.clock.now(),
            _open: feed.metrics.open_reader(),
            frames: VecDeque::from([format!("event: stream\ndata: {first}\n\n")]),
        })
    }

    /// The frames. The stream ends with the server, or with an error, which is its last frame.
    pub(crate) fn frames(self) -> impl Stream<Item = String> + Send {
        stream::unfold(Some(self), |reader| async {
            let mut reader = reader?;
            match reader.next().await {
                Ok(Some(frame)) => Some((frame, Some(reader))),
                Ok(None) => None,
                Err(error) => Some((reader.last_frame(&error), None)),
            }
        })
    }

    async fn next(&mut self) -> Result<Option<String>, StoreError> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Ok(Some(frame));
            }
            for index in 0..self.followed.len() {
                self.read(index).await?;
            }
            if !self.frames.is_empty() {
                continue;
            }
            // Events come first: they replace previews.
            for followed in self.followed.iter_mut().filter(|one| !one.is_dirty) {
                let changes = followed.changes.borrow().previews;
                let session = followed.feed.session;
                if followed.previews.is_current(changes) {
                    continue;
                }
                let preview = followed.feed.preview(&self.env).await;
                let frames = followed.previews.update(session, changes, preview);
                self.frames.extend(frames);
            }
            if !self.frames.is_empty() {
                continue;
            }
            match self.wait().await {
                Next::Changed(index) => self.followed[index].note_changes(),
                Next::Nothing => {
                    // A process that was killed may not have reported its last events.
                    self.followed.iter_mut().for_each(|one| one.is_dirty = true);
                    return Ok(Some(": heartbeat\n\n".to_owned()));
                }
                Next::Stop => return Ok(None),
            }
        }
    }

    /// Waits for a change, for a while.
    async fn wait(&mut self) -> Next {
        let changes = self.followed.iter_mut();
        let changes = changes.map(|followed| Box::pin(followed.changes.changed()));
        tokio::select! {
            (_, index, _) = select_all(changes) => Next::Changed(index),
            () = self.env.clock.sleep(HEARTBEAT) => Next::Nothing,
            () = stopped(&mut self.stop) => Next::Stop,
        }
    }

    /// Reads the next page of one session.
    async fn read(&mut self, index: usize) -> Result<(), StoreError> {
        let followed = &mut self.followed[index];
        if followed.changes.has_changed().unwrap_or(true) {
            followed.note_changes();
        }
        if !followed.is_dirty {
            return Ok(());
        }
        let Page { lines, has_more } = followed.feed.read(&self.env, followed.head).await?;
        followed.is_dirty = has_more;
        for line in lines {
            let followed = &mut self.followed[index];
            followed.head = line.head;
            if let Some(path) = &line.replaces {
                followed.previews.replace(path, line.head.seq);
            }
            let frame = self.frame(&line);
            self.frames.push_back(frame);
        }
        Ok(())
    }

    /// One event. Its id has the positions of all sessions, in the order of the request.
    fn frame(&self, line: &Line) -> String {
        let age = (line.at > self.opened_at).then(|| self.env.clock.now().since(line.at));
        self.metrics.count_event(age);
        let mut frame = "id: ".to_owned();
        for (index, followed) in self.followed.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(frame, "{comma}{}", followed.head.seq.0);
        }
        // JSON has no line breaks outside of strings, and escapes those inside.
        let _ = write!(frame, "\ndata: {}\n\n", line.body);
        frame
    }

    fn last_frame(&self, error: &StoreError) -> String {
        let message = self.env.redactor.redact(&error.to_string()).into_owned();
        let body = json!({"v": 1, "kind": "error", "code": error.code(), "message": message});
        format!("event: error\ndata: {body}\n\n")
    }
}

/// Returns when the server stops.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Without a sender nobody can stop the server any more.
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}
