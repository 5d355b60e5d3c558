//! The manifest of a snapshot: what the index says and still holds, with what was found woven in.

use std::path::PathBuf;

use crate::delta::Changes;
use crate::entry::Kind;
use crate::index::{Index, NONE, ROOT, STAMP, Summary, stamp};
use crate::manifest::{VERSION, bytes, order, write_facts, write_path, write_skipped};
use crate::scroll::Sort;
use crate::wire::Writer;

use super::plan::{Found, Plan};

/// A manifest, whole.
pub(super) struct Woven {
    /// The bytes that name it.
    pub(super) whole: Vec<u8>,
    /// How many entries it has.
    pub(super) entries: usize,
    /// What differs from the index.
    pub(super) changes: Changes,
    /// How the folder and each entry looked, for the next index.
    pub(super) stamps: Vec<u8>,
    pub(super) summary: Summary,
}

struct Weaver<'a> {
    index: &'a Index,
    /// How something looked, if that can be recognised later.
    stamp: &'a dyn Fn(&Found) -> [u8; STAMP],
    whole: Writer,
    /// The path that was written last.
    last: Vec<u8>,
    /// What is said of the entry that is being written.
    said: Writer,
    stamps: Vec<u8>,
    changes: Changes,
    summary: Summary,
}

/// Weaves a manifest. `root` is how the folder itself looked, and `stamp` how something did: as
/// [`NONE`] if that cannot be recognised later.
pub(super) fn weave(
    index: &Index,
    plan: &Plan,
    root: [u8; STAMP],
    stamp: &dyn Fn(&Found) -> [u8; STAMP],
) -> Woven {
    let holds = plan.stale.iter().skip(1).filter(|stale| !**stale).count();
    let entries = holds + plan.found.len();
    let mut whole = Writer(Vec::with_capacity(entries * 72 + 64));
    whole.byte(VERSION);
    write_facts(&mut whole, &plan.root);
    whole.size(entries);
    let mut stamps = Vec::with_capacity((entries + 1) * STAMP);
    stamps.extend_from_slice(&root);
    let mut weaver = Weaver {
        index,
        stamp,
        whole,
        last: Vec::new(),
        said: Writer::default(),
        stamps,
        changes: Changes::none(plan.root.clone(), plan.skipped.clone()),
        summary: index.summary.clone(),
    };
    weaver.run(plan);
    let place = |folder: &PathBuf| folder.join(".git");
    let repositories = &mut weaver.summary.repositories;
    repositories.sort_by(|left, right| order(&place(left), &place(right)));
    write_skipped(&mut weaver.whole, &plan.skipped);
    Woven {
        whole: weaver.whole.0,
        entries,
        changes: weaver.changes,
        stamps: weaver.stamps,
        summary: weaver.summary,
    }
}

impl Weaver<'_> {
    fn run(&mut self, plan: &Plan) {
        let mut at = ROOT + 1;
        for found in &plan.found {
            let path = bytes(&found.entry.path);
            let to = self.index.seek(at, path);
            self.pass(at, to, plan);
            let before = Some(to).filter(|to| self.index.is_at(*to, path));
            self.put(found, before);
            at = to + u32::from(before.is_some());
        }
        self.pass(at, self.index.end(), plan);
    }

    /// Goes over entries of the index: those that hold are copied, the others go.
    fn pass(&mut self, mut at: u32, to: u32, plan: &Plan) {
        while at < to {
            let is_stale = |number: &u32| plan.stale[*number as usize];
            let stale = (at..to).find(is_stale).unwrap_or(to);
            if at < stale {
                self.keep(at, stale);
            }
            at = stale;
            while at < to && is_stale(&at) {
                self.drop(at);
                self.changes.remove(self.index.path(at));
                at += 1;
            }
        }
    }

    /// Copies entries of the index that hold: the first has another neighbour than it had, the
    /// others have the same.
    fn keep(&mut self, from: u32, to: u32) {
        self.path(&self.index.path_bytes(from));
        self.whole.0.extend_from_slice(self.index.said(from));
        self.whole.0.extend_from_slice(self.index.between(from, to));
        self.last = self.index.path_bytes(to - 1);
        let stamps = from as usize * STAMP..to as usize * STAMP;
        self.stamps.extend_from_slice(&self.index.stamps()[stamps]);
    }

    /// Writes something that was found. `before` is its number in the index.
    fn put(&mut self, found: &Found, before: Option<u32>) {
        let entry = &found.entry;
        self.path(bytes(&entry.path));
        self.said.0.clear();
        write_facts(&mut self.said, entry);
        self.whole.0.extend_from_slice(&self.said.0);
        self.stamps.extend_from_slice(&(self.stamp)(found));
        if let Some(before) = before {
            self.drop(before);
        }
        let path = bytes(&entry.path);
        self.summary.add(path, Sort::of(entry), entry.size());
        let said = before.map(|before| self.index.said(before));
        if said != Some(&self.said.0) && self.index.len() > 0 {
            self.changes.put(entry.clone());
        }
    }

    /// Counts an entry of the index no longer.
    fn drop(&mut self, number: u32) {
        let size = self.index.size(number);
        let path = self.index.path_bytes(number);
        self.summary.remove(&path, self.index.sort(number), size);
    }

    fn path(&mut self, path: &[u8]) {
        write_path(&mut self.whole, &self.last, path);
        self.last.clear();
        self.last.extend_from_slice(path);
    }
}

/// The stamp of something that was found.
pub(super) fn stamp_of(found: &Found, is_settled: bool) -> [u8; STAMP] {
    let recognised = match found.entry.kind {
        Kind::Folder | Kind::Link { .. } => true,
        Kind::File { unstable, .. } => !unstable && found.is_settled(),
        Kind::Twin { .. } => false,
    };
    if recognised && is_settled {
        stamp(&found.facts)
    } else {
        NONE
    }
}
