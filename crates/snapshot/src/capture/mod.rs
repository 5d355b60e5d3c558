//! Taking a snapshot: look at everything, read what is new, write it down.

mod job;
mod plan;
mod repositories;
mod same;
mod weave;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::slice;

use segno_core::digest::Digest;

use crate::beneath::{self, Facts};
use crate::delta::{self, Changes};
use crate::entry::{Entry, Kind, Moment, Skipped, Why};
use crate::error::Error;
use crate::index::{self, Index, NONE, Summary, is_settled, stamp};
use crate::lot::Lot;
use crate::machine;
use crate::manifest::{Manifest, bytes};
use crate::pack::{Known, Sealing};
use crate::read::Stamps;
use crate::request::{Captured, Progress, Request};
use crate::safe::SafeDraft;
use crate::scroll::Sort;
use crate::vault::Vault;
use crate::walk::{Tree, Walk, guard};
use crate::wire::Broken;

use job::Store;
use plan::{Found, Plan, State, entry};
use weave::{Woven, stamp_of, weave};

impl Vault {
    /// Takes a snapshot of a folder. When this returns, the snapshot is durable and listed. The
    /// same tree gives the same snapshot.
    ///
    /// Several captures may run at once, in several processes.
    pub fn capture(
        &self,
        request: &Request<'_>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Captured, Error> {
        let place = guard(request.root, request.home)?;
        let _held = self.hold()?;
        let mut capture = Capture::new(self, request, &place)?;
        let tree = capture.walk()?;
        if let Some(same) = capture.same(&tree) {
            self.renew(same.snapshot)?;
            return Ok(same);
        }
        let known = Known::new(self.fresh_shelf()?);
        let mut read = capture.read_all(tree, &known, progress)?;
        for millis in PAUSES {
            if capture.moving(&read.plan).is_empty() {
                return capture.keep(read, &known);
            }
            machine::pause(std::time::Duration::from_millis(millis));
            capture.remember(&read);
            let mut later = capture.read_all(capture.walk()?, &known, progress)?;
            later.files += read.files;
            later.sealing.add(read.sealing);
            if capture.moving(&later.plan).is_empty() {
                return capture.keep(later, &known);
            }
            if repositories::fits(&capture.index, &later.plan) {
                repositories::join(&capture.index, &mut later.plan);
                return capture.keep(later, &known);
            }
            read = later;
        }
        let moving = capture.moving(&read.plan);
        repositories::mark(&mut read.plan, &moving);
        capture.keep(read, &known)
    }
}

/// How long a git folder that is used is left alone before it is read again.
const PAUSES: [u64; 4] = [1, 5, 25, 125];

/// From how many bytes on a manifest is worth two threads.
const LONG: usize = 1024 * 1024;

/// A folder, read.
struct Read {
    plan: Plan,
    /// How many files were read.
    files: u64,
    /// What goes to the disk meanwhile.
    sealing: Sealing,
}

/// One capture.
struct Capture<'a> {
    vault: &'a Vault,
    request: &'a Request<'a>,
    place: &'a Path,
    root: OwnedFd,
    facts: Facts,
    index_path: PathBuf,
    index: Index,
    /// The snapshot that the index was written with, while it is kept.
    parent: Option<Digest>,
    stamps: Stamps<'a>,
    /// When the look began, by the clock that stamps files.
    began: Moment,
    /// When the time is used up.
    until: Option<std::time::Duration>,
}

impl<'a> Capture<'a> {
    fn new(vault: &'a Vault, request: &'a Request<'a>, place: &'a Path) -> Result<Self, Error> {
        let trouble = |error| Error::at(place, error);
        let root = beneath::root(place).map_err(trouble)?;
        let facts = Facts::of(&root).map_err(trouble)?;
        let index_path = index::place(&vault.index, place, facts.device);
        let index = Index::read(&vault.safe, &index_path);
        Ok(Self {
            vault,
            request,
            place,
            root,
            facts,
            parent: index.snapshot.filter(|parent| vault.is_kept(*parent)),
            index,
            index_path,
            stamps: Stamps::new(&vault.drafts),
            began: machine::stamp_clock(),
            until: request
                .budget
                .time
                .map(|time| request.clock.elapsed().saturating_add(time)),
        })
    }

    fn is_late(&self) -> bool {
        self.until
            .is_some_and(|until| self.request.clock.elapsed() >= until)
    }

