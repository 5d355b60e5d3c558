//! Takes checkpoints at the boundaries that the spec names.
//!
//! A separate task copies the files while the next step runs. If several boundaries pass before a
//! checkpoint is done, the next checkpoint covers all of them. A checkpoint that fails is reported
//! and does not affect the run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use segno_core::checkpoint::Trigger;
use segno_core::id::SessionId;
use segno_core::journal::{Event, JournalEvent, Suspension};
use segno_core::session::Status;
use segno_core::step::Path;
use segno_spec::Checkpoints;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::env::Env;
use crate::observe::Observer;
use crate::{checkpoint, remote, retention};

/// How long unreferenced snapshot data stays before it is deleted.
const GRACE: Duration = Duration::from_hours(24);

/// Observes a run and takes its checkpoints.
pub(crate) struct Checkpointer {
    inner: Arc<dyn Observer>,
    policy: Checkpoints,
    /// The newest trigger, which covers the ones before it. `None` once the run has ended, and if no
    /// checkpoints can be taken.
    triggers: Mutex<Option<watch::Sender<Option<Trigger>>>>,
    /// The checkpoint that the stop request asks for.
    requested: Mutex<Option<Trigger>>,
}

impl Checkpointer {
    /// Starts the task that takes checkpoints.
    pub(crate) fn start(
        env: &Env,
        policy: &Checkpoints,
        session: SessionId,
        inner: Arc<dyn Observer>,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let (sender, triggers) = watch::channel(None);
        let task = tokio::spawn(run(
            env.clone(),
            session,
            policy.clone(),
            triggers,
            Arc::clone(&inner),
        ));
        let checkpointer = Self {
            inner,
            policy: policy.clone(),
            // Without a snapshot store there is nothing to take.
            triggers: Mutex::new(env.snapshots.is_some().then_some(sender)),
            requested: Mutex::default(),
        };
        (Arc::new(checkpointer), task)
    }

    /// Queues a checkpoint if the spec names the trigger, or the stop request asked for one: then
    /// under the trigger that it named.
    fn queue_if_wanted(&self, trigger: Trigger) {
        if self.requested().is_some() || self.policy.on.contains(&trigger) {
            self.queue(trigger);
        }
    }

    /// Queues a checkpoint, under the trigger that the stop request named, or else this one.
    fn queue(&self, trigger: Trigger) {
        let trigger = self.requested().unwrap_or(trigger);
        if let Some(triggers) = &*self.triggers.lock().unwrap_or_else(PoisonError::into_inner) {
            triggers.send_replace(Some(trigger));
        }
    }

    fn requested(&self) -> Option<Trigger> {
        *self
            .requested
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all queued checkpoints are taken.
    pub(crate) async fn close(&self, task: JoinHandle<()>) {
        drop(
            self.triggers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let _ = task.await;
    }
}

/// Takes a checkpoint for each queued trigger, and periodically.
async fn run(
    env: Env,
    session: SessionId,
    policy: Checkpoints,
    mut triggers: watch::Receiver<Option<Trigger>>,
    observer: Arc<dyn Observer>,
) {
    let mut pruned = false;
    loop {
        let time = async {
            match policy.every {
                Some(every) => env.clock.sleep(every).await,
                None => std::future::pending().await,
            }
        };
        // The newest trigger says most: that the run completed, rather than that a step did.
        let trigger = tokio::select! {
            changed = triggers.changed() => match changed {
                Ok(()) => *triggers.borrow_and_update(),
                Err(_) => break,
            },
            () = time => Some(Trigger::Periodic),
        };
        let Some(trigger) = trigger else { continue };
        pruned |= take_checkpoint(&env, session, trigger, &*observer).await;
    }
    if pruned {
        sweep_unreferenced(&env, &*observer).await;
    }
}

/// Deletes unreferenced snapshot data, and reports if checkpoints still take too much space.
async fn sweep_unreferenced(env: &Env, observer: &dyn Observer) {
    let swept = async {
        retention::sweep(env, GRACE).await?;
        Ok::<_, retention::Error>(retention::bytes_over_limit(env).await?)
    };
    match swept.await {
        Ok(None) => {}
        Ok(Some(room)) => observer.notice(&format!(
            "checkpoints take {} MB, more than the limit of {} MB; `segno checkpoint prune --keep 3` deletes old ones",
            room / 1_000_000,
            env.retention.max_bytes / 1_000_000
        )),
        Err(error) => observer.notice(&format!("unreferenced snapshot data was not deleted: {error}")),
    }
}

/// Takes a checkpoint, pushes it, and prunes old ones. Errors are reported, and the work is
/// repeated the next time. Returns whether old checkpoints were pruned.
pub async fn take_checkpoint(
    env: &Env,
    session: SessionId,
    trigger: Trigger,
    observer: &dyn Observer,
) -> bool {
    let taken = async {
        let summary = env.store.summary(session).await?;
        let taken = checkpoint::create(env, &summary, trigger, None, &|_, _| {}).await?;
        Ok::<_, checkpoint::Error>((summary, taken))
    };
    let (summary, taken) = match taken.await {
        Ok(taken) => taken,
        Err(error) => {
            observer.notice(&format!("checkpoint failed ({trigger}): {error}"));
            return false;
        }
    };
    for path in &taken.captured.unstable {
        observer.notice(&format!(
            "{path} changed while checkpoint {} was taken; its content there may be inconsistent",
            taken.manifest.id
        ));
    }
    for hint in checkpoint::size_hints(&taken.captured, env.remote.is_some()) {
        observer.notice(&format!("checkpoint {}: {hint}", taken.manifest.id));
    }
    if let Err(error) = remote::push_pending(env, session, &|_, _| {}).await {
        observer.notice(&format!(
            "checkpoints are stored locally, but were not pushed: {error}"
        ));
    }
    let pruning = retention::enforce(env, &summary);
    pruning.await.unwrap_or_else(|error| {
        observer.notice(&format!("old checkpoints were not pruned: {error}"));
        false
    })
}

impl Observer for Checkpointer {
    fn event(&self, session: SessionId, entry: &JournalEvent) {
        match &entry.event {
            Event::StepFinished(_) | Event::QuestionAnswered(_) => {
                self.queue_if_wanted(Trigger::TaskComplete);
            }
            Event::StepFailed(event) if event.error.kind == "timeout" => {
                self.queue_if_wanted(Trigger::Timeout);
            }
            Event::StopRequested(event) => {
                *self
                    .requested
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = event.checkpoint;
            }
            Event::RunEnded(event) => match event.status {
                Status::Completed => self.queue_if_wanted(Trigger::Complete),
                Status::Failed => self.queue_if_wanted(Trigger::Error),
                // A run that pauses with an error has used up a resource.
                Status::Paused if event.error.is_some() => self.queue(Trigger::Exhaustion),
                Status::Paused | Status::Waiting => self.queue_if_wanted(Trigger::Pause),
                Status::Interrupted => self.queue_if_wanted(Trigger::Shutdown),
                _ => {}
            },
            _ => {}
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
        self.inner.suspended(session, path, suspension);
    }

    fn text(&self, path: &Path, attempt: u32, piece: &str) {
        self.inner.text(path, attempt, piece);
    }

    fn notice(&self, message: &str) {
        self.inner.notice(message);
    }
}
