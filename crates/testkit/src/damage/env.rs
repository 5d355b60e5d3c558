//! An environment for judging in process: there are no other processes, and calls are counted.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use segno_core::agent::{self, Answer, Driver, Listener, Request};
use segno_core::id::SessionId;
use segno_core::lease::{Liveness, Owner, Processes};
use segno_core::ports::{Boxed, Clock, Disk};
use segno_core::store::{Error as StoreError, Store};
use segno_core::time::Timestamp;
use segno_core::usage::Usage;
use segno_engine::{AgentDriver, Drivers, Env, Observer, env};
use segno_secrets::redact::Redactor;
use segno_spec::Provider;
use segno_store::{Home, LocalDisk, Sqlite};

use super::specimen::LAST_TEXT;
use crate::clock::Seeded;
use crate::journal::owner;

pub(super) fn env(root: &Path, calls: Arc<Mutex<Vec<String>>>) -> Result<Env, StoreError> {
    static REDACTOR: std::sync::LazyLock<Arc<Redactor>> =
        std::sync::LazyLock::new(|| Arc::new(Redactor::new([])));
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
    let clock: Arc<dyn Clock> = Arc::new(FixedClock);
    let home = Home::open(root, Arc::clone(&disk))?;
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(home, Arc::clone(&clock))?);
    Ok(Env {
        human: None,
        exporter: None,
        snapshots: None,
        worktrees: Arc::new(segno_snapshot::LocalWorktrees),
        remote: None,
        retention: segno_engine::env::Retention::default(),
        store,
        clock,
        random: Arc::new(Seeded::new(1)),
        disk,
        processes: Arc::new(NoProcesses),
        drivers: Arc::new(CountingDriver(calls)),
        redactor: Arc::clone(&REDACTOR),
        ttl: Duration::from_secs(30),
        end_stopped_owners: false,
        version: "0",
    })
}

/// A clock that stands still, so that the same store always gives the same answer. Nothing that is
/// judged here waits for time to pass.
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp(1_894_738_089_000)
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> Boxed<'_, ()> {
        Box::pin(std::future::pending())
    }
}

/// No other process is alive, and nothing is observed.
pub(super) struct NoProcesses;

impl Processes for NoProcesses {
    fn current(&self) -> Owner {
        owner(7)
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

impl Observer for NoProcesses {
    fn event(&self, _: SessionId, _: &segno_core::journal::JournalEvent) {}

    fn notice(&self, _: &str) {}
}

/// Answers as the script does, and records the calls.
struct CountingDriver(Arc<Mutex<Vec<String>>>);

impl Drivers for CountingDriver {
    fn driver(&self, _: &Provider, _: &Path) -> Result<AgentDriver, env::Error> {
        Ok(AgentDriver::Stateless(Arc::new(Self(Arc::clone(&self.0)))))
    }
}

impl Driver for CountingDriver {
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
        _: &'a dyn Listener,
    ) -> Boxed<'a, Result<Answer, agent::Error>> {
        self.0.lock().unwrap().push(request.path.to_string());
        let text = LAST_TEXT.to_owned();
        Box::pin(std::future::ready(Ok(Answer {
            text,
            usage: Usage::default(),
        })))
    }
}
