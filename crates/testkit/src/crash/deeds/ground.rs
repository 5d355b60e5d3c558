//! A home with a session and its checkpoints, made once for each deed and brought back before every
//! disturbance. It stays in one place, because sessions know their folder by its path.

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

use super::deed::Deed;
use super::tree;
use crate::clock::HandClock;
use crate::picture::Picture;
use crate::sandbox::{Sandbox, finish, memory};

/// What a deed may find beside the home. Nothing but its target changes.
const FOLDERS: [&str; 3] = ["work", "elsewhere", "outside"];

/// How long checkpoints that were let go of can be had back, and a bit.
const LONG_AGO: Duration = Duration::from_hours(8 * 24);

/// Which checkpoints there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) listed: BTreeSet<String>,
    pub(super) pruned: BTreeSet<String>,
}

impl Standing {
    /// Those that can be used, now or after they were had back.
    pub(super) fn all(&self) -> BTreeSet<String> {
        self.listed.union(&self.pruned).cloned().collect()
    }
}

/// A place where a deed can be done again and again.
pub struct Ground {
    pub(super) deed: Deed,
    pub(super) sandbox: Sandbox,
    spare: TempDir,
    /// What each checkpoint should come back as.
    pub(super) pictures: BTreeMap<String, Picture>,
    /// The folders before the deed.
    pub(super) folders: BTreeMap<&'static str, Picture>,
    /// The checkpoints before the deed, in the order in which they were taken.
    pub(super) taken: Vec<String>,
    pub(super) start: Standing,
}

impl Ground {
    /// Makes everything that `deed` needs.
    pub fn new(binary: &Path, deed: Deed) -> Self {
        let sandbox = Sandbox::in_memory(binary);
        let mut ground = Self {
            deed,
            sandbox,
            spare: memory(),
            pictures: BTreeMap::new(),
            folders: BTreeMap::new(),
            taken: Vec::new(),
            start: Standing::default(),
        };
        ground
            .sandbox
            .write("../outside/file", "nobody's business\n");
        ground.sandbox.scripted_chain(2, 0);
        tree::turn(&ground.sandbox, 0);
        ground.sandbox.segno(&["run", "chain.yaml"]).good();
        match deed {
            Deed::First => {}
            Deed::Gc => ground.waste(),
            _ => ground.take_some(3),
        }
        match deed {
            Deed::Elsewhere => ground.furnish_elsewhere(),
            Deed::Undo => {
                ground
                    .sandbox
                    .segno(&["checkpoint", "prune", "--keep", "1"])
                    .good();
            }
            _ => {}
        }
        ground.start = ground.standing().unwrap();
        for name in FOLDERS {
            ground
                .folders
                .insert(name, Picture::of(&ground.beside(name)));
        }
        ground.put_by();
        ground
    }

    /// Some checkpoints, each of an edited workspace, which is then edited once more.
    fn take_some(&mut self, count: u64) {
        for generation in 1..=count {
            self.take();
            tree::turn(&self.sandbox, generation);
        }
    }

    /// Takes one checkpoint.
    pub(super) fn take(&mut self) -> String {
        let said = self
            .sandbox
            .segno(&["checkpoint", "create", "--json"])
            .good();
        let id = said.json()[0]["checkpoint"].as_str().unwrap().to_owned();
        let picture = Picture::of(&self.sandbox.work());
        self.pictures.insert(id.clone(), picture);
        self.taken.push(id.clone());
        id
    }

    /// Something for every part of a sweep: one checkpoint whose files wait for their end, two that
    /// are to be erased, one that can still be had back, and two that are listed.
    fn waste(&mut self) {
        self.take_some(6);
        let taken = self.taken.clone();
        self.let_go(&taken[..1], LONG_AGO);
        self.age();
        self.sandbox.segno(&["gc", "--grace-hours", "0"]).good();
        self.let_go(&taken[1..3], LONG_AGO);
        self.let_go(&taken[3..4], Duration::ZERO);
        self.age();
    }

