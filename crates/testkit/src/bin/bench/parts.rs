//! What the measurements share: the store and the world around it, and the work that is done.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use segno_core::lease::{Liveness, Owner, Processes};
use segno_core::ports::{Boxed, Clock};
use segno_core::redact::Redactor;
use segno_core::store::{Batch, New};
use segno_core::time::Timestamp;
use segno_engine::spec::Provider;
use segno_engine::{Drivers, World};
use segno_store::{Home, LocalDisk, Sqlite};
use segno_testkit::clock::Seeded;
use segno_testkit::journal::{Pen, TTL, finished, owner, started};

/// A store in `folder`.
pub(crate) fn store(folder: &Path) -> Sqlite {
    let home = Home::open(folder.join("home"), Arc::new(LocalDisk)).unwrap();
    Sqlite::open(home, Arc::new(Wall(Instant::now()))).unwrap()
}

/// A world for looking at sessions, not for running any.
pub(crate) fn world(store: Sqlite) -> World {
    World {
        people: Arc::new(segno_engine::Nobody),
        exporter: Arc::new(segno_engine::Untold),
        snapshots: Arc::new(segno_core::snapshot::Nowhere),
        worktrees: Arc::new(segno_core::worktree::NoGit),
        storage: None,
        retention: segno_engine::retention::Retention::default(),
        store: Arc::new(store),
        clock: Arc::new(Wall(Instant::now())),
        random: Arc::new(Seeded::new(7)),
        disk: Arc::new(LocalDisk),
        processes: Arc::new(Nobody),
        drivers: Arc::new(Nobody),
        redactor: Arc::new(Redactor::new([])),
        ttl: TTL,
        version: "bench",
    }
}

/// The event loop that the binary has.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap()
}

/// An answer of 2 KB, different for every step.
pub(crate) fn answer(step: usize) -> String {
    let mut text = format!("the answer of step {step}, repeated until it is long enough; ");
    while text.len() < 2048 {
        text.extend_from_within(..);
    }
    text.truncate(2048);
    text
}

/// A session that has begun its first step, and the batches that follow: each finishes a step and
/// begins the next, as the engine does it.
pub(crate) fn session(number: u8, steps: usize) -> (New, Vec<Batch>) {
    let mut pen = Pen::new(number);
    let mut new = pen.create(&format!("session-{number}"));
    // The first step begins with the session, so that every batch is alike.
    let first = pen.batch([started("steps/0")]);
    new.batch.records.extend(first.records);
    let step = |step: usize| {
        let (this, next) = (format!("steps/{step}"), format!("steps/{}", step + 1));
        pen.batch([finished(&this, &answer(step)), started(&next)])
    };
    let batches = (0..steps).map(step).collect();
    (new, batches)
}

struct Wall(Instant);

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Timestamp(i64::try_from(since.as_millis()).unwrap())
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Boxed<'_, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// No processes and no agents.
struct Nobody;

impl Processes for Nobody {
    fn current(&self) -> Owner {
        owner(std::process::id())
    }

    fn liveness(&self, _: &Owner) -> Liveness {
        Liveness::Gone
    }

    fn end(&self, _: &Owner) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drivers for Nobody {
    fn driver(&self, _: &Provider, _: &Path) -> Result<segno_engine::Speaker, segno_engine::Error> {
        Err(segno_engine::Error::Unreadable {
            path: "agents".into(),
            reason: "nothing is run here".into(),
        })
    }
}
