//! The rounds over one tree: all tools do every operation in turn.

use std::path::{Path, PathBuf};

use crate::disk::{Disk, allocated};
use crate::figures::{Bar, Row, Samples, Table};
use crate::snapshots::backup::{Backup, Program};
use crate::snapshots::figures::{Figures, Operation, Series, Size};
use crate::snapshots::ours::Segno;
use crate::snapshots::process::{peak_memory, sync_disk};
use crate::snapshots::tool::{Bulk, Git, Repeat, SnapshotTool, Tar, Threads, Time};
use crate::snapshots::tree::{Remaining, Tree, assert_same};
use crate::snapshots::{limits, walk};
use crate::{Plan, log_progress};

/// How often a short operation is measured in a round; the median counts.
const REPETITIONS: usize = 5;

/// The growth is the median over this many checkpoints.
const GROWTH: usize = 8;

/// One tree and all tools that snapshot it.
pub(crate) struct TreeBench {
    size: Size,
    rounds: usize,
    /// In how many of the rounds the slow tools take part.
    first_rounds: usize,
    tree: Tree,
    /// Where stores and restored trees go.
    folder: PathBuf,
    /// How many paths [`Self::new_path`] has returned.
    path_count: usize,
    ours: Segno,
    others: Vec<Box<dyn SnapshotTool>>,
    figures: Figures,
    /// Measured for Segno only.
    starts: Samples,
    verify_all: Samples,
    growth: Samples,
    /// The tools that failed, and the reasons.
    failed: Vec<(String, String)>,
}

impl TreeBench {
    pub(crate) fn new(
        plan: &Plan,
        size: Size,
        tree: Tree,
        folder: PathBuf,
        programs: &[Program],
    ) -> Self {
        let (rounds, first_rounds) = match (size, plan.quick) {
            (Size::Small, false) => (9, 9),
            (Size::Small, true) | (Size::Medium, false) => (5, 2),
            (Size::Medium, true) | (Size::Large, _) => (3, 1),
        };
        let mut others: Vec<Box<dyn SnapshotTool>> = vec![
            Box::new(Tar::new(Threads::One)),
            Box::new(Tar::new(Threads::PerCore)),
            Box::new(Git::default()),
        ];
        for program in programs {
            others.push(Box::new(Backup::new(program.clone())));
        }
        Self {
            size,
            rounds,
            first_rounds,
            tree,
            folder,
            path_count: 0,
            ours: Segno::new(plan),
            others,
            figures: Figures::default(),
            starts: Samples::default(),
            verify_all: Samples::default(),
            growth: Samples::default(),
            failed: Vec::new(),
        }
    }

    pub(crate) fn measure(mut self, disk: &mut Disk, table: &mut Table) {
        log_progress("    memory, and whether the restored tree is equal");
        self.measure_memory();
        for round in 0..self.rounds {
            log_progress(&format!("    round {} of {}", round + 1, self.rounds));
            disk.probe();
            self.create_first(round);
            self.verify();
            self.snapshot_unchanged();
            self.snapshot_changed();
            self.in_place();
            self.restore(round);
        }
        let time = self.ours.verify_all();
        self.verify_all
            .push(time.expect("segno verifies all checkpoints"));
        self.measure_growth();
        self.restore_over();
        self.tabulate(table);
    }

    /// Measures the memory of tools that are one process; and checks once that Segno restores
    /// everything.
    fn measure_memory(&mut self) {
        let mut measure = |bench: &mut Self, series: Series, tool: &mut dyn SnapshotTool| {
            let (store, into) = (bench.new_path("store"), bench.new_path("restored"));
            let measured = measure_memory(tool, &bench.tree.root, &store, &into);
            if series == Series::Ours {
                assert!(
                    measured.is_ok(),
                    "segno takes a snapshot of the tree: {measured:?}"
                );
                assert_same(&bench.tree.root, &into);
            }
            let parts = measured.map(Option::unzip);
            let (snapshot_memory, restore_memory) = match parts {
                Ok(parts) => parts,
                Err(reason) => return bench.failed.push((tool.name(), reason)),
            };
            for (operation, sample) in [
                (Operation::KeepMemory, snapshot_memory),
                (Operation::RestoreMemory, restore_memory),
            ] {
                if let Some(sample) = sample {
                    bench.figures.push(operation, series.clone(), sample);
                }
            }
        };
        self.for_each_tool(&mut measure);
    }

