//! A test environment with its own clock, randomness and processes.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use segno_agents::{Script, Scripted};
use segno_core::id::SessionId;
use segno_core::journal::{Event, JournalEvent, Text};
use segno_core::lease::{Liveness, Owner, Processes};
use segno_core::store::{Filter, Summary};
use segno_engine::{AgentDriver, Drivers, Env, Error, Observer, Outcome, StopToken, env};
use segno_secrets::redact::Redactor;
use segno_sessions::resume::{self, OnLimit, Options, resume};
use segno_sessions::start::{self, Request, start};
use segno_spec::Provider;
use segno_store::{LocalDisk, Memory};
use segno_testkit::clock::{ManualClock, Seeded};
use segno_testkit::journal::owner;
use tempfile::TempDir;

pub(crate) struct Harness {
    pub(crate) env: Env,
    pub(crate) clock: Arc<ManualClock>,
    script: Arc<Mutex<String>>,
    pub(crate) seen: Arc<EventRecorder>,
    pub(crate) folder: TempDir,
}

/// Records all events.
#[derive(Default)]
pub(crate) struct EventRecorder {
    pub(crate) entries: Mutex<Vec<JournalEvent>>,
}

impl Observer for EventRecorder {
    fn event(&self, _: SessionId, entry: &JournalEvent) {
        self.entries.lock().unwrap().push(entry.clone());
    }

    fn notice(&self, _: &str) {}
}

struct NoLiveProcesses;

impl Processes for NoLiveProcesses {
    fn current(&self) -> Owner {
        owner(7)
    }

