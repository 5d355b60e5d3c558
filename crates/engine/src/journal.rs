//! Writes the journal of a run.
//!
//! Callers queue events; one task seals all queued events and appends them in one commit. So the
//! result of a step and the intent of the next step share a commit, and so do steps that finish at
//! the same time, without coordination. [`Writer::write`] returns when its events are durable.
//! [`Writer::enqueue`] waits only for room in the queue, but every later `write` waits for it: no
//! effect starts before everything that led to it is durable (P1, P6). The queue is bounded, so that
//! a caller that is faster than the disk waits (P10). After a failed commit the writer refuses all
//! further events.

use std::sync::{Arc, Mutex, PoisonError};

use segno_core::conversation;
use segno_core::fault::{Point, point};
use segno_core::handoff::Handoff;
use segno_core::id::SessionId;
use segno_core::journal::{Event, JournalEvent, Run, Text};
use segno_core::state::State;
use segno_core::step::Path;
use segno_core::store::{Batch, CachedState, DiskSpace, Error as StoreError, LeaseUpdate};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::env::Env;
use crate::note_rules;
use crate::observe::Observer;

/// How many events apart the folded state is stored, so that opening a long journal stays cheap.
const FOLD_EVERY: u64 = 1000;

/// How many submissions may wait for a commit. Callers wait for room beyond that.
const MAX_QUEUED: usize = 256;

/// Appends to the journal of one run. Clones share the queue.
#[derive(Clone)]
pub struct Writer {
    queue: mpsc::Sender<Submission>,
    state: Arc<Mutex<State>>,
    /// Held from the decision about a change of an agent's state until the change is durable, so that
    /// concurrent changes are decided in the order of the journal.
    agent_state_turn: Arc<tokio::sync::Mutex<()>>,
}

/// What one caller submits for one commit.
struct Submission {
    events: Vec<Event>,
    taken: Vec<u64>,
    /// Whether this batch ends the run and releases the lease.
    last: bool,
    reply: Option<oneshot::Sender<Result<DiskSpace, StoreError>>>,
}

impl Submission {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.taken.is_empty() && !self.last
    }
}

impl Writer {
    /// Starts a writer for `run` of a session whose journal folds to `state`. The task ends when
    /// the last clone is dropped.
    pub fn new(
        env: &Env,
        session: SessionId,
        run: Run,
        state: State,
        observer: Arc<dyn Observer>,
    ) -> (Self, JoinHandle<()>) {
        let (queue, submissions) = mpsc::channel(MAX_QUEUED);
        let state = Arc::new(Mutex::new(state));
        let task = WriterTask {
            env: env.clone(),
            session,
            run,
            state: Arc::clone(&state),
            observer,
            failed: None,
            folded_at: 0,
            room: DiskSpace::Sufficient,
            unnotified: Vec::new(),
        };
        let writer = Self {
            queue,
            state,
            agent_state_turn: Arc::default(),
        };
        (writer, tokio::spawn(task.run(submissions)))
    }

    /// Appends events; durable when it returns.
    pub async fn write(&self, events: Vec<Event>) -> Result<DiskSpace, StoreError> {
        self.send(events, Vec::new(), false).await
    }

    /// Returns when everything that was queued before is durable.
    pub async fn flush(&self) -> Result<DiskSpace, StoreError> {
        self.send(Vec::new(), Vec::new(), false).await
    }

    /// Appends events and deletes inbox messages, in one commit.
    pub(crate) async fn write_and_consume(
        &self,
        events: Vec<Event>,
        taken: Vec<u64>,
    ) -> Result<DiskSpace, StoreError> {
        self.send(events, taken, false).await
    }

    /// Appends the last events of a run, deletes inbox messages and releases the lease, in one
    /// commit.
    pub async fn close(
        &self,
        events: Vec<Event>,
        taken: Vec<u64>,
    ) -> Result<DiskSpace, StoreError> {
        self.send(events, taken, true).await
    }

    /// Queues an event without waiting for its commit. The next call that waits reports an error.
    pub async fn enqueue(&self, event: impl Into<Event>) {
        self.enqueue_all(vec![event.into()]).await;
    }

