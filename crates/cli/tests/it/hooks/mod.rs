//! Hooks in the settings of CLI agents: the real binary installs and removes them, the real Claude
//! Code and the real Codex run them.

#![expect(
    clippy::disallowed_methods,
    reason = "a test changes the settings of programs as anyone might"
)]

mod agents;
mod event;
mod settings;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use segno_testkit::sandbox::{ProcessOutput, Sandbox, run_to_end};
use serde_json::Value;

use crate::sandbox;

const ID: &str = "5e550000-0000-4000-8000-000000000001";

/// The binary, and Claude Code's configuration folder.
struct Fixture {
    sandbox: Sandbox,
}

impl Fixture {
    fn new() -> Self {
        let sandbox = sandbox();
        fs::create_dir(sandbox.work().join("claude")).unwrap();
        Self { sandbox }
    }

    fn root(&self) -> PathBuf {
        self.sandbox.work().join("claude")
    }

    fn file(&self) -> PathBuf {
        self.root().join("settings.json")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.sandbox.command(words);
        command.env("CLAUDE_CONFIG_DIR", self.root());
        command
    }

    fn segno(&self, words: &[&str]) -> ProcessOutput {
        run_to_end(self.command(words))
    }

    fn install(&self) -> String {
        self.segno(&["agents", "hooks", "install", "claude"])
            .expect_success();
        self.text()
    }

    fn uninstall(&self) -> String {
        self.segno(&["agents", "hooks", "uninstall", "claude"])
            .expect_success();
        self.text()
    }

    fn status(&self) -> Value {
        let output = self
            .segno(&["agents", "hooks", "status", "claude", "--json"])
            .expect_success();
        output.json().remove(0)
    }

    fn write(&self, text: &str) {
        fs::write(self.file(), text).unwrap();
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }
}

/// The commands that a settings file has for an event.
fn commands(text: &str, event: &str) -> Vec<String> {
    let all: Value = serde_json::from_str(text).unwrap();
    let groups = all["hooks"][event].as_array().cloned().unwrap_or_default();
    let hooks = groups
        .iter()
        .flat_map(|group| group["hooks"].as_array().cloned().unwrap_or_default());
    hooks
        .map(|hook| hook["command"].as_str().unwrap().to_owned())
        .collect()
}

/// The spool files that hooks wrote into a home.
fn spool_files(home: &Path) -> Vec<Value> {
    let Ok(entries) = fs::read_dir(home.join("spool")) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: PathBuf| serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    paths.into_iter().map(read).collect()
}