    fn liveness(&self, _: &Owner) -> Liveness {
        Liveness::Gone
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

struct ScriptedDrivers(Arc<ManualClock>, Arc<Mutex<String>>);

impl Drivers for ScriptedDrivers {
    fn driver(&self, _: &Provider, _: &Path) -> Result<AgentDriver, env::Error> {
        let script = Script::parse(&self.1.lock().unwrap()).unwrap();
        let scripted = Scripted::new(script, self.0.clone(), None);
        Ok(AgentDriver::Stateless(Arc::new(scripted)))
    }
}

/// An environment in which agents answer from `script`.
pub(crate) fn harness(script: &str) -> Harness {
    let clock = Arc::new(ManualClock::default());
    let script = Arc::new(Mutex::new(script.to_owned()));
    let env = Env {
        human: None,
        exporter: None,
        snapshots: None,
        worktrees: Arc::new(segno_snapshot::LocalWorktrees),
        remote: None,
        retention: segno_engine::env::Retention::default(),
        store: Arc::new(Memory::new(clock.clone())),
        clock: clock.clone(),
        random: Arc::new(Seeded::new(1)),
        disk: Arc::new(LocalDisk),
        processes: Arc::new(NoLiveProcesses),
        drivers: Arc::new(ScriptedDrivers(clock.clone(), Arc::clone(&script))),
        redactor: Arc::new(Redactor::new([])),
        ttl: Duration::from_secs(30),
        end_stopped_owners: false,
        version: "0",
    };
    Harness {
        env,
        clock,
        script,
        seen: Arc::default(),
        folder: TempDir::new().unwrap(),
    }
}

impl Harness {
    /// Runs a spec in a new session, which starts.
    pub(crate) async fn run(&self, spec: &str) -> Result<Outcome, Error> {
        self.start(spec).await.map_err(|error| match error {
            start::Error::Run(error) => error,
            other => panic!("{other}"),
        })
    }

    /// Starts a session from a spec.
    pub(crate) async fn start(&self, spec: &str) -> Result<Outcome, start::Error> {
        start(
            &self.env,
            self.request(spec),
            self.seen.clone(),
            StopToken::default(),
        )
        .await
    }

    pub(crate) fn request(&self, spec: &str) -> Request {
        let path = self.folder.path().join("spec.yaml");
        #[expect(clippy::disallowed_methods, reason = "the test's own file")]
        std::fs::write(&path, spec).unwrap();
        Request {
            spec: path,
            variables: BTreeMap::new(),
            name: None,
            workspace: PathBuf::from("/"),
            out: self.folder.path().join("artifacts"),
            force: false,
        }
    }

    /// Waits for an event of this kind.
    pub(crate) async fn wait_for(&self, kind: &str) {
        let shown = |entry: &JournalEvent| entry.event.kind() == kind;
        while !self.seen.entries.lock().unwrap().iter().any(shown) {
            tokio::task::yield_now().await;
        }
    }

    /// Replaces the script of the agents.
    pub(crate) fn set_script(&self, script: &str) {
        script.clone_into(&mut self.script.lock().unwrap());
    }

    /// Resumes the only session.
    pub(crate) async fn resume(&self) -> Result<Outcome, Error> {
        self.resume_with(Options::default()).await
    }

    /// Like [`Harness::resume`], and does not wait for rate limits.
    pub(crate) async fn resume_asking(&self) -> Result<Outcome, Error> {
        let on_limit = Some(OnLimit::RetryNow);
        self.resume_with(Options {
            on_limit,
            ..Options::default()
        })
        .await
    }

    async fn resume_with(&self, options: Options) -> Result<Outcome, Error> {
        self.seen.entries.lock().unwrap().clear();
        let summary = self.summary().await;
        let observer = self.seen.clone();
        let resumed = resume(&self.env, summary, options, observer, StopToken::default()).await;
        resumed.map_err(|error| match error {
            resume::Error::Run(error) => error,
            other => panic!("{other}"),
        })
    }

    /// The only session.
    pub(crate) async fn summary(&self) -> Summary {
        let mut all = self.env.store.list(Filter::default()).await.unwrap();
        all.pop().unwrap().unwrap()
    }

    /// The prompt of a step.
    pub(crate) fn prompt_of(&self, step: &str) -> Option<String> {
        let entries = self.seen.entries.lock().unwrap();
        entries.iter().find_map(|entry| match &entry.event {
            Event::StepStarted(event) if event.path.as_str() == step => match &event.input {
                Text::Inline(text) => Some(text.clone()),
                Text::Blob { .. } => None,
            },
            _ => None,
        })
    }

    /// The steps that started, in order.
    pub(crate) fn started_steps(&self) -> Vec<String> {
        let entries = self.seen.entries.lock().unwrap();
        let step = |entry: &JournalEvent| match &entry.event {
            Event::StepStarted(event) => Some(event.path.to_string()),
            _ => None,
        };
        entries.iter().filter_map(step).collect()
    }

    /// The content of an artifact.
    pub(crate) fn artifact(&self, name: &str) -> String {
        let path = self.folder.path().join("artifacts").join(name);
        #[expect(clippy::disallowed_methods, reason = "the test's own file")]
        std::fs::read_to_string(path).unwrap()
    }

    /// The kinds of the observed events, with their steps.
    pub(crate) fn event_kinds(&self) -> Vec<String> {
        let describe = |entry: &JournalEvent| match entry.event.step() {
            Some((path, _)) => format!("{} {path}", entry.event.kind()),
            None => entry.event.kind().to_owned(),
        };
        self.seen
            .entries
            .lock()
            .unwrap()
            .iter()
            .map(describe)
            .collect()
    }
}

/// A spec with two agents, this pattern, and more blocks.
pub(crate) fn spec(pattern: &str, more: &str) -> String {
    format!(
        "version: 0\nname: flow\nruntime: {{provider: scripted, script: s.yaml, failure_policy: {{retries: 0}}}}\nagents: {{a: {{prompt: Answer.}}, b: {{prompt: Judge.}}}}\npattern: {pattern}\n{more}"
    )
}

/// A chain of `steps`, with more keys of `runtime`.
pub(crate) fn chain(runtime: &str, steps: &[&str]) -> String {
    let steps: Vec<String> = steps
        .iter()
        .map(|input| format!("{{agent: a, input: {input:?}}}"))
        .collect();
    format!(
        "version: 0\nname: chain\nruntime: {{provider: scripted, script: s.yaml{runtime}}}\nagents: {{a: {{prompt: Answer.}}}}\npattern: {{type: chain, config: {{steps: [{}]}}}}\n",
        steps.join(", ")
    )
}
