//! Queues the notices of a run while it runs.
//!
//! The observer forwards the few events that may become notices to a bounded queue, without their
//! long texts, and a task derives and stores the notices. A run never waits for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use segno_core::id::SessionId;
use segno_core::journal::{
    Event, JournalEvent, QuestionAsked, Seq, SessionCreated, StepStarted, Suspension, Text,
};
use segno_core::step::Path;
use segno_core::store::Error as StoreError;
use segno_engine::{Env, Observer};
use tokio::sync::{mpsc, oneshot};

use super::facts::Facts;
use super::handle::{Inner, Origin};

/// What the observer tells the task.
pub(super) enum Signal {
    Event {
        session: SessionId,
        entry: Box<JournalEvent>,
        origin: Origin,
    },
    /// A step continues to wait for a limit that an earlier run met.
    Limited {
        session: SessionId,
        path: Path,
        suspension: Suspension,
    },
    /// Replies when everything before is stored.
    Flush(oneshot::Sender<()>),
}

/// Passes everything on to `inner`.
pub(super) struct NoticeObserver {
    pub(super) inner: Arc<dyn Observer>,
    pub(super) notices: Arc<Inner>,
    pub(super) signals: mpsc::Sender<Signal>,
    pub(super) origin: Origin,
}

impl NoticeObserver {
    fn signal(&self, signal: Signal) {
        if self.signals.try_send(signal).is_err() {
            self.notices.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Observer for NoticeObserver {
    fn event(&self, session: SessionId, entry: &JournalEvent) {
        if let Some(event) = relevant(&entry.event) {
            let entry = JournalEvent {
                event,
                seq: entry.seq,
                run: entry.run,
                at: entry.at,
                hash: entry.hash,
            };
            self.signal(Signal::Event {
                session,
                entry: Box::new(entry),
                origin: self.origin,
            });
        }
        self.inner.event(session, entry);
    }

    fn planned(&self, steps: usize) {
        self.inner.planned(steps);
    }

    fn skipped(&self, session: SessionId, path: &Path) {
        self.inner.skipped(session, path);
    }

    fn suspended(&self, session: SessionId, path: &Path, suspension: &Suspension) {
        self.signal(Signal::Limited {
            session,
            path: path.clone(),
            suspension: suspension.clone(),
        });
        self.inner.suspended(session, path, suspension);
    }

    fn text(&self, path: &Path, attempt: u32, piece: &str) {
        self.inner.text(path, attempt, piece);
    }

    fn notice(&self, message: &str) {
        self.inner.notice(message);
    }
}

/// The event without its long text, if it may become a notice or changes what notices say.
pub(super) fn relevant(event: &Event) -> Option<Event> {
    let no_text = Text::Inline(String::new());
    Some(match event {
        Event::SessionCreated(event) => SessionCreated {
            spec: no_text,
            variables: std::collections::BTreeMap::new(),
            ..event.clone()
        }
        .into(),
        // Only a step that was started before can have waited for a limit.
        Event::StepStarted(event) if event.attempt > 1 => StepStarted {
            path: event.path.clone(),
            revision: event.revision,
            attempt: event.attempt,
            agent: event.agent.clone(),
            input: no_text,
            input_digest: event.input_digest,
            resume_context: None,
        }
        .into(),
        Event::QuestionAsked(event) => QuestionAsked {
            context: None,
            ..event.clone()
        }
        .into(),
        Event::StepFailed(event) if event.suspended.is_some() => event.clone().into(),
        Event::SessionMoved(_)
        | Event::RunStarted(_)
        | Event::RunLost(_)
        | Event::RunEnded(_)
        | Event::StopRequested(_) => event.clone(),
        _ => return None,
    })
}

/// Derives and stores notices until all observers are dropped.
pub(super) async fn store_notices(notices: Arc<Inner>, mut signals: mpsc::Receiver<Signal>) {
    let mut known: HashMap<SessionId, Facts> = HashMap::new();
    while let Some(signal) = signals.recv().await {
        for _ in 0..notices.overflowed.swap(0, Ordering::Relaxed) {
            notices.outbox.count_dropped();
        }
        match signal {
            Signal::Flush(reply) => {
                let _ = reply.send(());
            }
            Signal::Limited {
                session,
                path,
                suspension,
            } => {
                if let Some(facts) = known.get_mut(&session) {
                    facts.limited.insert(path, suspension);
                }
            }
            Signal::Event {
                session,
                entry,
                origin,
            } => {
                let mut facts = match known.remove(&session) {
                    Some(facts) => facts,
                    None => match facts_before(&notices.env, session, &entry).await {
                        Ok(facts) => facts,
                        // The session cannot be read; the run says so.
                        Err(_) => continue,
                    },
                };
                facts.is_automatic = origin == Origin::Automatic;
                notices.store(session, &entry, &facts).await;
                facts.apply(&entry);
                known.insert(session, facts);
            }
        }
    }
}

/// The facts about a session before an event.
pub(super) async fn facts_before(
    env: &Env,
    session: SessionId,
    entry: &JournalEvent,
) -> Result<Facts, StoreError> {
    if let Event::SessionCreated(_) = &entry.event {
        return Ok(Facts::unknown());
    }
    let summary = env.store.summary(session).await?;
    let is_open = is_run_open(env, session, entry.seq).await?;
    Ok(Facts::of_summary(&summary, is_open))
}

/// Whether the run before event `seq` has not ended. Events that can also be written between runs
/// do not tell, so the search goes back to one that does; there are few.
async fn is_run_open(env: &Env, session: SessionId, mut seq: Seq) -> Result<bool, StoreError> {
    while seq.0 > 1 {
        seq = Seq(seq.0 - 1);
        match env.store.event(session, seq).await?.event {
            Event::RunEnded(_) | Event::RunLost(_) => return Ok(false),
            Event::NotesWritten(_)
            | Event::NoteWithdrawn(_)
            | Event::AgentStateChanged(_)
            | Event::ResumeContextEdited(_)
            | Event::StepUnknown(_)
            | Event::StepResolved(_)
            | Event::SessionMoved(_) => {}
            _ => return Ok(true),
        }
    }
    Ok(false)
}
