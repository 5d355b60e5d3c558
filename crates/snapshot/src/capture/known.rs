//! A folder that is as it was: then nothing is read, and the snapshot is there already.

use std::path::PathBuf;

use segno_core::digest::Digest;

use crate::entry::{Chunk, Kind, Skipped};
use crate::machine;
use crate::manifest::{order, write_skipped};
use crate::read::is_still;
use crate::request::Captured;
use crate::walk::{Tree, What};
use crate::wire::Writer;

use super::Capture;
use super::plan::{Found, Plan, State};

impl Capture<'_> {
    /// The snapshot that the index was written with, if everything is as it was.
    pub(super) fn known(&self, tree: &Tree) -> Option<Captured> {
        let budget = self.request.budget;
        let limited = budget.files.is_some() || budget.bytes.is_some() || budget.time.is_some();
        let snapshot = self.parent().filter(|_| tree.is_known && !limited)?;
        let skipped = left_out(tree);
        let summary = &self.index.summary;
        if summary.skipped != Some(digest_of(&skipped)) || !self.is_still(tree) {
            return None;
        }
        Some(Captured {
            snapshot,
            files: summary.files,
            folders: summary.folders,
            links: summary.links,
            bytes: summary.bytes,
            read_files: 0,
            stored_bytes: 0,
            unstable: Vec::new(),
            skipped,
            repositories: summary.repositories.clone(),
        })
    }

    /// Whether some files, drawn by lot, have the content that the index says.
    fn is_still(&self, tree: &Tree) -> bool {
        let lot = Lot::draw(self.request.doubt);
        let nodes = tree.folders.iter().flat_map(|folder| {
            let nodes = folder.nodes.iter();
            nodes.map(move |node| (folder, node))
        });
        let drawn = nodes.enumerate().filter(|(number, _)| lot.has(*number));
        let drawn: Vec<(PathBuf, &[Chunk])> = drawn
            .filter_map(|(_, (folder, node))| match &node.what {
                What::File(Some(memory)) => {
                    Some((folder.path.join(&node.name), &memory.content[..]))
                }
                _ => None,
            })
            .collect();
        let still = |(path, content): &(PathBuf, &[Chunk])| is_still(&self.root, path, content);
        in_parallel(&drawn, still).into_iter().all(|still| still)
    }

    /// Some files are compared though they look unchanged; those that differ have to be read.
    pub(super) fn doubt(&self, plan: &mut Plan) {
        let lot = Lot::draw(self.request.doubt);
        let doubted = |(number, found): &(usize, &Found)| {
            let is_file = matches!(found.entry.kind, Kind::File { .. });
            is_file && found.state == State::Settled && lot.has(*number)
        };
        let doubted = plan.found.iter().enumerate().filter(doubted);
        let doubted: Vec<usize> = doubted.map(|(number, _)| number).collect();
        let still = in_parallel(&doubted, |number| {
            let entry = &plan.found[*number].entry;
            is_still(&self.root, &entry.path, entry.content())
        });
        for (number, still) in doubted.into_iter().zip(still) {
            if !still {
                plan.found[number].state = State::Unread;
            }
        }
    }
}

/// Files that are drawn by lot: programs that write through memory can change one without a trace.
struct Lot {
    turn: u64,
    of_thousand: u64,
}

impl Lot {
    fn draw(of_thousand: u32) -> Self {
        let chance = machine::chance().unwrap_or_default();
        Self {
            turn: u64::from(chance[0]) << 8 | u64::from(chance[1]),
            of_thousand: of_thousand.into(),
        }
    }

    fn has(&self, number: usize) -> bool {
        let mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        mixed.wrapping_add(self.turn) % 1000 < self.of_thousand
    }
}

/// Asks the same of each, with several threads, and answers in their order.
fn in_parallel<T: Sync>(all: &[T], ask: impl Fn(&T) -> bool + Sync) -> Vec<bool> {
    let share = all.len().div_ceil(machine::workers()).max(8);
    std::thread::scope(|scope| {
        let parts = all.chunks(share).map(|part| {
            let ask = &ask;
            (
                part.len(),
                scope.spawn(move || part.iter().map(ask).collect::<Vec<_>>()),
            )
        });
        let parts: Vec<_> = parts.collect();
        let answers = parts
            .into_iter()
            .map(|(length, part)| part.join().unwrap_or_else(|_| vec![false; length]));
        answers.flatten().collect()
    })
}

/// What a walk left out, sorted.
fn left_out(tree: &Tree) -> Vec<Skipped> {
    let mut left = Vec::new();
    for folder in &tree.folders {
        for node in &folder.nodes {
            if let What::Left(why) = &node.what {
                let (path, why) = (folder.path.join(&node.name), why.clone());
                left.push(Skipped { path, why });
            }
        }
    }
    left.sort_by(|left, right| order(&left.path, &right.path));
    left
}

pub(super) fn digest_of(skipped: &[Skipped]) -> Digest {
    let mut writer = Writer::default();
    write_skipped(&mut writer, skipped);
    Digest::of(&writer.0)
}