    /// Queues events for one commit without waiting for it.
    pub(crate) async fn enqueue_all(&self, events: Vec<Event>) {
        let submission = Submission {
            events,
            taken: Vec::new(),
            last: false,
            reply: None,
        };
        let _ = self.queue.send(submission).await;
    }

    /// A copy of the state as of the newest durable event.
    pub fn state(&self) -> State {
        self.with_state(State::clone)
    }

    /// Reads the state as of the newest durable event without cloning it.
    pub(crate) fn with_state<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The merged notes, as of the newest durable event.
    pub fn handoff(&self) -> Arc<Handoff> {
        self.with_state(|state| Arc::clone(&state.handoff))
    }

    /// Waits until no other change of an agent's state is being decided. While the guard is held, the
    /// folded state has all decided changes.
    pub(crate) async fn agent_state_turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        let turn = self.agent_state_turn.lock().await;
        // A step that timed out may have left a change in the queue. If it cannot be appended, neither
        // can the next one.
        let _ = self.flush().await;
        turn
    }

    async fn send(
        &self,
        events: Vec<Event>,
        taken: Vec<u64>,
        last: bool,
    ) -> Result<DiskSpace, StoreError> {
        let (reply, answer) = oneshot::channel();
        let writer_ended = || StoreError::Unavailable {
            place: "the journal".into(),
            reason: "its writer has stopped".into(),
        };
        self.queue
            .send(Submission {
                events,
                taken,
                last,
                reply: Some(reply),
            })
            .await
            .map_err(|_| writer_ended())?;
        answer.await.map_err(|_| writer_ended())?
    }
}

/// The task that appends all submissions to the journal.
struct WriterTask {
    env: Env,
    session: SessionId,
    run: Run,
    state: Arc<Mutex<State>>,
    observer: Arc<dyn Observer>,
    /// Set by the first failed commit and never cleared: later events would depend on events that
    /// are missing.
    failed: Option<StoreError>,
    folded_at: u64,
    /// The disk space reported by the last commit.
    room: DiskSpace,
    /// Events that are durable but not yet shown to the observer.
    unnotified: Vec<JournalEvent>,
}

impl WriterTask {
    async fn run(mut self, mut submissions: mpsc::Receiver<Submission>) {
        let mut received = Vec::new();
        loop {
            // A caller that got its reply may already queue more; showing waits only in that case.
            tokio::task::yield_now().await;
            if submissions.is_empty() {
                self.notify_observer();
            }
            if submissions.recv_many(&mut received, MAX_QUEUED).await == 0 {
                return;
            }
            let answered = answered_steps(&received);
            let outcome = match &self.failed {
                Some(error) => Err(error.clone()),
                None => self.append(&mut received).await,
            };
            if let Err(error) = &outcome {
                for step in answered {
                    self.observer.notice(&lost_answer(&step, error));
                }
                self.failed = Some(error.clone());
            }
            for submission in received.drain(..) {
                if let Some(reply) = submission.reply {
                    let _ = reply.send(outcome.clone());
                }
            }
        }
    }

    /// Shows durable events to the observer (P14).
    fn notify_observer(&mut self) {
        for entry in self.unnotified.drain(..) {
            self.observer.event(self.session, &entry);
        }
    }

    async fn append(&mut self, submissions: &mut [Submission]) -> Result<DiskSpace, StoreError> {
        // A batch of flushes only: everything before it is already durable.
        if submissions.iter().all(Submission::is_empty) {
            return Ok(self.room);
        }
        let at = self.env.clock.now();
        let mut state = self
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let expected = state.head;
        let (mut records, mut entries, mut taken) = (Vec::new(), Vec::new(), Vec::new());
        let ends = submissions.iter().any(|submission| submission.last);
        let mut workspace = None;
        for submission in submissions {
            for event in submission.events.drain(..) {
                if let Event::SessionMoved(moved) = &event {
                    workspace = Some(moved.workspace.clone());
                }
                let record = state.head.seal(self.run, at, &event);
                let entry = JournalEvent {
                    seq: record.seq,
                    run: self.run,
                    at,
                    event,
                    hash: record.hash,
                };
                state
                    .apply(&entry)
                    .map_err(|illegal| StoreError::IllegalEvent {
                        session: self.session,
                        reason: illegal.to_string(),
                    })?;
                records.push(record);
                entries.push(entry);
            }
            taken.append(&mut submission.taken);
        }
        let folded =
            (ends || state.head.seq.0 >= self.folded_at + FOLD_EVERY).then(|| to_folded(&state));
        let batch = Batch {
            session: self.session,
            run: self.run,
            expected,
            records,
            status: state.status,
            spec_digest: state.spec_digest,
            workspace,
            lease: if ends {
                LeaseUpdate::Release
            } else {
                LeaseUpdate::Renew(self.env.ttl)
            },
            cached_state: folded,
            handled_messages: taken,
        };
        if ends {
            point(Point::RunBeforeEnd);
        }
        if batch.cached_state.is_some() {
            self.folded_at = state.head.seq.0;
        }
        // Shows the previous events while the store commits these.
        let store = Arc::clone(&self.env.store);
        let (appended, ()) = tokio::join!(store.append(batch), async { self.notify_observer() });
        let room = appended?;
        if ends {
            point(Point::RunAfterEnd);
        }
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.unnotified = entries;
        self.room = room;
        Ok(room)
    }
}

