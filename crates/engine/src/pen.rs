//! Writing a run's journal.
//!
//! Events go into a queue; one task takes what has gathered, seals it and appends it in one commit.
//! So the result of a step and the intent of the next share a commit, and steps that finish
//! together do too, without anyone arranging it. [`Pen::write`] returns when its events are
//! durable; [`Pen::note`] does not wait, and whoever writes next waits for it as well: no effect
//! begins before everything that led to it is on the disk (P1, P6).

use std::sync::{Arc, Mutex, PoisonError};

use segno_core::conversation;
use segno_core::fault::{Point, point};
use segno_core::id::SessionId;
use segno_core::journal::{Entry, Event, Run, Text};
use segno_core::memo::Handoff;
use segno_core::state::State;
use segno_core::store::{Batch, Error as StoreError, Folded, Hold, Room};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::gleaning;
use crate::observe::Observer;
use crate::world::World;

/// A folded state is kept this often, so that opening a long journal stays cheap.
const FOLD_EVERY: u64 = 1000;

/// Writes the journal of one run.
#[derive(Clone)]
pub struct Pen {
    queue: mpsc::UnboundedSender<Line>,
    state: Arc<Mutex<State>>,
}

struct Line {
    events: Vec<Event>,
    taken: Vec<u64>,
    /// Whether the run lets go of its lease with it.
    last: bool,
    reply: Option<oneshot::Sender<Result<Room, StoreError>>>,
}

impl Line {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.taken.is_empty() && !self.last
    }
}

impl Pen {
    /// A pen for `run` of a session whose journal adds up to `state`. The task ends when the last
    /// clone of the pen is dropped.
    pub fn new(
        world: &World,
        session: SessionId,
        run: Run,
        state: State,
        observer: Arc<dyn Observer>,
    ) -> (Self, JoinHandle<()>) {
        let (queue, lines) = mpsc::unbounded_channel();
        let state = Arc::new(Mutex::new(state));
        let scribe = Scribe {
            world: world.clone(),
            session,
            run,
            state: Arc::clone(&state),
            observer,
            refused: None,
            folded_at: 0,
            room: Room::Plenty,
            unshown: Vec::new(),
        };
        (Self { queue, state }, tokio::spawn(scribe.serve(lines)))
    }

    /// Writes events; durable when it returns.
    pub async fn write(&self, events: Vec<Event>) -> Result<Room, StoreError> {
        self.send(events, Vec::new(), false).await
    }

    /// Returns when everything that was noted before is durable.
    pub async fn flush(&self) -> Result<Room, StoreError> {
        self.send(Vec::new(), Vec::new(), false).await
    }

    /// Writes events and takes messages off the inbox, in one commit.
    pub async fn take(&self, events: Vec<Event>, taken: Vec<u64>) -> Result<Room, StoreError> {
        self.send(events, taken, false).await
    }

    /// Writes the last events of a run, takes messages off the inbox and lets go of the lease.
    pub async fn close(&self, events: Vec<Event>, taken: Vec<u64>) -> Result<Room, StoreError> {
        self.send(events, taken, true).await
    }

    /// Writes an event without waiting. An error is told to whoever writes next.
    pub fn note(&self, event: impl Into<Event>) {
        self.note_together(vec![event.into()]);
    }

    /// Writes events in one commit without waiting.
    pub(crate) fn note_together(&self, events: Vec<Event>) {
        let line = Line {
            events,
            taken: Vec::new(),
            last: false,
            reply: None,
        };
        let _ = self.queue.send(line);
    }

    /// The state as of the newest durable entry.
    pub fn state(&self) -> State {
        self.look(State::clone)
    }

