//! Tools that access the network or run code.

mod executors;
mod fetch;
mod python;
mod redirects;
mod requests;
mod searches;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use segno_agents::{BuiltinTools, NetworkPolicy, Search, ToolDeps, Web};
use segno_core::ports::{Access, Boxed, Clock, Disk};
use segno_core::time::Timestamp;
use segno_core::tool::ToolCall;
use segno_core::tool::Tools;
use serde_json::Value;
use tokio::sync::Notify;

use crate::fixture::{process_guard, runtime};

/// A clock that a test advances.
#[derive(Default)]
struct ManualClock {
    over: Notify,
    asked: Mutex<Vec<Duration>>,
}

impl ManualClock {
    /// Ends all sleeps.
    fn advance(&self) {
        self.over.notify_one();
    }

    /// The requested sleeps, in order.
    fn asked(&self) -> Vec<u64> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(Duration::as_secs).collect()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, duration: Duration) -> Boxed<'_, ()> {
        self.asked.lock().unwrap().push(duration);
        Box::pin(self.over.notified())
    }
}

/// These tools do not use files.
struct NoDisk;

impl Disk for NoDisk {
    fn read(&self, _: &Path, _: u64) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn create(&self, _: &Path, _: &[u8], _: Access) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn append(&self, _: &Path, _: &[u8], _: Access) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn publish(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn create_folder(&self, _: &Path, _: Access) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove_folder(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The dependencies of the tools, with these hosts allowed.
fn gear(allowed: &[String], clock: &Arc<ManualClock>) -> ToolDeps {
    ToolDeps {
        disk: Arc::new(NoDisk),
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        web: web(allowed, clock),
        search: Search::new(None),
        guard: process_guard(),
        mounts: Vec::new(),
    }
}

fn web(allowed: &[String], clock: &Arc<ManualClock>) -> Web {
    let reach = NetworkPolicy::new(allowed.to_vec()).unwrap();
    Web::new(reach, Arc::clone(clock) as Arc<dyn Clock>).unwrap()
}

/// Runs a built-in tool, with these hosts allowed and a clock that does not advance.
fn run(allowed: &[String], name: &str, input: Value) -> Result<String, String> {
    run_with(gear(allowed, &Arc::default()), name, input)
}

fn run_with(gear: ToolDeps, name: &str, input: Value) -> Result<String, String> {
    let names: Vec<String> = BuiltinTools::names().map(str::to_owned).collect();
    let folder = tempfile::tempdir().unwrap();
    ask(&BuiltinTools::new(&names, gear), name, input, folder.path())
}

fn ask(tools: &dyn Tools, name: &str, input: Value, folder: &Path) -> Result<String, String> {
    let call = ToolCall {
        id: "1".to_owned(),
        name: name.to_owned(),
        input,
    };
    runtime().block_on(tools.run(&call, folder))
}

fn json(result: Result<String, String>) -> Value {
    serde_json::from_str(&result.unwrap()).unwrap()
}

#[track_caller]
fn assert_problem(result: &Result<String, String>, words: &str) {
    let problem = result.as_ref().unwrap_err();
    assert!(problem.contains(words), "{problem}");
}
