//! A home with a session and its checkpoints, built once for each command and restored before every
//! disturbance. It always has the same path, because sessions store the path of their workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use segno_core::checkpoint::Manifest;
use segno_core::ports::Disk;
use segno_core::store::Checkpoints;
use segno_core::time::Timestamp;
use segno_store::{Home, LocalDisk, Sqlite};
use tempfile::TempDir;

use super::operation::Operation;
use super::tree;
use crate::clock::ManualClock;
use crate::sandbox::{Sandbox, memory_dir, run_to_end};
use crate::tree_state::TreeState;

/// The folders beside the home. A command changes none of them but its target.
const FOLDERS: [&str; 3] = ["work", "elsewhere", "outside"];

/// A little longer than pruned checkpoints can be restored.
const LONG_AGO: Duration = Duration::from_hours(8 * 24);

/// Which checkpoints there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CheckpointList {
    pub(super) listed: BTreeSet<String>,
    pub(super) pruned: BTreeSet<String>,
}

impl CheckpointList {
    /// Those that can be restored, directly or after a prune was undone.
    pub(super) fn all(&self) -> BTreeSet<String> {
        self.listed.union(&self.pruned).cloned().collect()
    }
}

/// A fixture in which a command can be repeated from the same state.
pub struct Fixture {
    pub(super) operation: Operation,
    pub(super) sandbox: Sandbox,
    saved_copy: TempDir,
    /// The expected content of each checkpoint.
    pub(super) expected_states: BTreeMap<String, TreeState>,
    /// The folders before the command.
    pub(super) folders: BTreeMap<&'static str, TreeState>,
    /// The checkpoints before the command, in the order in which they were created.
    pub(super) created: Vec<String>,
    pub(super) start: CheckpointList,
}

impl Fixture {
    /// Builds everything that `operation` needs.
    pub fn new(binary: &Path, operation: Operation) -> Self {
        let sandbox = Sandbox::in_memory(binary);
        let mut fixture = Self {
            operation,
            sandbox,
            saved_copy: memory_dir(),
            expected_states: BTreeMap::new(),
            folders: BTreeMap::new(),
            created: Vec::new(),
            start: CheckpointList::default(),
        };
        fixture
            .sandbox
            .write("../outside/file", "nobody's business\n");
        fixture.sandbox.scripted_chain(2, 0);
        tree::next_generation(&fixture.sandbox, 0);
        fixture
            .sandbox
            .segno(&["run", "chain.yaml"])
            .expect_success();
        match operation {
            Operation::First => {}
            Operation::Gc => fixture.prepare_sweep(),
            _ => fixture.create_checkpoints(3),
        }
        match operation {
            Operation::Elsewhere => fixture.prepare_elsewhere(),
            Operation::Undo => {
                fixture
                    .sandbox
                    .segno(&["checkpoint", "prune", "--keep", "1"])
                    .expect_success();
            }
            _ => {}
        }
        fixture.start = fixture.list_checkpoints().unwrap();
        for name in FOLDERS {
            fixture
                .folders
                .insert(name, TreeState::of(&fixture.beside(name)));
        }
        fixture.save_copy();
        fixture
    }

    /// Creates several checkpoints, each of an edited workspace, and edits it once more.
    fn create_checkpoints(&mut self, count: u64) {
        for generation in 1..=count {
            self.create_checkpoint();
            tree::next_generation(&self.sandbox, generation);
        }
    }

    /// Creates one checkpoint.
    pub(super) fn create_checkpoint(&mut self) -> String {
        let said = self
            .sandbox
            .segno(&["checkpoint", "create", "--json"])
            .expect_success();
        let id = said.json()[0]["checkpoint"].as_str().unwrap().to_owned();
        let tree_state = TreeState::of(&self.sandbox.work());
        self.expected_states.insert(id.clone(), tree_state);
        self.created.push(id.clone());
        id
    }

    /// Something for every part of a sweep: one checkpoint whose files wait for deletion, two to be
    /// erased, one whose prune can still be undone, and two that are listed.
    fn prepare_sweep(&mut self) {
        self.create_checkpoints(6);
        let created = self.created.clone();
        self.mark_pruned(&created[..1], LONG_AGO);
        self.age_snapshots();
        self.sandbox
            .segno(&["doctor", "--gc", "--grace-hours", "0"])
            .expect_success();
        self.mark_pruned(&created[1..3], LONG_AGO);
        self.mark_pruned(&created[3..4], Duration::ZERO);
        self.age_snapshots();
    }

    /// Another folder, with files that a checkpoint has and files that none has.
    fn prepare_elsewhere(&mut self) {
        let id = self.created[1].clone();
        let words = ["checkpoint", "restore", &id, "--into", "../elsewhere"];
        self.sandbox.segno(&words).expect_success();
        self.sandbox
            .write("../elsewhere/notes/2", "somebody's own words\n");
        self.sandbox
            .write("../elsewhere/own/work", "nobody else has this\n");
    }

