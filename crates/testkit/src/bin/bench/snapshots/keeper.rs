//! Whoever keeps a tree and brings it back: what each can be asked for, and the two that are on
//! every machine, tar and git.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::snapshots::process::run;

/// How often what follows the first checkpoint is measured in a round.
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

/// Milliseconds, or why it could not be done.
pub(crate) type Time = Result<f64, String>;

/// Keeps a tree and brings it back. Only what the operation itself takes is in its time.
pub(crate) trait Keeper {
    fn name(&self) -> String;

    fn repeat(&self) -> Repeat;

    fn bulk(&self) -> Bulk;

    /// Begins a new store in the new folder `store`.
    fn begin(&mut self, tree: &Path, store: &Path) -> Result<(), String>;

    /// Keeps the tree as it is now.
    fn keep(&mut self, tree: &Path) -> Time;

    /// Brings what was kept last into a folder: a new one, or over what is there.
    fn restore(&mut self, into: &Path) -> Time;

    /// Makes the tree what it was when it was kept last; none if only `restore` over it can do so.
    fn undo(&mut self, tree: &Path) -> Option<Time>;

    /// Reads everything that was kept, and checks it.
    fn verify(&mut self) -> Time;

    /// The folder that holds what was kept.
    fn store(&self) -> PathBuf;

    /// Ready to be started, for a look at its memory; none if it is spread over processes.
    fn keeping(&self, _tree: &Path) -> Option<Command> {
        None
    }

    /// As `keeping`.
    fn restoring(&self, _into: &Path) -> Option<Command> {
        None
    }
}

/// `tar` through `zstd -3`.
pub(crate) struct Tar {
    threads: Threads,
    store: PathBuf,
}

/// How `zstd` compresses; it unpacks with one thread in either case.
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

impl Keeper for Tar {
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

    fn keep(&mut self, tree: &Path) -> Time {
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

    fn undo(&mut self, _: &Path) -> Option<Time> {
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

/// A repository of its own beside the tree, as other tools for agents keep one.
#[derive(Default)]
pub(crate) struct Git {
    store: PathBuf,
    tree: PathBuf,
    /// What was kept last.
    kept: String,
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

impl Keeper for Git {
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
        // Otherwise it packs in the background, into the next measurement.
        run(self.git(&["config", "gc.auto", "0"])).map(|_| ())
    }

    fn keep(&mut self, _: &Path) -> Time {
        // By force: otherwise it leaves out what `.gitignore` names, which in the source of a
        // distribution can be everything.
        let added = run(self.git(&["add", "-A", "-f"]))?;
        let written = run(self.git(&["write-tree"]))?;
        written.stdout.trim().clone_into(&mut self.kept);
        Ok(added.time + written.time)
    }

    fn restore(&mut self, into: &Path) -> Time {
        fs::create_dir(into).unwrap();
        // An index of its own, so that the one of the tree stays what it is.
        let index = self.store.join("index.elsewhere");
        let _ = fs::remove_file(&index);
        let mut read = self.git(&["read-tree", "-u", "--reset", &self.kept]);
        read.env("GIT_INDEX_FILE", index)
            .env("GIT_WORK_TREE", into)
            .current_dir(into);
        run(read).map(|ran| ran.time)
    }

    fn undo(&mut self, _: &Path) -> Option<Time> {
        let back = || {
            let read = run(self.git(&["read-tree", "-u", "--reset", &self.kept]))?;
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
