//! (f) Checkpoints of files through the real binary, beside tar, git and backup programs on the
//! same tree, and beside the least that each of the parts can cost.

mod backup;
mod figures;
mod keeper;
mod limits;
mod ours;
pub(crate) mod process;
mod rounds;
mod tree;
mod walk;

use crate::disk::Disk;
use crate::figures::Table;
use crate::snapshots::backup::{Fetched, Want};
use crate::snapshots::figures::Size;
use crate::snapshots::rounds::Course;
use crate::snapshots::tree::Tree;
use crate::{Plan, tell};

/// How many files the generated trees have, and the bytes of the longest.
const SMALL: (usize, usize) = (300, 20_000);
const MEDIUM: (usize, usize) = (7_000, 25_000);
const LARGE: (usize, usize) = (82_000, 40_000);

/// Files beside the real tree, so that there are more than 80,000.
const BESIDE: usize = 2_000;

pub(crate) fn measure(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    let want = if plan.quick {
        Want::Programs
    } else {
        Want::ProgramsAndTree
    };
    let fetched = match &plan.peers {
        Some(folder) => backup::fetch(folder, want),
        None => Fetched::default(),
    };
    fetched.reasons.iter().for_each(|reason| table.note(reason));
    let sizes: &[Size] = if plan.quick {
        &[Size::Small, Size::Medium]
    } else {
        &[Size::Small, Size::Medium, Size::Large]
    };
    for size in sizes {
        tell(&format!("  {} tree", size.name()));
        // Kept until the whole run is done: on ext4, inodes that were freed in the last minutes
        // are avoided, and whoever writes a tree next pays for the search.
        let folder = plan.fresh().keep();
        let root = folder.join("tree");
        let tree = match (size, &fetched.tree) {
            (Size::Small, _) => Tree::generated(root, SMALL.0, SMALL.1),
            (Size::Medium, _) => Tree::generated(root, MEDIUM.0, MEDIUM.1),
            (Size::Large, Some((origin, from))) => Tree::copied(origin, from, root, BESIDE),
            (Size::Large, None) => Tree::generated(root, LARGE.0, LARGE.1),
        };
        table.note(format!("{} tree: {}", size.name(), tree.origin));
        Course::new(plan, *size, tree, folder, &fetched.programs).measure(disk, table);
    }
}