    /// Marks checkpoints as pruned `ago`.
    pub(super) fn mark_pruned(&self, checkpoints: &[String], ago: Duration) {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap();
        let at = now.checked_sub(ago).unwrap();
        let at = Timestamp(i64::try_from(at.as_millis()).unwrap());
        let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
        let home = Home::open(self.sandbox.home(), disk).unwrap();
        let store = Sqlite::open(home, Arc::<ManualClock>::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            for manifest in store.list_checkpoints(None).await.unwrap() {
                let manifest = manifest.unwrap();
                if checkpoints.contains(&manifest.id.to_string()) {
                    let pruned = Some(at);
                    // There is a key already: this one is not used.
                    let key = [0; 32];
                    store
                        .put_checkpoint(Manifest { pruned, ..manifest }, key)
                        .await
                        .unwrap();
                }
            }
        });
    }

    /// Makes every snapshot old enough to be deleted when no checkpoint references it.
    pub(super) fn age_snapshots(&self) {
        let long_ago = SystemTime::now() - Duration::from_hours(2);
        for head in fs::read_dir(self.snapshot_store().join("heads")).unwrap() {
            let head = File::options().write(true).open(head.unwrap().path());
            head.unwrap().set_modified(long_ago).unwrap();
        }
    }

    /// The folder of the snapshot store.
    pub(super) fn snapshot_store(&self) -> PathBuf {
        self.sandbox.home().join("snapshots")
    }

    /// A folder beside the workspace.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.sandbox.work().with_file_name(name)
    }

    /// The folder that contains everything.
    pub(super) fn root(&self) -> PathBuf {
        self.beside("")
    }

    /// A copy of everything as it was before the command.
    pub(super) fn saved_copy(&self) -> &Path {
        self.saved_copy.path()
    }

    /// The folder that the command writes into, in its old and its expected new state.
    pub(super) fn target_states(&self) -> Option<(PathBuf, TreeState, &TreeState)> {
        let name = self.operation.target()?;
        let old = self.folders.get(name).cloned().unwrap_or_default();
        Some((
            self.beside(name),
            old,
            &self.expected_states[&self.created[0]],
        ))
    }

    /// The arguments of the command.
    pub(super) fn args(&self) -> Vec<&str> {
        let first = || self.created[0].as_str();
        match self.operation {
            Operation::First | Operation::Create => vec!["checkpoint", "create", "--json"],
            Operation::Restore => vec!["checkpoint", "restore", first(), "--exact"],
            Operation::Elsewhere => {
                let into = "../elsewhere";
                vec!["checkpoint", "restore", first(), "--exact", "--into", into]
            }
            Operation::Afresh => vec!["checkpoint", "restore", first(), "--into", "../afresh"],
            Operation::Prune => vec!["checkpoint", "prune", "--keep", "1"],
            Operation::Undo => vec!["checkpoint", "prune", "--undo"],
            Operation::Gc => vec!["doctor", "--gc", "--grace-hours", "0"],
        }
    }

    fn save_copy(&self) {
        for name in FOLDERS.iter().chain(&["home"]) {
            let from = self.beside(name);
            if from.exists() {
                copy(&from, &self.saved_copy().join(name));
            }
        }
    }

    /// Restores everything as it was before the command.
    pub(super) fn reset(&self) {
        self.clear();
        copy(&self.saved_copy().join("."), &self.root());
    }

    /// Deletes everything.
    pub(super) fn clear(&self) {
        for entry in fs::read_dir(self.root()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                fs::remove_dir_all(path).unwrap();
            } else {
                fs::remove_file(path).unwrap();
            }
        }
    }

    /// Which checkpoints there are; or what is wrong with the answer.
    pub(super) fn list_checkpoints(&self) -> Result<CheckpointList, String> {
        let ask = |which: &str| {
            let said = self.sandbox.segno(&["checkpoint", "list", which, "--json"]);
            let lines = said.stdout.lines();
            let lines: Vec<serde_json::Value> = lines
                .map(|line| serde_json::from_str(line).unwrap_or_default())
                .collect();
            let is_one = |line: &serde_json::Value| line["kind"] == "checkpoint";
            if !said.status.success() || !lines.iter().all(is_one) {
                return Err(format!("checkpoint list {which}: {said:?}"));
            }
            let id = |line: &serde_json::Value| line["checkpoint"].as_str().map(str::to_owned);
            Ok(lines.iter().filter_map(id).collect())
        };
        Ok(CheckpointList {
            listed: ask("--all")?,
            pruned: ask("--pruned")?,
        })
    }
}

/// Copies a folder with the metadata of its files.
pub(super) fn copy(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    command.arg("-a").arg(from).arg(to);
    run_to_end(command).expect_success();
}