    fn walk(&self) -> Result<Tree, Error> {
        let vault = beneath::root(&self.vault.root).and_then(Facts::of);
        let vault = vault.map_err(|error| Error::at(&self.vault.root, error))?;
        let walk = Walk {
            root: &self.root,
            scope: self.request.scope,
            index: &self.index,
            reach: self.request.reach,
            vault: Some((vault.device, vault.inode)),
            files: self.request.budget.files.unwrap_or(u64::MAX),
            late: &|| self.is_late(),
            glances: !self.request.budget.is_limited(),
            lot: Lot::draw(self.request.doubt, self.began),
        };
        let tree = walk.run().map_err(|error| Error::at(self.place, error))?;
        if let Some(why @ Why::Unreadable(_)) = &tree.folders[0].closed {
            return Err(Error::Unavailable {
                place: self.place.to_owned(),
                reason: why.to_string(),
            });
        }
        Ok(tree)
    }

    fn look(&self, mut tree: Tree) -> Plan {
        let root = &mut tree.folders[0];
        let root = match (root.known, &self.index.root) {
            (Some(_), Some(root)) => root.clone(),
            _ => Entry {
                attributes: std::mem::take(&mut root.attributes),
                ..entry(PathBuf::new(), &self.facts, Kind::Folder)
            },
        };
        let mut plan = Plan::new(root, &mut tree, &self.index);
        self.keep_to_budget(&mut plan);
        plan
    }

    fn keep_to_budget(&self, plan: &mut Plan) {
        let budget = self.request.budget;
        let (mut files, mut bytes) = (0_u64, 0_u64);
        let skipped = &mut plan.skipped;
        plan.found.retain(|found| {
            if !found.facts.is_file() {
                return true;
            }
            let size = found.entry.size();
            let lacks = if budget.files.is_some_and(|limit| files >= limit) {
                "files"
            } else if budget
                .bytes
                .is_some_and(|limit| bytes.saturating_add(size) > limit)
            {
                "bytes"
            } else {
                files += 1;
                bytes += size;
                return true;
            };
            skipped.push(Skipped {
                path: found.entry.path.clone(),
                why: Why::Budget(lacks.into()),
            });
            false
        });
    }

