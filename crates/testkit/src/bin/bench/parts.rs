//! What the measurements share: the store, its environment, and the sessions that are appended.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use segno_core::id::SessionId;
use segno_core::lease::{Liveness, Owner, Processes};
use segno_core::ports::{Boxed, Clock};
use segno_core::store::{Batch, NewSession};
use segno_core::time::Timestamp;
use segno_engine::{Drivers, Env};
use segno_secrets::redact::Redactor;
use segno_spec::Provider;
use segno_store::{Home, LocalDisk, Sqlite};
use segno_testkit::clock::Seeded;
use segno_testkit::journal::{JournalBuilder, TTL, owner, step_finished, step_started};

pub(crate) fn store(folder: &Path) -> Sqlite {
    let home = Home::open(folder.join("home"), Arc::new(LocalDisk)).unwrap();
    Sqlite::open(home, Arc::new(SystemClock(Instant::now()))).unwrap()
}

/// An environment for reading sessions, not for running any.
pub(crate) fn env(store: Sqlite) -> Env {
    Env {
        human: None,
        exporter: None,
        snapshots: None,
        worktrees: Arc::new(segno_snapshot::LocalWorktrees),
        remote: None,
        retention: segno_engine::env::Retention::default(),
        store: Arc::new(store),
        clock: Arc::new(SystemClock(Instant::now())),
        random: Arc::new(Seeded::new(7)),
        disk: Arc::new(LocalDisk),
        processes: Arc::new(NoProcesses),
        drivers: Arc::new(NoProcesses),
        redactor: Arc::new(Redactor::new([])),
        ttl: TTL,
        end_stopped_owners: false,
        version: "bench",
    }
}

/// The same kind of event loop as in the binary.
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

/// A session that has started its first step, and the batches that follow: each one finishes a step
/// and starts the next, as the engine does.
pub(crate) fn session(number: u8, steps: usize) -> (NewSession, Vec<Batch>) {
    let mut journal = JournalBuilder::new(number);
    let mut new = journal.create(&format!("session-{number}"));
    // The first step starts with the session, so that all batches have the same shape.
    let first = journal.batch([step_started("steps/0")]);
    new.batch.records.extend(first.records);
    let step = |step: usize| {
        let (this, next) = (format!("steps/{step}"), format!("steps/{}", step + 1));
        journal.batch([step_finished(&this, &answer(step)), step_started(&next)])
    };
    let batches = (0..steps).map(step).collect();
    (new, batches)
}

struct SystemClock(Instant);

impl Clock for SystemClock {
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
struct NoProcesses;

impl Processes for NoProcesses {
    fn current(&self) -> Owner {
        owner(std::process::id())
    }

    fn liveness(&self, _: &Owner) -> Liveness {
        Liveness::Gone
    }

    fn kill(&self, _: &Owner) -> std::io::Result<()> {
        Ok(())
    }

    fn end_tree(&self, _: u32, _: u64) -> std::io::Result<()> {
        Ok(())
    }

    fn end_orphans(&self, _: SessionId) -> std::io::Result<Vec<u32>> {
        Ok(Vec::new())
    }
}

impl Drivers for NoProcesses {
    fn driver(
        &self,
        _: &Provider,
        _: &Path,
    ) -> Result<segno_engine::AgentDriver, segno_engine::env::Error> {
        Err(segno_engine::env::Error::Unreadable {
            path: "agents".into(),
            reason: "the benchmark runs no agents".into(),
        })
    }
}