/// The steps that agents answered, in part or in full.
fn answered_steps(submissions: &[Submission]) -> Vec<Path> {
    let events = submissions.iter().flat_map(|submission| &submission.events);
    let answers = events.filter(|event| {
        matches!(
            event,
            Event::StepFinished(_) | Event::ModelReplied(_) | Event::AgentMessages(_)
        )
    });
    let mut steps: Vec<Path> = answers
        .filter_map(|event| event.step().map(|(path, _)| path.clone()))
        .collect();
    steps.dedup();
    steps
}

/// Tells the user that an answer, which may have been paid for, could not be stored.
pub(crate) fn lost_answer(step: &Path, error: &StoreError) -> String {
    format!("an answer in step {step} is lost, because it could not be stored: {error}")
}

/// The state in its stored form.
pub fn to_folded(state: &State) -> CachedState {
    CachedState {
        head: state.head,
        version: State::VERSION,
        body: serde_json::to_string(state).expect("a state serializes to JSON"),
    }
}

/// Redacts text (P12) and stores it, long text as a blob. Returns the stored form and the redacted
/// text.
pub async fn redact_and_store(env: &Env, text: &str) -> Result<(Text, String), StoreError> {
    let clean = env.redactor.redact(text).into_owned();
    Ok((store_redacted(env, clean.clone()).await?, clean))
}

/// Stores text that is already redacted.
pub(crate) async fn store_redacted(env: &Env, clean: String) -> Result<Text, StoreError> {
    if clean.len() <= Text::INLINE_LIMIT {
        return Ok(Text::Inline(clean));
    }
    let bytes = clean.len() as u64;
    let blob = env.store.put(clean.into_bytes()).await?;
    Ok(Text::Blob { blob, bytes })
}

/// Conversation entries in their stored form.
pub struct StoredConversation {
    pub text: Text,
    /// The length in bytes.
    pub length: usize,
    /// The redacted entries, if the note rules can learn anything from them.
    pub clean: Vec<conversation::ConversationItem>,
}

/// Redacts conversation entries (P12) and stores them, long ones as a blob.
pub async fn store_conversation(
    env: &Env,
    entries: &[conversation::ConversationItem],
) -> Result<StoredConversation, StoreError> {
    let mut value = serde_json::to_value(entries).expect("events serialize to JSON");
    env.redactor.redact_json(&mut value);
    let text = value.to_string();
    let length = text.len();
    let clean = if entries.iter().any(note_rules::has_note_source) {
        // Entries in which redaction replaced a field name are not read for notes.
        serde_json::from_value(value).unwrap_or_default()
    } else {
        Vec::new()
    };
    let text = store_redacted(env, text).await?;
    Ok(StoredConversation {
        text,
        length,
        clean,
    })
}

/// Reads stored text back; the store verifies blobs.
pub async fn load_text(env: &Env, text: &Text) -> Result<String, StoreError> {
    match text {
        Text::Inline(text) => Ok(text.clone()),
        Text::Blob { blob, .. } => {
            let bytes = env.store.get(*blob).await?;
            String::from_utf8(bytes).map_err(|error| StoreError::Damaged {
                object: format!("blob {blob}"),
                reason: error.to_string(),
            })
        }
    }
}
