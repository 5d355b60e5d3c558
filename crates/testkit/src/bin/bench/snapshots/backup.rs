//! Backup programs: restic, borg and rustic, as `bench/peers/snapshots` finds or fetches them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::snapshots::process::run;
use crate::snapshots::tool::{Bulk, Repeat, SnapshotTool, Time};

/// What `bench/peers/snapshots` found or fetched.
#[derive(Default)]
pub(crate) struct Fetched {
    pub(crate) programs: Vec<Program>,
    /// A real source tree: its name and its path.
    pub(crate) tree: Option<(String, PathBuf)>,
    /// Why something is not available.
    pub(crate) reasons: Vec<String>,
}

/// A backup program on this machine.
#[derive(Clone)]
pub(crate) struct Program {
    kind: Kind,
    version: String,
    path: String,
    environment: BTreeMap<String, String>,
}

#[derive(Clone, Copy)]
enum Kind {
    Restic,
    Borg,
    Rustic,
}

/// What to fetch into the peers' folder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    Programs,
    ProgramsAndTree,
}

/// Fetches what is not in `folder` yet.
pub(crate) fn fetch(folder: &Path, want: Want) -> Fetched {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/peers/snapshots");
    let mut command = Command::new("python3");
    command.arg(script).arg(folder).stderr(Stdio::null());
    if want == Want::ProgramsAndTree {
        command.arg("--tree");
    }
    let mut fetched = Fetched::default();
    let said = match run(command) {
        Ok(ran) => ran.stdout,
        Err(reason) => {
            fetched.reasons.push(reason);
            return fetched;
        }
    };
    for line in said.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let word = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        if let Some(reason) = line["error"].as_str() {
            let name = word("peer") + &word("tree");
            fetched
                .reasons
                .push(format!("{name} was not measured: {reason}"));
        } else if line["tree"].is_string() {
            fetched.tree = Some((word("tree"), word("path").into()));
        } else if let Some(kind) = Kind::named(&word("peer")) {
            fetched.programs.push(Program {
                kind,
                version: word("version"),
                path: word("program"),
                environment: serde_json::from_value(line["environment"].clone()).unwrap(),
            });
        }
    }
    fetched
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        match name {
            "restic" => Some(Self::Restic),
            "borg" => Some(Self::Borg),
            "rustic" => Some(Self::Rustic),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Restic => "restic",
            Self::Borg => "borg",
            Self::Rustic => "rustic",
        }
    }
}

/// A repository of a backup program.
pub(crate) struct Backup {
    program: Program,
    store: PathBuf,
    tree: PathBuf,
    /// How many snapshots were created.
    count: usize,
}

impl Backup {
    pub(crate) fn new(program: Program) -> Self {
        Self {
            program,
            store: PathBuf::new(),
            tree: PathBuf::new(),
            count: 0,
        }
    }

    /// A command that runs the program in `folder`, with its cache and settings beside the
    /// repository.
    fn command(&self, folder: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program.path);
        let repository = self.store.join("repository");
        let password = "not a secret";
        command
            .envs(&self.program.environment)
            .env("HOME", &self.store)
            .env("RESTIC_REPOSITORY", &repository)
            .env("RESTIC_PASSWORD", password)
            .env("RESTIC_CACHE_DIR", self.store.join("cache"))
            .env("RUSTIC_REPOSITORY", &repository)
            .env("RUSTIC_PASSWORD", password)
            .env("RUSTIC_CACHE_DIR", self.store.join("cache"))
            .env("RUSTIC_NO_PROGRESS", "true")
            .env("BORG_REPO", &repository)
            .env("BORG_BASE_DIR", &self.store)
            .args(words)
            .current_dir(folder);
        command
    }

    fn archive(&self) -> String {
        format!("::{}", self.count)
    }
}

impl SnapshotTool for Backup {
    fn name(&self) -> String {
        format!("{} {}", self.program.kind.name(), self.program.version)
    }

    fn repeat(&self) -> Repeat {
        Repeat::Once
    }

    fn bulk(&self) -> Bulk {
        Bulk::FirstRounds
    }

    fn begin(&mut self, tree: &Path, store: &Path) -> Result<(), String> {
        fs::create_dir(store).unwrap();
        store.clone_into(&mut self.store);
        tree.clone_into(&mut self.tree);
        self.count = 0;
        let words: &[&str] = match self.program.kind {
            Kind::Restic | Kind::Rustic => &["init"],
            Kind::Borg => &["init", "--encryption", "none"],
        };
        run(self.command(tree, words)).map(|_| ())
    }

    fn snapshot(&mut self, tree: &Path) -> Time {
        self.count += 1;
        run(self
            .snapshot_command(tree)
            .expect("the tool takes a snapshot in one process"))
        .map(|ran| ran.time)
    }

    fn restore(&mut self, into: &Path) -> Time {
        run(self
            .restore_command(into)
            .expect("the tool takes a snapshot in one process"))
        .map(|ran| ran.time)
    }

    fn restore_in_place(&mut self, _: &Path) -> Option<Time> {
        None
    }

    fn verify(&mut self) -> Time {
        let words: &[&str] = match self.program.kind {
            Kind::Restic | Kind::Rustic => &["check", "--read-data"],
            Kind::Borg => &["check", "--verify-data"],
        };
        run(self.command(&self.store, words)).map(|ran| ran.time)
    }

    fn store(&self) -> PathBuf {
        self.store.join("repository")
    }

    fn snapshot_command(&self, tree: &Path) -> Option<Command> {
        let archive = self.archive();
        let words: &[&str] = match self.program.kind {
            Kind::Restic => &["backup", "--quiet", "."],
            Kind::Rustic => &["backup", "."],
            Kind::Borg => &["create", "--compression", "zstd,3", &archive, "."],
        };
        Some(self.command(tree, words))
    }

    fn restore_command(&self, into: &Path) -> Option<Command> {
        // Borg writes into its working directory.
        let _ = fs::create_dir(into);
        let archive = self.archive();
        let target = into.to_str()?;
        let words: &[&str] = match self.program.kind {
            Kind::Restic => &["restore", "--quiet", "latest", "--target", target],
            Kind::Rustic => &["restore", "latest", target],
            Kind::Borg => &["extract", &archive],
        };
        Some(self.command(into, words))
    }
}