    /// Puts what was found in order, and reads what is not known.
    fn read_all(
        &mut self,
        tree: Tree,
        known: &Known,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Read, Error> {
        let mut plan = self.look(tree);
        let is_read = |found: &Found| found.state != State::Unread;
        // While the snapshot that the index was written with is kept, so is all that it needs.
        let nothing_new = self.parent.is_some() && plan.found.iter().all(is_read);
        if !nothing_new {
            // Packs that cannot be read are not built upon: a new snapshot is whole.
            let gone = if known.shelf().has_packs(&self.index.packs) {
                Vec::new()
            } else {
                plan.gone(&self.index, known)
            };
            if !gone.is_empty() {
                gone.into_iter()
                    .for_each(|number| self.index.forget(number));
                plan = self.look(self.walk()?);
            }
            plan.forget_what_is_gone(known);
        }
        let logs = plan.join_databases();
        let unread = plan.unread();
        let store = Store::new(self.vault, known, &self.index);
        let sealing = self.read(&mut plan, &unread, &logs, &store, progress)?;
        plan.finish();
        Ok(Read {
            plan,
            files: unread.len() as u64,
            sealing,
        })
    }

    fn moving(&self, plan: &Plan) -> Vec<PathBuf> {
        repositories::moving(plan, &self.index, self.began)
    }

    fn weave(&self, plan: &Plan) -> Woven {
        let settled = |facts: &Facts| is_settled(facts, self.began);
        let root = if settled(&self.facts) {
            stamp(&self.facts)
        } else {
            NONE
        };
        weave(&self.index, plan, root, &|found| {
            stamp_of(found, settled(&found.facts))
        })
    }

    fn unavailable(&self, broken: Broken) -> Error {
        Error::Unavailable {
            place: self.place.to_owned(),
            reason: broken.0.to_owned(),
        }
    }

    /// Begins anew, with what was read in mind.
    fn remember(&mut self, read: &Read) {
        let woven = self.weave(&read.plan);
        let mut bytes = index::head(Digest::of(&woven.whole), &woven.stamps, &[]);
        bytes.extend_from_slice(&woven.whole);
        // In memory alone: what is kept so far is named by nothing yet.
        self.index = Index::from_bytes(bytes);
        self.began = machine::stamp_clock();
    }

    /// Makes a snapshot of what was read: durable, then listed.
    fn keep(self, read: Read, known: &Known) -> Result<Captured, Error> {
        let Read {
            plan,
            files,
            sealing,
        } = read;
        let woven = self.weave(&plan);
        let snapshot = Digest::of(&woven.whole);
        let changed = self.index.snapshot != Some(snapshot) || self.index.stamps() != woven.stamps;
        if changed {
            // P4: what is listed can be restored.
            plan.check().map_err(|broken| self.unavailable(broken))?;
        }
        let unstable =
            |found: &&Found| matches!(found.entry.kind, Kind::File { unstable: true, .. });
        let unstable = plan.found.iter().filter(unstable);
        debug_assert!(self.adds_up(&woven), "what is stored can be put together");
        let captured = Captured {
            snapshot,
            files: woven.summary.files,
            folders: woven.summary.folders,
            links: woven.summary.links,
            bytes: woven.summary.bytes,
            read_files: files,
            stored_bytes: 0,
            unstable: unstable.map(|found| found.entry.path.clone()).collect(),
            skipped: plan.skipped,
            repositories: woven.summary.repositories,
        };
        let since = self.since(woven.changes, woven.entries);
        let draft = || {
            let stored = self.vault.as_stored(&woven.whole, since)?;
            self.vault.settle(&stored)
        };
        let is_new = !self.vault.is_kept(snapshot);
        let manifest = is_new.then(draft).transpose()?;
        // P4: what the manifest names is durable before it has a name itself.
        let mut grown = sealing.wait()?;
        let remember =
            || changed.then(|| self.draft_index(snapshot, &woven.stamps, &woven.whole, known));
        let index = match manifest {
            None => {
                self.vault.renew(snapshot)?;
                remember()
            }
            Some(manifest) => {
                let is_long = woven.whole.len() >= LONG;
                let store = || self.vault.store(snapshot, manifest);
                let (kept, index) = machine::both(is_long, store, remember);
                grown += kept?;
                self.vault.list_as_kept(snapshot)?;
                index
            }
        };
        // Losing the index costs a read of everything; the snapshot is taken all the same.
        let _ = index.map(|draft| draft?.publish_unsynced(&self.index_path));
        Ok(Captured {
            stored_bytes: grown,
            ..captured
        })
    }

    /// What changed since the snapshot before, if that is what the index is about and little did.
    fn since(&self, changes: Changes, entries: usize) -> Option<(Digest, Changes)> {
        let parent = self.parent.filter(|_| self.parent == self.index.snapshot)?;
        changes.are_few(entries).then_some((parent, changes))
    }

    /// Whether the changes turn what the index says into what was woven.
    fn adds_up(&self, woven: &Woven) -> bool {
        let before = self.index.manifest();
        before.is_empty()
            || delta::apply(before, slice::from_ref(&woven.changes)).as_ref() == Ok(&woven.whole)
    }

    /// Writes down how files look, for the next time.
    fn draft_index(
        &self,
        snapshot: Digest,
        stamps: &[u8],
        manifest: &[u8],
        known: &Known,
    ) -> io::Result<SafeDraft> {
        // Without a list, content is looked for piece by piece.
        let packs = self.vault.sound_packs(known.shelf()).unwrap_or_default();
        let mut draft = self.vault.safe.draft(&self.vault.drafts)?.passing();
        draft.write(&index::head(snapshot, stamps, &packs))?;
        draft.write(manifest)?;
        Ok(draft)
    }
}

/// What became of a manifest that was put together elsewhere.
pub(crate) fn summary(
    snapshot: Digest,
    manifest: Manifest,
    read_files: u64,
    stored_bytes: u64,
) -> Captured {
    let mut counts = Summary::default();
    for entry in &manifest.entries {
        counts.add(bytes(&entry.path), Sort::of(entry), entry.size());
    }
    let unstable = |entry: &&Entry| matches!(entry.kind, Kind::File { unstable: true, .. });
    let unstable = manifest.entries.iter().filter(unstable);
    Captured {
        snapshot,
        files: counts.files,
        folders: counts.folders,
        links: counts.links,
        bytes: counts.bytes,
        read_files,
        stored_bytes,
        unstable: unstable.map(|entry| entry.path.clone()).collect(),
        skipped: manifest.skipped,
        repositories: counts.repositories,
    }
}
