//! The worker loop with a clock that tests advance, and with processes that start no run.

#![expect(clippy::unwrap_used, reason = "a panic is how a test answers")]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use segno_core::id::SessionId;
use segno_core::journal::{Failure, RunOptions, StopMode};
use segno_core::lease::{Liveness, Owner, Processes};
use segno_core::ports::Boxed;
use segno_core::session::Status;
use segno_core::store::Summary;
use segno_engine::between_runs::BetweenRuns;
use segno_engine::env::{self, Retention};
use segno_engine::{AgentDriver, Drivers, Env, history};
use segno_secrets::redact::Redactor;
use segno_sessions::background;
use segno_sessions::chat::Limits;
use segno_sessions::pause::{self, Requested};
use segno_sessions::start::{Request, new_id};
use segno_spec::Provider;
use segno_store::{LocalDisk, Memory};
use segno_supervisor::notices::{Notices, Programs};
use segno_supervisor::worker::{Launch, Report, Settings, Worker, workers};
use segno_testkit::clock::{ManualClock, Seeded};
use segno_testkit::journal::owner;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::watch;

const SPEC: &str = "version: 0\nname: one\nruntime: {provider: scripted, script: s.yaml}\nagents: {a: {prompt: p}}\npattern: {type: chain, config: {steps: [{agent: a, input: x}]}}\n";

/// A process that ends without starting a run.
#[derive(Default)]
struct EndsAtOnce(AtomicUsize);

impl Launch for EndsAtOnce {
    fn launch(&self, _: SessionId) -> io::Result<Child> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Command::new("false").spawn()
    }
}

struct NoAgents;

impl Drivers for NoAgents {
    fn driver(&self, _: &Provider, folder: &Path) -> Result<AgentDriver, env::Error> {
        Err(env::Error::Unreadable {
            path: folder.to_owned(),
            reason: "these tests run no agent".to_owned(),
        })
    }
}

struct OnlyThisProcess;

impl Processes for OnlyThisProcess {
    fn current(&self) -> Owner {
        owner(7)
    }

    fn liveness(&self, process: &Owner) -> Liveness {
        if *process == self.current() {
            Liveness::Running
        } else {
            Liveness::Gone
        }
    }

    fn kill(&self, _: &Owner) -> io::Result<()> {
        Ok(())
    }

    fn end_tree(&self, _: u32, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn end_orphans(&self, _: SessionId) -> io::Result<Vec<u32>> {
        Ok(Vec::new())
    }
}

fn env(clock: &Arc<ManualClock>) -> Env {
    Env {
        human: None,
        exporter: None,
        snapshots: None,
        worktrees: Arc::new(segno_snapshot::LocalWorktrees),
        remote: None,
        retention: Retention::default(),
        store: Arc::new(Memory::new(clock.clone())),
        clock: clock.clone(),
        random: Arc::new(Seeded::new(1)),
        disk: Arc::new(LocalDisk),
        processes: Arc::new(OnlyThisProcess),
        drivers: Arc::new(NoAgents),
        redactor: Arc::new(Redactor::new([])),
        ttl: Duration::from_secs(30),
        end_stopped_owners: false,
        version: "0",
    }
}

struct NoPrograms;

impl Programs for NoPrograms {
    fn run<'a>(
        &'a self,
        _: &'a [String],
        _: &'a str,
        _: Duration,
    ) -> Boxed<'a, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Notices without a target.
fn notices(env: &Env, folder: &Path) -> Notices {
    let settings = segno_supervisor::notices::Settings {
        folder: folder.join("notices"),
        targets: Vec::new(),
        programs: Arc::new(NoPrograms),
        variable: |_| None,
    };
    Notices::new(env, settings)
}

async fn submit(env: &Env) -> Summary {
    let request = Request {
        spec: Path::new("").to_owned(),
        variables: BTreeMap::new(),
        name: None,
        workspace: "/".into(),
        out: "/nowhere".into(),
        force: false,
    };
    let session = new_id(env);
    let submitted = background::submit_text(env, session, SPEC, request, "me".into(), &|_| {});
    submitted.await.unwrap()
}

#[tokio::test]
async fn pause_of_a_session_that_only_this_process_held_ends() {
    let clock = Arc::new(ManualClock::default());
    let env = env(&clock);
    let pending = submit(&env).await;
    let idle = background::withdraw(&env, &pending, "me").await.unwrap();
    let held = BetweenRuns::acquire(&env, &idle).await.unwrap();
    let request = pause::Request {
        mode: StopMode::Boundary,
        by: "me".into(),
        reason: None,
    };
    let Requested::Sent(sent) = pause::request(&env, &idle, request).await.unwrap() else {
        panic!("nothing was sent");
    };
    held.release().await;
    let paused = pause::wait(&env, &idle, &sent).await.unwrap();
    assert_eq!(paused.summary.status, Status::Paused);
    // These tests store no files.
    assert!(matches!(paused.checkpoint, Some(Err(_))));
}

#[tokio::test]
async fn failed_start_withdraws_no_later_request() {
    let clock = Arc::new(ManualClock::default());
    let env = env(&clock);
    let first = submit(&env).await;
    let request = background::request(&env, &first, "me".into(), RunOptions::default(), &[]);
    let second = request.await.unwrap();
    let failure = Failure {
        kind: "R0128".into(),
        message: "it ended".into(),
    };
    let late = background::withdraw_failed(&env, &first, failure.clone()).await;
    assert!(matches!(late, Err(background::Error::NotPending { .. })));
    let kept = env.store.summary(first.id).await.unwrap();
    assert_eq!(kept.status, Status::Pending);
    let withdrawn = background::withdraw_failed(&env, &second, failure).await;
    assert_eq!(withdrawn.unwrap().status, Status::Failed);
}

#[tokio::test]
async fn start_that_fails_is_repeated_and_then_reported() {
    let (clock, folder) = (Arc::new(ManualClock::default()), TempDir::new().unwrap());
    let env = env(&clock);
    let session = submit(&env).await.id;
    let launch = Arc::new(EndsAtOnce::default());
    let reports = Arc::new(Mutex::new(Vec::new()));
    let settings = Settings {
        max_runs: 1,
        drain: Duration::ZERO,
        chats: Limits::default(),
        folder: folder.path().join("workers"),
    };
    let seen = Arc::clone(&reports);
    let report = Arc::new(move |report| seen.lock().unwrap().push(report));
    let worker = Worker::new(
        env.clone(),
        launch.clone(),
        notices(&env, folder.path()),
        report,
        settings.clone(),
    )
    .unwrap();
    let (stop, stopped) = watch::channel(false);
    let working = tokio::spawn(worker.run(stopped));
    loop {
        let summary = env.store.summary(session).await.unwrap();
        if summary.status == Status::Failed {
            break;
        }
        tokio::task::yield_now().await;
    }
    let found = workers(&settings.folder, &LocalDisk, &OnlyThisProcess);
    assert_eq!(found.len(), 1);
    stop.send(true).unwrap();
    working.await.unwrap();
    assert!(workers(&settings.folder, &LocalDisk, &OnlyThisProcess).is_empty());
    assert_eq!(launch.0.load(Ordering::Relaxed), 5);
    let state = history::load_state(&env, session).await.unwrap();
    assert_eq!(state.error.unwrap().kind, "R0128");
    let reports = reports.lock().unwrap();
    let is_failure = |report: &&Report| matches!(report, Report::NotStarted { .. });
    assert_eq!(reports.iter().filter(is_failure).count(), 5);
}
