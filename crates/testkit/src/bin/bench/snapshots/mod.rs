//! (f) File checkpoints through the real binary, compared with tar, git and backup programs on the
//! same tree, and with the lower bound of each part.

mod backup;
mod figures;
mod limits;
mod ours;
pub(crate) mod process;
mod rounds;
mod tool;
mod tree;
mod walk;

use crate::disk::Disk;
use crate::figures::Table;
use crate::snapshots::backup::{Fetched, Want};
use crate::snapshots::figures::Size;
use crate::snapshots::rounds::TreeBench;
use crate::snapshots::tree::Tree;
use crate::{Plan, log_progress};

/// The number of files in the generated trees, and the size of the longest in bytes.
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
        log_progress(&format!("  {} tree", size.name()));
        // The folder stays until the whole benchmark is done: ext4 avoids inodes that were freed in
        // the last minutes, and the search would slow down the next tool that writes a tree.
        let folder = plan.fresh().keep();
        let root = folder.join("tree");
        let tree = match (size, &fetched.tree) {
            (Size::Small, _) => Tree::generated(root, SMALL.0, SMALL.1),
            (Size::Medium, _) => Tree::generated(root, MEDIUM.0, MEDIUM.1),
            (Size::Large, Some((origin, from))) => Tree::copied(origin, from, root, BESIDE),
            (Size::Large, None) => Tree::generated(root, LARGE.0, LARGE.1),
        };
        table.note(format!("{} tree: {}", size.name(), tree.origin));
        TreeBench::new(plan, *size, tree, folder, &fetched.programs).measure(disk, table);
    }
}
