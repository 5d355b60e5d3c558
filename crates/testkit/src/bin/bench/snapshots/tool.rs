//! The interface of a snapshot tool, and the two tools that every machine has: tar and git.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::snapshots::process::run;

/// How often the operations after the first checkpoint are measured in a round.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    Several,
    Once,
}

/// In which rounds the first checkpoint and the full restore are measured on a large tree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bulk {
    EveryRound,
    FirstRounds,
}

/// Milliseconds, or the reason of the failure.
pub(crate) type Time = Result<f64, String>;

/// Creates and restores snapshots of a tree. The times cover only the operation itself.
pub(crate) trait SnapshotTool {
    fn name(&self) -> String;

    fn repeat(&self) -> Repeat;

    fn bulk(&self) -> Bulk;

    /// Creates a new store in the new folder `store`.
    fn begin(&mut self, tree: &Path, store: &Path) -> Result<(), String>;

    /// Creates a snapshot of the tree.
    fn snapshot(&mut self, tree: &Path) -> Time;

    /// Restores the latest snapshot into a folder: a new one, or over existing files.
    fn restore(&mut self, into: &Path) -> Time;

    /// Restores the tree in place to the latest snapshot; `None` if the tool can only `restore`
    /// over it.
    fn restore_in_place(&mut self, tree: &Path) -> Option<Time>;

    /// Reads and checks everything in the store.
    fn verify(&mut self) -> Time;

    /// The folder that holds the snapshots.
    fn store(&self) -> PathBuf;

    /// The command that creates a snapshot, to measure its memory; `None` if it consists of several
    /// processes.
    fn snapshot_command(&self, _tree: &Path) -> Option<Command> {
        None
    }

    /// The command that restores; see [`Self::snapshot_command`].
    fn restore_command(&self, _into: &Path) -> Option<Command> {
        None
    }
}

/// `tar` through `zstd -3`.
pub(crate) struct Tar {
    threads: Threads,
    store: PathBuf,
}

/// How `zstd` compresses; it decompresses with one thread in either case.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    One,
    PerCore,
}

impl Tar {
    pub(crate) fn new(threads: Threads) -> Self {
        Self {
            threads,
            store: PathBuf::new(),
        }
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new("tar");
        let zstd = match self.threads {
            Threads::One => "zstd -3",
            Threads::PerCore => "zstd -3 -T0",
        };
        command.args(["-I", zstd, verb]);
        command.arg(self.store.join("tree.tar.zst"));
        command
    }
}

impl SnapshotTool for Tar {
    fn name(&self) -> String {
        match self.threads {
            Threads::One => "tar".into(),
            Threads::PerCore => "tar -T0".into(),
        }
    }

    fn repeat(&self) -> Repeat {
        Repeat::Once
    }

    fn bulk(&self) -> Bulk {
        match self.threads {
            Threads::One => Bulk::EveryRound,
            Threads::PerCore => Bulk::FirstRounds,
        }
    }

    fn begin(&mut self, _: &Path, store: &Path) -> Result<(), String> {
        fs::create_dir(store).unwrap();
        store.clone_into(&mut self.store);
        Ok(())
    }

    fn snapshot(&mut self, tree: &Path) -> Time {
        let mut command = self.command("-cf");
        command.arg("-C").arg(tree).arg(".");
        run(command).map(|ran| ran.time)
    }

    fn restore(&mut self, into: &Path) -> Time {
        let _ = fs::create_dir(into);
        let mut command = self.command("-xf");
        command.arg("-C").arg(into);
        run(command).map(|ran| ran.time)
    }

    fn restore_in_place(&mut self, _: &Path) -> Option<Time> {
        None
    }

    fn verify(&mut self) -> Time {
        let mut command = self.command("-tf");
        command.stdout(Stdio::null());
        run(command).map(|ran| ran.time)
    }

    fn store(&self) -> PathBuf {
        self.store.clone()
    }
}

/// A separate repository beside the tree, as other tools for agents have one.
#[derive(Default)]
pub(crate) struct Git {
    store: PathBuf,
    tree: PathBuf,
    /// The tree of the latest snapshot.
    latest: String,
}

impl Git {
    fn git(&self, words: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .args(words)
            .env("GIT_DIR", &self.store)
            .env("GIT_WORK_TREE", &self.tree)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", &self.store)
            .current_dir(&self.tree);
        command
    }
}

impl SnapshotTool for Git {
    fn name(&self) -> String {
        "shadow git".into()
    }

    fn repeat(&self) -> Repeat {
        Repeat::Several
    }

    fn bulk(&self) -> Bulk {
        Bulk::FirstRounds
    }

    fn begin(&mut self, tree: &Path, store: &Path) -> Result<(), String> {
        store.clone_into(&mut self.store);
        tree.clone_into(&mut self.tree);
        run(self.git(&["init", "-q"]))?;
        // Otherwise git packs in the background, during the next measurement.
        run(self.git(&["config", "gc.auto", "0"])).map(|_| ())
    }

    fn snapshot(&mut self, _: &Path) -> Time {
        // With `-f`: otherwise git excludes what `.gitignore` names, which can be everything in the
        // source of a distribution.
        let added = run(self.git(&["add", "-A", "-f"]))?;
        let written = run(self.git(&["write-tree"]))?;
        written.stdout.trim().clone_into(&mut self.latest);
        Ok(added.time + written.time)
    }

    fn restore(&mut self, into: &Path) -> Time {
        fs::create_dir(into).unwrap();
        // A separate index, so that the index of the tree does not change.
        let index = self.store.join("index.elsewhere");
        let _ = fs::remove_file(&index);
        let mut read = self.git(&["read-tree", "-u", "--reset", &self.latest]);
        read.env("GIT_INDEX_FILE", index)
            .env("GIT_WORK_TREE", into)
            .current_dir(into);
        run(read).map(|ran| ran.time)
    }

    fn restore_in_place(&mut self, _: &Path) -> Option<Time> {
        let back = || {
            let read = run(self.git(&["read-tree", "-u", "--reset", &self.latest]))?;
            let cleaned = run(self.git(&["clean", "-fdxq"]))?;
            Ok(read.time + cleaned.time)
        };
        Some(back())
    }

    fn verify(&mut self) -> Time {
        run(self.git(&["fsck", "--full", "--no-dangling", "--no-progress"])).map(|ran| ran.time)
    }

    fn store(&self) -> PathBuf {
        self.store.clone()
    }
}