    /// Another folder, with files that a checkpoint has and files that none has.
    fn furnish_elsewhere(&mut self) {
        let id = self.taken[1].clone();
        let words = ["checkpoint", "restore", &id, "--into", "../elsewhere"];
        self.sandbox.segno(&words).good();
        self.sandbox
            .write("../elsewhere/notes/2", "somebody's own words\n");
        self.sandbox
            .write("../elsewhere/own/work", "nobody else has this\n");
    }

    /// Marks checkpoints as let go of so long ago.
    pub(super) fn let_go(&self, checkpoints: &[String], ago: Duration) {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap();
        let at = now.checked_sub(ago).unwrap();
        let at = Timestamp(i64::try_from(at.as_millis()).unwrap());
        let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
        let home = Home::open(self.sandbox.home(), disk).unwrap();
        let store = Sqlite::open(home, Arc::<HandClock>::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            for manifest in store.kept(None).await.unwrap() {
                let manifest = manifest.unwrap();
                if checkpoints.contains(&manifest.id.to_string()) {
                    let pruned = Some(at);
                    // There is a key already: this one is not used.
                    let key = [0; 32];
                    store
                        .keep(Manifest { pruned, ..manifest }, key)
                        .await
                        .unwrap();
                }
            }
        });
    }

    /// Makes every snapshot old enough to go when nothing names it.
    pub(super) fn age(&self) {
        let long_ago = SystemTime::now() - Duration::from_hours(2);
        for head in fs::read_dir(self.vault().join("heads")).unwrap() {
            let head = File::options().write(true).open(head.unwrap().path());
            head.unwrap().set_modified(long_ago).unwrap();
        }
    }

    /// Where snapshots are kept.
    pub(super) fn vault(&self) -> PathBuf {
        self.sandbox.home().join("snapshots")
    }

    /// A folder beside the workspace.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.sandbox.work().with_file_name(name)
    }

    /// The folder that everything is in.
    pub(super) fn root(&self) -> PathBuf {
        self.beside("")
    }

    /// Where everything is as it was before the deed.
    pub(super) fn spare(&self) -> &Path {
        self.spare.path()
    }

    /// The folder that the deed writes into, as it was and as it shall be.
    pub(super) fn aim(&self) -> Option<(PathBuf, Picture, &Picture)> {
        let name = self.deed.target()?;
        let old = self.folders.get(name).cloned().unwrap_or_default();
        Some((self.beside(name), old, &self.pictures[&self.taken[0]]))
    }

    /// The command.
    pub(super) fn words(&self) -> Vec<&str> {
        let first = || self.taken[0].as_str();
        match self.deed {
            Deed::First | Deed::Create => vec!["checkpoint", "create", "--json"],
            Deed::Restore => vec!["checkpoint", "restore", first(), "--exact"],
            Deed::Elsewhere => {
                let into = "../elsewhere";
                vec!["checkpoint", "restore", first(), "--exact", "--into", into]
            }
            Deed::Afresh => vec!["checkpoint", "restore", first(), "--into", "../afresh"],
            Deed::Prune => vec!["checkpoint", "prune", "--keep", "1"],
            Deed::Undo => vec!["checkpoint", "prune", "--undo"],
            Deed::Gc => vec!["gc", "--grace-hours", "0"],
        }
    }

    fn put_by(&self) {
        for name in FOLDERS.iter().chain(&["home"]) {
            let from = self.beside(name);
            if from.exists() {
                copy(&from, &self.spare().join(name));
            }
        }
    }

    /// Brings everything back as it was before the deed.
    pub(super) fn reset(&self) {
        self.clear();
        copy(&self.spare().join("."), &self.root());
    }

    /// Removes everything.
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
    pub(super) fn standing(&self) -> Result<Standing, String> {
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
        Ok(Standing {
            listed: ask("--all")?,
            pruned: ask("--pruned")?,
        })
    }
}

/// Copies a folder with all that belongs to its files.
pub(super) fn copy(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    command.arg("-a").arg(from).arg(to);
    finish(command).good();
}
