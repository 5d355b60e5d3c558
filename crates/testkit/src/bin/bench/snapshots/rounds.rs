//! The rounds over one tree: every operation by everybody in turns.

use std::path::{Path, PathBuf};

use crate::disk::{Disk, allocated};
use crate::figures::{Bar, Row, Samples, Table};
use crate::snapshots::backup::{Backup, Program};
use crate::snapshots::figures::{Figures, Operation, Size, Who};
use crate::snapshots::keeper::{Bulk, Git, Keeper, Repeat, Tar, Threads, Time};
use crate::snapshots::ours::Segno;
use crate::snapshots::process::{peak, settle};
use crate::snapshots::tree::{Left, Tree, assert_same};
use crate::snapshots::{limits, walk};
use crate::{Plan, tell};

/// How often a short operation is measured in a round; the median counts.
const SEVERAL: usize = 5;

/// How many checkpoints the growth is the median of.
const GROWTH: usize = 8;

/// One tree, and everybody who keeps it.
pub(crate) struct Course {
    size: Size,
    rounds: usize,
    /// In how many of them those take part who need long.
    first_rounds: usize,
    tree: Tree,
    /// Where stores and restored trees go.
    folder: PathBuf,
    /// How many folders were named.
    named: usize,
    ours: Segno,
    others: Vec<Box<dyn Keeper>>,
    figures: Figures,
    /// What only Segno is asked for.
    starts: Samples,
    verify_all: Samples,
    growth: Samples,
    /// Who could not do something, and why.
    failed: Vec<(String, String)>,
}

impl Course {
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
        let mut others: Vec<Box<dyn Keeper>> = vec![
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
            named: 0,
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
        tell("    memory, and whether the tree comes back");
        self.memory();
        for round in 0..self.rounds {
            tell(&format!("    round {} of {}", round + 1, self.rounds));
            disk.probe();
            self.first(round);
            self.verify();
            self.unchanged();
            self.changed();
            self.in_place();
            self.restore(round);
        }
        let time = self.ours.verify_all();
        self.verify_all.push(time.expect("segno verifies"));
        self.grow();
        self.over();
        self.tabulate(table);
    }

    /// The memory of those who are one process; and once, whether everything comes back.
    fn memory(&mut self) {
        let mut take = |course: &mut Self, who: Who, keeper: &mut dyn Keeper| {
            let (store, into) = (course.place("store"), course.place("restored"));
            let measured = memory(keeper, &course.tree.root, &store, &into);
            if who == Who::Ours {
                assert!(measured.is_ok(), "segno keeps the tree: {measured:?}");
                assert_same(&course.tree.root, &into);
            }
            let parts = measured.map(Option::unzip);
            let (keeping, restoring) = match parts {
                Ok(parts) => parts,
                Err(reason) => return course.failed.push((keeper.name(), reason)),
            };
            for (operation, sample) in [
                (Operation::KeepMemory, keeping),
                (Operation::RestoreMemory, restoring),
            ] {
                if let Some(sample) = sample {
                    course.figures.push(operation, who.clone(), sample);
                }
            }
        };
        self.each(&mut take);
    }

    /// A new store for all who are quick; those who are not keep theirs in later rounds.
    fn first(&mut self, round: usize) {
        let everybody = round < self.first_rounds;
        self.each(&mut |course, who, keeper| {
            if !everybody && keeper.bulk() == Bulk::FirstRounds {
                return;
            }
            let store = course.place("store");
            let begun = keeper.begin(&course.tree.root, &store);
            settle(&course.folder);
            let time = begun.and_then(|()| keeper.keep(&course.tree.root));
            course.take(Operation::First, who.clone(), time);
            let megabytes = allocated(&keeper.store()) as f64 / 1e6;
            course.take(Operation::Store, who, Ok(megabytes));
        });
        let root = &self.tree.root;
        let files = limits::files(&walk::walk(root));
        for (name, time) in [
            ("read", limits::read(root, &files)),
            ("BLAKE3", limits::hash(root, &files)),
            ("zstd-3", limits::compress(root, &files)),
        ] {
            let who = Who::Limit(name);
            self.figures.push(Operation::First, who, time);
        }
    }

    /// Before anything else is in the stores, so that everybody reads about the same.
    fn verify(&mut self) {
        self.each(&mut |course, who, keeper| {
            let time = keeper.verify();
            course.take(Operation::Verify, who, time);
        });
    }

    fn unchanged(&mut self) {
        let (mut walks, mut starts) = (Samples::default(), Samples::default());
        self.several(Operation::Unchanged, &mut |course| {
            walks.push(limits::stat(&course.tree.root));
            starts.push(course.ours.version().expect("segno tells its version"));
        });
        let who = Who::Limit("stat walk");
        self.figures.push(Operation::Unchanged, who, walks.median());
        self.starts.push(starts.median());
    }

    fn changed(&mut self) {
        self.several(Operation::Changed, &mut |course| {
            course.tree.change();
        });
    }

    /// Keeps the tree several times, after something was done before each turn. The median counts.
    fn several(&mut self, operation: Operation, before: &mut dyn FnMut(&mut Self)) {
        let mut times: Vec<(Who, Samples)> = Vec::new();
        for turn in 0..SEVERAL {
            before(self);
            self.each(&mut |course, who, keeper| {
                if turn > 0 && keeper.repeat() == Repeat::Once {
                    return;
                }
                settle(&course.folder);
                match keeper.keep(&course.tree.root) {
                    Ok(time) => match times.iter_mut().find(|(one, _)| *one == who) {
                        Some((_, samples)) => samples.push(time),
                        None => times.push((who, Samples(vec![time]))),
                    },
                    failed @ Err(_) => course.take(operation, who, failed),
                }
            });
        }
        for (who, samples) in times {
            self.figures.push(operation, who, samples.median());
        }
    }