    /// Creates a new store for all fast tools; the slow ones reuse theirs in later rounds.
    fn create_first(&mut self, round: usize) {
        let all_tools = round < self.first_rounds;
        self.for_each_tool(&mut |bench, series, tool| {
            if !all_tools && tool.bulk() == Bulk::FirstRounds {
                return;
            }
            let store = bench.new_path("store");
            let begun = tool.begin(&bench.tree.root, &store);
            sync_disk(&bench.folder);
            let time = begun.and_then(|()| tool.snapshot(&bench.tree.root));
            bench.add_sample(Operation::First, series.clone(), time);
            let megabytes = allocated(&tool.store()) as f64 / 1e6;
            bench.add_sample(Operation::Store, series, Ok(megabytes));
        });
        let root = &self.tree.root;
        let files = limits::files(&walk::walk(root));
        for (name, time) in [
            ("read", limits::read(root, &files)),
            ("BLAKE3", limits::hash(root, &files)),
            ("zstd-3", limits::compress(root, &files)),
        ] {
            let series = Series::Limit(name);
            self.figures.push(Operation::First, series, time);
        }
    }

    /// Runs before anything else is in the stores, so that all tools read about the same amount.
    fn verify(&mut self) {
        self.for_each_tool(&mut |bench, series, tool| {
            let time = tool.verify();
            bench.add_sample(Operation::Verify, series, time);
        });
    }

    fn snapshot_unchanged(&mut self) {
        let (mut walks, mut starts) = (Samples::default(), Samples::default());
        self.repeat(Operation::Unchanged, &mut |bench| {
            walks.push(limits::stat(&bench.tree.root));
            starts.push(bench.ours.version().expect("segno prints its version"));
        });
        let series = Series::Limit("stat walk");
        self.figures
            .push(Operation::Unchanged, series, walks.median());
        self.starts.push(starts.median());
    }

    fn snapshot_changed(&mut self) {
        self.repeat(Operation::Changed, &mut |bench| {
            bench.tree.make_change();
        });
    }

    /// Creates several snapshots of the tree and calls `before` ahead of each one. The median
    /// counts.
    fn repeat(&mut self, operation: Operation, before: &mut dyn FnMut(&mut Self)) {
        let mut times: Vec<(Series, Samples)> = Vec::new();
        for turn in 0..REPETITIONS {
            before(self);
            self.for_each_tool(&mut |bench, series, tool| {
                if turn > 0 && tool.repeat() == Repeat::Once {
                    return;
                }
                sync_disk(&bench.folder);
                match tool.snapshot(&bench.tree.root) {
                    Ok(time) => match times.iter_mut().find(|(one, _)| *one == series) {
                        Some((_, samples)) => samples.push(time),
                        None => times.push((series, Samples(vec![time]))),
                    },
                    failed @ Err(_) => bench.add_sample(operation, series, failed),
                }
            });
        }
        for (series, samples) in times {
            self.figures.push(operation, series, samples.median());
        }
    }

    /// Restores the tree in place to the latest snapshot, after ten files were edited and five
    /// added.
    fn in_place(&mut self) {
        self.for_each_tool(&mut |bench, series, tool| {
            let mut times = Samples::default();
            for _ in 0..REPETITIONS {
                let change = bench.tree.make_change();
                sync_disk(&bench.folder);
                let undone = tool.restore_in_place(&bench.tree.root);
                let left = bench.tree.revert(&change);
                match undone {
                    None => return,
                    Some(Err(_)) => {}
                    Some(Ok(_)) if left != Remaining::Nothing => {
                        assert!(
                            series != Series::Ours,
                            "the restore undoes all changes: {left:?}"
                        );
                    }
                    Some(Ok(time)) => times.push(time),
                }
            }
            let median = times.median();
            let time = if median.is_nan() {
                Err("it did not undo the changes".into())
            } else {
                Ok(median)
            };
            bench.add_sample(Operation::InPlace, series, time);
        });
    }

    /// Restores into a new folder each time; nothing is deleted before the end.
    fn restore(&mut self, round: usize) {
        let all_tools = round < self.first_rounds;
        self.for_each_tool(&mut |bench, series, tool| {
            if !all_tools && tool.bulk() == Bulk::FirstRounds {
                return;
            }
            let into = bench.new_path("restored");
            sync_disk(&bench.folder);
            let time = tool.restore(&into);
            let sync = sync_disk(&bench.folder);
            if let (Ok(time), Series::Other(name)) = (&time, &series) {
                let synced = Series::Synced(name.clone());
                bench.add_sample(Operation::Restore, synced, Ok(time + sync));
            }
            bench.add_sample(Operation::Restore, series, time);
        });
        let into = self.new_path("restored");
        let all = walk::walk(&self.tree.root);
        sync_disk(&self.folder);
        let written = limits::write(&into, &all);
        let synced = written + sync_disk(&self.folder);
        for (name, time) in [("write", written), ("write, then sync", synced)] {
            let series = Series::Limit(name);
            self.figures.push(Operation::Restore, series, time);
        }
    }

