//! Checkpoints that a workflow takes by itself, at the boundaries that its spec names.
//!
//! They are taken beside the work: a task of its own copies the files while the next step is asked.
//! If several boundaries come before one is done, the next checkpoint stands for all of them. One
//! that cannot be taken is told, and disturbs nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use segno_core::checkpoint::Trigger;
use segno_core::id::SessionId;
use segno_core::journal::{Entry, Event, Suspension};
use segno_core::session::Status;
use segno_core::step::Path;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::observe::Observer;
use crate::retention;
use crate::spec::Checkpoints;
use crate::world::World;
use crate::{checkpoint, remote};

/// How long files that nobody needs any more wait before they go.
const GRACE: Duration = Duration::from_hours(24);

/// Watches a run, and takes its checkpoints.
pub(crate) struct Boundaries {
    inner: Arc<dyn Observer>,
    policy: Checkpoints,
    queue: Mutex<Option<mpsc::UnboundedSender<Trigger>>>,
    /// What whoever stopped the run wants kept.
    asked: Mutex<Option<Trigger>>,
}

impl Boundaries {
    /// Begins to watch.
    pub(crate) fn begin(
        world: &World,
        policy: &Checkpoints,
        session: SessionId,
        inner: Arc<dyn Observer>,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let (queue, triggers) = mpsc::unbounded_channel();
        let taker = tokio::spawn(serve(
            world.clone(),
            session,
            policy.clone(),
            triggers,
            Arc::clone(&inner),
        ));
        let boundaries = Self {
            inner,
            policy: policy.clone(),
            queue: Mutex::new(Some(queue)),
            asked: Mutex::default(),
        };
        (Arc::new(boundaries), taker)
    }

    /// Notes a boundary under the word that someone asked for, or the first of its own that the spec
    /// names.
    fn reach(&self, words: &[Trigger]) {
        let asked = *self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let named = words.iter().find(|word| self.policy.on.contains(word));
        if let Some(trigger) = asked.or(named.copied())
            && let Some(queue) = &*self.queue.lock().unwrap_or_else(PoisonError::into_inner)
        {
            let _ = queue.send(trigger);
        }
    }

    /// Waits until everything that was reached is kept.
    pub(crate) async fn close(&self, taker: JoinHandle<()>) {
        drop(
            self.queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let _ = taker.await;
    }
}

/// Takes a checkpoint for what was reached, and whenever it is time.
async fn serve(
    world: World,
    session: SessionId,
    policy: Checkpoints,
    mut triggers: mpsc::UnboundedReceiver<Trigger>,
    observer: Arc<dyn Observer>,
) {
    let mut pruned = false;
    loop {
        let time = async {
            match policy.every {
                Some(every) => world.clock.sleep(every).await,
                None => std::future::pending().await,
            }
        };
        let mut trigger = tokio::select! {
            reached = triggers.recv() => match reached {
                Some(trigger) => trigger,
                None => break,
            },
            () = time => Trigger::Periodic,
        };
        // The newest says it best: that all is done, rather than that a step is.
        while let Ok(later) = triggers.try_recv() {
            trigger = later;
        }
        pruned |= keep(&world, session, trigger, &*observer).await;
    }
    if pruned {
        tidy(&world, &*observer).await;
    }
}

/// Frees what nobody needs any more, and tells if checkpoints take too much room all the same.
async fn tidy(world: &World, observer: &dyn Observer) {
    let swept = async {
        retention::sweep(world, GRACE).await?;
        retention::excess(world).await
    };
    match swept.await {
        Ok(None) => {}
        Ok(Some(room)) => observer.notice(&format!(
            "checkpoints take {} MB, more than the {} MB that they should: `segno checkpoint prune --keep 3` lets go of old ones",
            room / 1_000_000,
            world.retention.room / 1_000_000
        )),
        Err(error) => observer.notice(&format!("old checkpoints were not cleared away: {error}")),
    }
}

/// Takes a checkpoint, sends it, and lets go of old ones; what goes wrong is told, and done the next
/// time. Returns whether old ones were let go of.
pub(crate) async fn keep(
    world: &World,
    session: SessionId,
    trigger: Trigger,
    observer: &dyn Observer,
) -> bool {
    let taken = async {
        let summary = world.store.summary(session).await?;
        let taken = checkpoint::take(world, &summary, trigger, None, &|_, _| {}).await?;
        Ok::<_, crate::Error>((summary, taken))
    };
    let (summary, taken) = match taken.await {
        Ok(taken) => taken,
        Err(error) => {
            observer.notice(&format!("no checkpoint ({trigger}): {error}"));
            return false;
        }
    };
    for path in &taken.captured.unstable {
        observer.notice(&format!(
            "{path} changed while it was kept in checkpoint {}, and may be half-way",
            taken.manifest.id
        ));
    }
    if let Err(error) = remote::catch_up(world, session, &|_, _| {}).await {
        observer.notice(&format!("checkpoints are kept here, and not sent: {error}"));
    }
    let old = async {
        let (outdated, _) = retention::outdated(world, Some(&summary), world.retention).await?;
        retention::prune(world, &outdated).await?;
        Ok::<_, crate::Error>(!outdated.is_empty())
    };
    old.await.unwrap_or_else(|error| {
        observer.notice(&format!("old checkpoints stay: {error}"));
        false
    })
}

impl Observer for Boundaries {
    fn entry(&self, session: SessionId, entry: &Entry) {
        match &entry.event {
            Event::StepFinished(_) | Event::QuestionAnswered(_) => {
                self.reach(&[Trigger::TaskComplete]);
            }
            Event::StepFailed(event) if event.error.kind == "timeout" => {
                self.reach(&[Trigger::Timeout]);
            }
            Event::StopRequested(event) => {
                *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = event.checkpoint;
            }
            Event::RunEnded(event) => match event.status {
                Status::Completed => self.reach(&[Trigger::Complete]),
                Status::Failed => self.reach(&[Trigger::Error]),
                // A run that pauses by itself has used up what it may.
                Status::Paused if event.error.is_some() => {
                    self.reach(&[Trigger::Exhaustion, Trigger::Pause]);
                }
                Status::Paused | Status::Waiting => self.reach(&[Trigger::Pause]),
                Status::Interrupted => self.reach(&[Trigger::Shutdown]),
                _ => {}
            },
            _ => {}
        }
        self.inner.entry(session, entry);
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

    fn words(&self, piece: &str) {
        self.inner.words(piece);
    }

    fn notice(&self, message: &str) {
        self.inner.notice(message);
    }
}
