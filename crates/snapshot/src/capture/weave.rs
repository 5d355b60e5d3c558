//! The manifest of a snapshot: what the index says and still holds, with what was found woven in.

use std::cmp::Ordering;

use crate::delta::Changes;
use crate::entry::Kind;
use crate::index::{Index, NONE, STAMP, Summary, stamp};
use crate::manifest::{self, VERSION, bytes, order_of, write_facts, write_path, write_skipped};
use crate::scroll::{Scroll, Sort};
use crate::wire::{Broken, Writer};

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
    writer: Writer,
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
) -> Result<Woven, Broken> {
    let holds = plan.stale.iter().skip(1).filter(|stale| !**stale).count();
    let entries = holds + plan.found.len();
    let mut writer = Writer(Vec::with_capacity(entries * 72 + 64));
    writer.byte(VERSION);
    write_facts(&mut writer, &plan.root);
    writer.size(entries);
    let mut stamps = Vec::with_capacity((entries + 1) * STAMP);
    stamps.extend_from_slice(&root);
    let weaver = Weaver {
        index,
        stamp,
        writer,
        last: Vec::new(),
        said: Writer::default(),
        stamps,
        changes: Changes::none(plan.root.clone(), plan.skipped.clone()),
        summary: Summary::default(),
    };
    let mut woven = weaver.run(plan)?;
    let mut end = Writer(std::mem::take(&mut woven.whole));
    write_skipped(&mut end, &plan.skipped);
    woven.whole = end.0;
    woven.entries = entries;
    Ok(woven)
}

impl Weaver<'_> {
    fn run(mut self, plan: &Plan) -> Result<Woven, Broken> {
        let mut found = plan.found.iter().peekable();
        if self.index.len() > 0 {
            let (_, mut before) = Scroll::open(self.index.manifest())?;
            let mut number = 0;
            while before.next()? {
                number += 1;
                while let Some(new) = found.next_if(|found| comes_before(found, &before.path)) {
                    self.put(new, None);
                }
                let same = found.next_if(|found| bytes(&found.entry.path) == before.path);
                match (same, plan.stale[number]) {
                    (Some(found), _) => self.put(found, Some(before.said())),
                    (None, true) => self.changes.remove(manifest::path(&before.path)),
                    (None, false) => self.keep(number, &before),
                }
            }
        }
        for new in found {
            self.put(new, None);
        }
        Ok(Woven {
            whole: self.writer.0,
            entries: 0,
            changes: self.changes,
            stamps: self.stamps,
            summary: self.summary,
        })
    }

    /// Copies an entry of the index that still holds.
    fn keep(&mut self, number: usize, before: &Scroll<'_>) {
        self.path(&before.path);
        self.writer.0.extend_from_slice(before.said());
        let at = number * STAMP;
        self.stamps
            .extend_from_slice(&self.index.stamps()[at..at + STAMP]);
        self.summary.add(&before.path, before.sort, before.size);
    }

    /// Writes something that was found. `before` is what the index says of it.
    fn put(&mut self, found: &Found, before: Option<&[u8]>) {
        let entry = &found.entry;
        self.path(bytes(&entry.path));
        self.said.0.clear();
        write_facts(&mut self.said, entry);
        self.writer.0.extend_from_slice(&self.said.0);
        self.stamps.extend_from_slice(&(self.stamp)(found));
        self.summary
            .add(bytes(&entry.path), Sort::of(entry), entry.size());
        if before != Some(&self.said.0) && self.index.len() > 0 {
            self.changes.put(entry.clone());
        }
    }

    fn path(&mut self, path: &[u8]) {
        write_path(&mut self.writer, &self.last, path);
        self.last.clear();
        self.last.extend_from_slice(path);
    }
}

fn comes_before(found: &Found, path: &[u8]) -> bool {
    order_of(bytes(&found.entry.path), path) == Ordering::Less
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
