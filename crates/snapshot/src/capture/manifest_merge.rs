//! Merges the valid entries of the index with what was found into the manifest of a snapshot.

use std::path::PathBuf;

use crate::delta::Changes;
use crate::entry::{EntryType, Kind};
use crate::index::{Index, NONE, ROOT, STAMP, Summary, stamp};
use crate::manifest::{VERSION, bytes, order, write_facts, write_path, write_skipped};
use crate::wire::Writer;

use super::plan::{Found, Plan};

/// The result of the merge.
pub(super) struct MergedManifest {
    /// The bytes of the manifest; their digest names it.
    pub(super) whole: Vec<u8>,
    /// The number of entries.
    pub(super) entries: usize,
    /// The differences from the index.
    pub(super) changes: Changes,
    /// The stamps of the folder and of each entry, for the next index.
    pub(super) stamps: Vec<u8>,
    pub(super) summary: Summary,
}

struct ManifestMerger<'a> {
    index: &'a Index,
    /// The stamp of a found item, or [`NONE`] if a later capture could not recognise it.
    stamp: &'a dyn Fn(&Found) -> [u8; STAMP],
    whole: Writer,
    /// The path that was written last.
    last: Vec<u8>,
    /// The encoded entry that is being written.
    encoded: Writer,
    stamps: Vec<u8>,
    changes: Changes,
    summary: Summary,
}

/// Merges the index and the plan into a manifest. `root` is the stamp of the folder itself, and
/// `stamp` returns that of a found item; [`NONE`] if a later capture could not recognise it.
pub(super) fn merge(
    index: &Index,
    plan: &Plan,
    root: [u8; STAMP],
    stamp: &dyn Fn(&Found) -> [u8; STAMP],
) -> MergedManifest {
    let holds = plan.stale.iter().skip(1).filter(|stale| !**stale).count();
    let entries = holds + plan.found.len();
    let mut whole = Writer(Vec::with_capacity(entries * 72 + 64));
    whole.byte(VERSION);
    write_facts(&mut whole, &plan.root);
    whole.size(entries);
    let mut stamps = Vec::with_capacity((entries + 1) * STAMP);
    stamps.extend_from_slice(&root);
    let mut merger = ManifestMerger {
        index,
        stamp,
        whole,
        last: Vec::new(),
        encoded: Writer::default(),
        stamps,
        changes: Changes::none(plan.root.clone(), plan.skipped.clone()),
        summary: index.summary.clone(),
    };
    merger.run(plan);
    let place = |folder: &PathBuf| folder.join(".git");
    let repositories = &mut merger.summary.repositories;
    repositories.sort_by(|left, right| order(&place(left), &place(right)));
    write_skipped(&mut merger.whole, &plan.skipped);
    MergedManifest {
        whole: merger.whole.0,
        entries,
        changes: merger.changes,
        stamps: merger.stamps,
        summary: merger.summary,
    }
}

impl ManifestMerger<'_> {
    fn run(&mut self, plan: &Plan) {
        let mut at = ROOT + 1;
        for found in &plan.found {
            let path = bytes(&found.entry.path);
            let to = self.index.seek(at, path);
            self.process_range(at, to, plan);
            let before = Some(to).filter(|to| self.index.is_at(*to, path));
            self.write_found(found, before);
            at = to + u32::from(before.is_some());
        }
        self.process_range(at, self.index.end(), plan);
    }

    /// Processes a range of index entries: copies the valid ones and drops the stale ones.
    fn process_range(&mut self, mut at: u32, to: u32, plan: &Plan) {
        while at < to {
            let is_stale = |number: &u32| plan.stale[*number as usize];
            let stale = (at..to).find(is_stale).unwrap_or(to);
            if at < stale {
                self.copy_range(at, stale);
            }
            at = stale;
            while at < to && is_stale(&at) {
                self.uncount(at);
                self.changes.remove(self.index.path(at));
                at += 1;
            }
        }
    }

    /// Copies valid entries of the index. Only the first gets its path encoded anew, because the
    /// entry before it may be another one.
    fn copy_range(&mut self, from: u32, to: u32) {
        self.write_path(&self.index.path_bytes(from));
        self.whole.0.extend_from_slice(self.index.encoded(from));
        self.whole.0.extend_from_slice(self.index.between(from, to));
        self.last = self.index.path_bytes(to - 1);
        let stamps = from as usize * STAMP..to as usize * STAMP;
        self.stamps.extend_from_slice(&self.index.stamps()[stamps]);
    }

    /// Writes a found item. `before` is its number in the index.
    fn write_found(&mut self, found: &Found, before: Option<u32>) {
        let entry = &found.entry;
        self.write_path(bytes(&entry.path));
        self.encoded.0.clear();
        write_facts(&mut self.encoded, entry);
        self.whole.0.extend_from_slice(&self.encoded.0);
        self.stamps.extend_from_slice(&(self.stamp)(found));
        if let Some(before) = before {
            self.uncount(before);
        }
        let path = bytes(&entry.path);
        self.summary.add(path, EntryType::of(entry), entry.size());
        let encoded = before.map(|before| self.index.encoded(before));
        if encoded != Some(&self.encoded.0) && self.index.len() > 0 {
            self.changes.put(entry.clone());
        }
    }

    /// Removes an index entry from the counts.
    fn uncount(&mut self, number: u32) {
        let size = self.index.size(number);
        let path = self.index.path_bytes(number);
        self.summary
            .remove(&path, self.index.entry_type(number), size);
    }

    fn write_path(&mut self, path: &[u8]) {
        write_path(&mut self.whole, &self.last, path);
        self.last.clear();
        self.last.extend_from_slice(path);
    }
}

pub(super) fn stamp_of(found: &Found, is_old_enough: bool) -> [u8; STAMP] {
    let recognised = match found.entry.kind {
        Kind::Folder | Kind::Link { .. } => true,
        Kind::File { unstable, .. } => !unstable && found.is_trusted(),
        Kind::HardLink { .. } => false,
    };
    if recognised && is_old_enough {
        stamp(&found.facts)
    } else {
        NONE
    }
}