    /// Looks something up in the state as of the newest durable entry, which costs less than having
    /// all of it.
    pub(crate) fn look<T>(&self, up: impl FnOnce(&State) -> T) -> T {
        up(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What memos add up to, as of the newest durable entry.
    pub(crate) fn handoff(&self) -> Arc<Handoff> {
        self.look(|state| Arc::clone(&state.handoff))
    }

    async fn send(
        &self,
        events: Vec<Event>,
        taken: Vec<u64>,
        last: bool,
    ) -> Result<Room, StoreError> {
        let (reply, answer) = oneshot::channel();
        let gone = || StoreError::Unavailable {
            place: "the journal".into(),
            reason: "its writer has ended".into(),
        };
        self.queue
            .send(Line {
                events,
                taken,
                last,
                reply: Some(reply),
            })
            .map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

struct Scribe {
    world: World,
    session: SessionId,
    run: Run,
    state: Arc<Mutex<State>>,
    observer: Arc<dyn Observer>,
    /// Once refused, always refused: what follows would stand on something that is not there.
    refused: Option<StoreError>,
    folded_at: u64,
    /// How much room the disk had at the last commit.
    room: Room,
    /// Entries that are durable and were not shown yet.
    unshown: Vec<Entry>,
}

impl Scribe {
    async fn serve(mut self, mut lines: mpsc::UnboundedReceiver<Line>) {
        let mut gathered = Vec::new();
        loop {
            // Whoever got an answer may already have more to write; only then can showing wait.
            tokio::task::yield_now().await;
            if lines.is_empty() {
                self.show();
            }
            if lines.recv_many(&mut gathered, 256).await == 0 {
                return;
            }
            let outcome = match &self.refused {
                Some(error) => Err(error.clone()),
                None => self.append(&mut gathered).await,
            };
            if let Err(error) = &outcome {
                self.refused = Some(error.clone());
            }
            for line in gathered.drain(..) {
                if let Some(reply) = line.reply {
                    let _ = reply.send(outcome.clone());
                }
            }
        }
    }

    /// Shows entries that are durable (P14).
    fn show(&mut self) {
        for entry in self.unshown.drain(..) {
            self.observer.entry(self.session, &entry);
        }
    }

    async fn append(&mut self, lines: &mut [Line]) -> Result<Room, StoreError> {
        // Whoever waits for what was written before has nothing to add.
        if lines.iter().all(Line::is_empty) {
            return Ok(self.room);
        }
        let at = self.world.clock.now();
        let mut state = self
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let expected = state.head;
        let (mut records, mut entries, mut taken) = (Vec::new(), Vec::new(), Vec::new());
        let ends = lines.iter().any(|line| line.last);
        let mut workspace = None;
        for line in lines {
            for event in line.events.drain(..) {
                if let Event::SessionMoved(moved) = &event {
                    workspace = Some(moved.workspace.clone());
                }
                let record = state.head.seal(self.run, at, &event);
                let entry = Entry {
                    seq: record.seq,
                    run: self.run,
                    at,
                    event,
                    hash: record.hash,
                };
                state
                    .apply(&entry)
                    .map_err(|illegal| StoreError::Senseless {
                        session: self.session,
                        reason: illegal.to_string(),
                    })?;
                records.push(record);
                entries.push(entry);
            }
            taken.append(&mut line.taken);
        }
        let folded =
            (ends || state.head.seq.0 >= self.folded_at + FOLD_EVERY).then(|| fold(&state));
        let batch = Batch {
            session: self.session,
            run: self.run,
            expected,
            records,
            status: state.status,
            spec_digest: state.spec_digest,
            workspace,
            lease: if ends {
                Hold::Release
            } else {
                Hold::Renew(self.world.ttl)
            },
            folded,
            taken,
        };
        if ends {
            point(Point::RunBeforeEnd);
        }
        if batch.folded.is_some() {
            self.folded_at = state.head.seq.0;
        }
        // What is durable is shown while the disk is at work on what follows.
        let store = Arc::clone(&self.world.store);
        let (appended, ()) = tokio::join!(store.append(batch), async { self.show() });
        let room = appended?;
        if ends {
            point(Point::RunAfterEnd);
        }
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.unshown = entries;
        self.room = room;
        Ok(room)
    }
}

/// A state as it is kept.
pub(crate) fn fold(state: &State) -> Folded {
    Folded {
        head: state.head,
        version: State::VERSION,
        body: serde_json::to_string(state).expect("a state is plain data"),
    }
}

/// Text as it is kept: redacted (P12), and as a blob if it is long.
pub(crate) async fn keep(world: &World, text: &str) -> Result<(Text, String), StoreError> {
    let clean = world.redactor.redact(text).into_owned();
    Ok((store(world, clean.clone()).await?, clean))
}

/// Text that is clean already, as it is kept.
pub(crate) async fn store(world: &World, clean: String) -> Result<Text, StoreError> {
    if clean.len() <= Text::INLINE_LIMIT {
        return Ok(Text::Inline(clean));
    }
    let bytes = clean.len() as u64;
    let blob = world.store.put(clean.into_bytes()).await?;
    Ok(Text::Blob { blob, bytes })
}

/// What was said, as it is kept.
pub(crate) struct KeptTalk {
    pub(crate) text: Text,
    /// How long it is.
    pub(crate) length: usize,
    /// The same as it was, without secrets, if anything can be learnt from it by rule.
    pub(crate) clean: Vec<conversation::Entry>,
}

/// Keeps what was said: redacted (P12), and as a blob if it is long.
pub(crate) async fn keep_said(
    world: &World,
    entries: &[conversation::Entry],
) -> Result<KeptTalk, StoreError> {
    let mut value = serde_json::to_value(entries).expect("entries are plain data");
    world.redactor.redact_json(&mut value);
    let text = value.to_string();
    let length = text.len();
    let clean = if entries.iter().any(gleaning::is_telling) {
        // Where a secret stood in place of a word of ours, nothing is learnt.
        serde_json::from_value(value).unwrap_or_default()
    } else {
        Vec::new()
    };
    let text = store(world, text).await?;
    Ok(KeptTalk {
        text,
        length,
        clean,
    })
}

/// Kept text, read back and verified.
pub(crate) async fn recall(world: &World, text: &Text) -> Result<String, StoreError> {
    match text {
        Text::Inline(text) => Ok(text.clone()),
        Text::Blob { blob, .. } => {
            let bytes = world.store.get(*blob).await?;
            String::from_utf8(bytes).map_err(|error| StoreError::Damaged {
                object: format!("blob {blob}"),
                reason: error.to_string(),
            })
        }
    }
}