    /// Goes back to what was kept last, after ten files were edited and five added.
    fn in_place(&mut self) {
        self.each(&mut |course, who, keeper| {
            let mut times = Samples::default();
            for _ in 0..SEVERAL {
                let change = course.tree.change();
                settle(&course.folder);
                let undone = keeper.undo(&course.tree.root);
                let left = course.tree.put_back(&change);
                match undone {
                    None => return,
                    Some(Err(_)) => {}
                    Some(Ok(_)) if left != Left::Nothing => {
                        assert!(who != Who::Ours, "everything is undone: {left:?}");
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
            course.take(Operation::InPlace, who, time);
        });
    }

    /// Into a new folder each time; nothing is removed before the end.
    fn restore(&mut self, round: usize) {
        let everybody = round < self.first_rounds;
        self.each(&mut |course, who, keeper| {
            if !everybody && keeper.bulk() == Bulk::FirstRounds {
                return;
            }
            let into = course.place("restored");
            settle(&course.folder);
            let time = keeper.restore(&into);
            let sync = settle(&course.folder);
            if let (Ok(time), Who::Other(name)) = (&time, &who) {
                let synced = Who::Synced(name.clone());
                course.take(Operation::Restore, synced, Ok(time + sync));
            }
            course.take(Operation::Restore, who, time);
        });
        let into = self.place("restored");
        let all = walk::walk(&self.tree.root);
        settle(&self.folder);
        let written = limits::write(&into, &all);
        let synced = written + settle(&self.folder);
        for (name, time) in [("write", written), ("write, then sync", synced)] {
            let who = Who::Limit(name);
            self.figures.push(Operation::Restore, who, time);
        }
    }

    /// What ten edits add to everything that Segno has on the disk.
    fn grow(&mut self) {
        let mut before = None;
        for _ in 0..=GROWTH {
            self.tree.edit();
            self.ours.keep(&self.tree.root).expect("segno keeps");
            settle(&self.folder);
            let now = allocated(&self.ours.home()) as f64 / 1024.0;
            if let Some(before) = before.replace(now) {
                self.growth.push(now - before);
            }
        }
    }

    /// The last thing: tar goes back by writing everything again, over its own copy of the tree,
    /// and frees all the inodes of that.
    fn over(&mut self) {
        let mut tar = Tar::new(Threads::One);
        let (store, into) = (self.place("store"), self.place("restored"));
        let kept = tar
            .begin(&self.tree.root, &store)
            .and_then(|()| tar.keep(&self.tree.root));
        let mut time = kept.and_then(|_| tar.restore(&into));
        for _ in 0..self.first_rounds {
            if time.is_ok() {
                self.tree.edit_in(&into);
                settle(&self.folder);
                time = tar.restore(&into);
                let who = Who::Other(tar.name());
                self.take(Operation::InPlace, who, time.clone());
            }
        }
    }

    /// Gives everybody a turn, Segno first, and dismisses who failed.
    fn each(&mut self, turn: &mut dyn FnMut(&mut Self, Who, &mut dyn Keeper)) {
        let mut ours = std::mem::take(&mut self.ours);
        turn(self, Who::Ours, &mut ours);
        self.ours = ours;
        let mut others = std::mem::take(&mut self.others);
        for other in &mut others {
            let who = Who::Other(other.name());
            turn(self, who, other.as_mut());
        }
        let failed = |name: &str| self.failed.iter().any(|(one, _)| one == name);
        others.retain(|other| !failed(&other.name()));
        self.others = others;
    }

    /// Takes a sample; a failure of ours is the end.
    fn take(&mut self, operation: Operation, who: Who, time: Time) {
        match (time, who) {
            (Ok(sample), who) => self.figures.push(operation, who, sample),
            (Err(reason), Who::Other(name)) => self.failed.push((name, reason)),
            (Err(reason), _) => panic!("segno failed: {reason}"),
        }
    }

    /// A new place for a store or a tree.
    fn place(&mut self, what: &str) -> PathBuf {
        self.named += 1;
        self.folder.join(format!("{what}-{}", self.named))
    }

    fn tabulate(self, table: &mut Table) {
        self.figures.tabulate(self.size, table);
        let name = |what: &str| format!("{}: {what}", self.size.name());
        let row = Row::lone("f", name("growth per 10 edits"), "KiB", self.growth);
        table.add(row.bar(Bar::AtMost(16.0)));
        let what = name("verification of every checkpoint, in turn");
        table.add(Row::lone("f", what, "ms", self.verify_all));
        let what = name("a process that only tells its version");
        table.add(Row::lone("f", what, "ms", self.starts));
        for (name, reason) in self.failed {
            table.note(format!("{name} was not measured to the end: {reason}"));
        }
    }
}

/// The megabytes of keeping and restoring; none if it is not one process.
fn memory(
    keeper: &mut dyn Keeper,
    tree: &Path,
    store: &Path,
    into: &Path,
) -> Result<Option<(f64, f64)>, String> {
    keeper.begin(tree, store)?;
    let Some(keeping) = keeper.keeping(tree) else {
        return Ok(None);
    };
    let keeping = peak(keeping)?;
    // Once more, so that it knows what it kept.
    keeper.keep(tree)?;
    let Some(restoring) = keeper.restoring(into) else {
        return Ok(None);
    };
    Ok(Some((keeping, peak(restoring)?)))
}