    /// Measures how much ten edits add to Segno's disk usage.
    fn measure_growth(&mut self) {
        let mut before = None;
        for _ in 0..=GROWTH {
            self.tree.edit();
            self.ours
                .snapshot(&self.tree.root)
                .expect("segno takes a snapshot");
            sync_disk(&self.folder);
            let now = allocated(&self.ours.home()) as f64 / 1024.0;
            if let Some(before) = before.replace(now) {
                self.growth.push(now - before);
            }
        }
    }

    /// Runs last: tar restores by writing everything again over its own copy of the tree, and frees
    /// all inodes of that copy.
    fn restore_over(&mut self) {
        let mut tar = Tar::new(Threads::One);
        let (store, into) = (self.new_path("store"), self.new_path("restored"));
        let latest = tar
            .begin(&self.tree.root, &store)
            .and_then(|()| tar.snapshot(&self.tree.root));
        let mut time = latest.and_then(|_| tar.restore(&into));
        for _ in 0..self.first_rounds {
            if time.is_ok() {
                self.tree.edit_in(&into);
                sync_disk(&self.folder);
                time = tar.restore(&into);
                let series = Series::Other(tar.name());
                self.add_sample(Operation::InPlace, series, time.clone());
            }
        }
    }

    /// Calls `turn` for every tool, Segno first, and drops the tools that failed.
    fn for_each_tool(&mut self, turn: &mut dyn FnMut(&mut Self, Series, &mut dyn SnapshotTool)) {
        let mut ours = std::mem::take(&mut self.ours);
        turn(self, Series::Ours, &mut ours);
        self.ours = ours;
        let mut others = std::mem::take(&mut self.others);
        for other in &mut others {
            let series = Series::Other(other.name());
            turn(self, series, other.as_mut());
        }
        let failed = |name: &str| self.failed.iter().any(|(one, _)| one == name);
        others.retain(|other| !failed(&other.name()));
        self.others = others;
    }

    /// Adds a sample; panics if Segno failed.
    fn add_sample(&mut self, operation: Operation, series: Series, time: Time) {
        match (time, series) {
            (Ok(sample), series) => self.figures.push(operation, series, sample),
            (Err(reason), Series::Other(name)) => self.failed.push((name, reason)),
            (Err(reason), _) => panic!("segno failed: {reason}"),
        }
    }

    /// A new path for a store or a tree.
    fn new_path(&mut self, what: &str) -> PathBuf {
        self.path_count += 1;
        self.folder.join(format!("{what}-{}", self.path_count))
    }

    fn tabulate(self, table: &mut Table) {
        self.figures.tabulate(self.size, table);
        let name = |what: &str| format!("{}: {what}", self.size.name());
        let row = Row::single("f", name("growth per 10 edits"), "KiB", self.growth);
        table.add(row.bar(Bar::AtMost(16.0)));
        let what = name("verification of all checkpoints, one by one");
        table.add(Row::single("f", what, "ms", self.verify_all));
        let what = name("`segno --version`");
        table.add(Row::single("f", what, "ms", self.starts));
        for (name, reason) in self.failed {
            table.note(format!("{name} was not measured completely: {reason}"));
        }
    }
}

/// The megabytes of creating and restoring a snapshot; `None` if the tool is not one process.
fn measure_memory(
    tool: &mut dyn SnapshotTool,
    tree: &Path,
    store: &Path,
    into: &Path,
) -> Result<Option<(f64, f64)>, String> {
    tool.begin(tree, store)?;
    let Some(snapshot_command) = tool.snapshot_command(tree) else {
        return Ok(None);
    };
    let snapshot_memory = peak_memory(snapshot_command)?;
    // Once more through the tool, so that it knows its latest snapshot.
    tool.snapshot(tree)?;
    let Some(restore_command) = tool.restore_command(into) else {
        return Ok(None);
    };
    Ok(Some((snapshot_memory, peak_memory(restore_command)?)))
}
