//! A world whose time, chance and processes are the test's.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use segno_agents::{Script, Scripted};
use segno_core::agent::Driver;
use segno_core::id::SessionId;
use segno_core::journal::Entry;
use segno_core::lease::{Liveness, Owner, Processes};
use segno_core::redact::Redactor;
use segno_engine::spec::Provider;
use segno_engine::start::{Request, start};
use segno_engine::{Brake, Drivers, Error, Observer, Outcome, World};
use segno_store::{LocalDisk, Memory};
use segno_testkit::clock::{HandClock, Seeded};
use segno_testkit::journal::owner;
use tempfile::TempDir;

pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) seen: Arc<Seen>,
    pub(crate) folder: TempDir,
}

/// Remembers what it was shown.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) entries: Mutex<Vec<Entry>>,
}

impl Observer for Seen {
    fn entry(&self, _: SessionId, entry: &Entry) {
        self.entries.lock().unwrap().push(entry.clone());
    }

    fn notice(&self, _: &str) {}
}

struct AllGone;

impl Processes for AllGone {
    fn current(&self) -> Owner {
        owner(7)
    }

    fn liveness(&self, _: &Owner) -> Liveness {
        Liveness::Gone
    }

    fn end(&self, _: &Owner) -> io::Result<()> {
        Ok(())
    }
}

struct OneScript(Arc<HandClock>, String);

impl Drivers for OneScript {
    fn driver(&self, _: &Provider, _: &Path) -> Result<Arc<dyn Driver>, Error> {
        let script = Script::parse(&self.1).unwrap();
        Ok(Arc::new(Scripted::new(script, self.0.clone(), None)))
    }
}

/// A stage on which agents answer from `script`.
pub(crate) fn stage(script: &str) -> Stage {
    let clock = Arc::new(HandClock::default());
    let world = World {
        store: Arc::new(Memory::new(clock.clone())),
        clock: clock.clone(),
        random: Arc::new(Seeded::new(1)),
        disk: Arc::new(LocalDisk),
        processes: Arc::new(AllGone),
        drivers: Arc::new(OneScript(clock.clone(), script.to_owned())),
        redactor: Arc::new(Redactor::new([])),
        ttl: Duration::from_secs(30),
        version: "0",
    };
    Stage {
        world,
        seen: Arc::default(),
        folder: TempDir::new().unwrap(),
    }
}

impl Stage {
    /// Runs a spec from its beginning.
    pub(crate) async fn run(&self, spec: &str) -> Result<Outcome, Error> {
        start(
            &self.world,
            self.request(spec),
            self.seen.clone(),
            Brake::default(),
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

    /// The kinds of the entries that were shown, with their steps.
    pub(crate) fn kinds(&self) -> Vec<String> {
        let describe = |entry: &Entry| match entry.event.step() {
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

/// A chain of `steps` with this runtime beside the provider.
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
