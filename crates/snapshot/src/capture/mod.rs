//! Taking a snapshot: look at everything, read what is new, write it down.

mod job;
mod known;
mod plan;
mod repositories;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;

use crate::beneath::{self, Facts};
use crate::entry::{Entry, Kind, Moment, Skipped, Why};
use crate::error::Error;
use crate::index::{self, Index, Scribe, Summary, is_settled};
use crate::machine;
use crate::manifest::Manifest;
use crate::pack::{Known, Shelf};
use crate::request::{Captured, Progress, Request};
use crate::vault::Vault;
use crate::walk::{Tree, Walk, guard};

use job::Store;
use known::digest_of;
use plan::{Found, Plan, State, entry};

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
        if let Some(known) = capture.known(&tree) {
            self.renew(known.snapshot)?;
            return Ok(known);
        }
        let mut read = capture.read_all(tree, progress)?;
        for millis in PAUSES {
            let moving = capture.moving(&read);
            if moving.is_empty() {
                return capture.keep(read);
            }
            machine::pause(std::time::Duration::from_millis(millis));
            capture.remember(&read);
            let mut later = capture.read_all(capture.walk()?, progress)?;
            later.files += read.files;
            later.stored += read.stored;
            if capture.moving(&later).is_empty() {
                return capture.keep(later);
            }
            if repositories::fits(&read.manifest, &later.manifest) {
                let joined = repositories::join(&read.manifest, later.manifest, later.facts);
                let (manifest, facts) = joined;
                return capture.keep(Read {
                    manifest,
                    facts,
                    ..later
                });
            }
            read = later;
        }
        let moving = capture.moving(&read);
        repositories::mark(&mut read.manifest, &moving);
        capture.keep(read)
    }
}

/// How long a git folder that is used is left alone before it is read again.
const PAUSES: [u64; 4] = [1, 5, 25, 125];

/// A folder, read.
struct Read {
    manifest: Manifest,
    facts: Vec<(Facts, State)>,
    /// What the snapshot before has, if that was looked at.
    before: Option<Manifest>,
    /// How many files were read.
    files: u64,
    /// How many bytes the vault grew by.
    stored: u64,
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
        Ok(Self {
            vault,
            request,
            place,
            root,
            facts,
            index: Index::read(&vault.safe, &index_path),
            index_path,
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
        let mut plan = Plan {
            root: entry(PathBuf::new(), &self.facts, Kind::Folder),
            found: Vec::new(),
            skipped: Vec::new(),
        };
        plan.root.attributes = std::mem::take(&mut tree.folders[0].attributes);
        plan.gather(&mut tree, 0, Path::new(""));
        plan.pair_twins();
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

    /// Looks at everything, and reads what is not known.
    fn read_all(&self, tree: Tree, progress: &(dyn Fn(Progress) + Sync)) -> Result<Read, Error> {
        let mut plan = self.look(tree);
        self.doubt(&mut plan);
        let parent = self.parent();
        let is_read = |found: &Found| found.state != State::Unread;
        // While the snapshot that the index was written with is kept, so is all that it needs.
        let nothing_new = parent.is_some() && plan.found.iter().all(is_read);
        let shelf = if nothing_new {
            Shelf::default()
        } else {
            self.vault.fresh_shelf()?
        };
        let known = Known::new(shelf.digests());
        if !nothing_new {
            // Packs that cannot be read are not built upon: a new snapshot is whole.
            plan.forget_what_is_gone(&known);
        }
        let logs = plan.join_databases();
        let unread = plan.unread();
        let store = Store::new(self.vault, &known, &shelf, parent);
        let stored = self.read(&mut plan, &unread, &logs, &store, progress)?;
        let before = store.into_before();
        let (manifest, facts) = plan.finish();
        Ok(Read {
            manifest,
            facts,
            before,
            files: unread.len() as u64,
            stored,
        })
    }

    /// The snapshot that the index was written with, while it is kept.
    fn parent(&self) -> Option<Digest> {
        let parent = self.index.snapshot;
        parent.filter(|parent| self.vault.is_kept(*parent))
    }

    fn moving(&self, read: &Read) -> Vec<PathBuf> {
        repositories::moving(&read.manifest, &read.facts, self.began)
    }

    /// Begins anew, with what was read in mind.
    fn remember(&mut self, read: &Read) {
        let parent = self.index.snapshot.unwrap_or(Digest::of(&[]));
        let scribe = self.scribe(parent, &read.manifest, &read.facts);
        // In memory alone: what is kept so far is named by nothing yet.
        self.index = Index::from_bytes(scribe.finish());
        self.began = machine::stamp_clock();
    }

    /// Makes a snapshot of what was read: durable, then listed.
    fn keep(self, read: Read) -> Result<Captured, Error> {
        let Read {
            manifest,
            facts,
            before,
            files,
            mut stored,
        } = read;
        let parent = self.parent();
        let whole = manifest.encode();
        let snapshot = Digest::of(&whole);
        if self.vault.is_kept(snapshot) {
            self.vault.renew(snapshot)?;
        } else {
            // P4: what is listed can be restored.
            manifest.check().map_err(|broken| Error::Unavailable {
                place: self.place.to_owned(),
                reason: broken.0.to_owned(),
            })?;
            let assemble = |parent| before.or_else(|| self.vault.assemble(parent).ok());
            let before = parent.and_then(assemble);
            let before = parent.zip(before.as_ref());
            stored += self.vault.store(snapshot, &manifest, whole, before)?;
            self.vault.list_as_kept(snapshot)?;
        }
        if files > 0 || self.index.snapshot != Some(snapshot) {
            self.write_index(snapshot, &manifest, &facts);
        }
        Ok(summary(snapshot, manifest, files, stored))
    }

    /// Writes down how files look, for the next time. Losing it costs a read of everything.
    fn write_index(&self, snapshot: Digest, manifest: &Manifest, facts: &[(Facts, State)]) {
        let scribe = self.scribe(snapshot, manifest, facts);
        let write = || {
            let mut draft = self.vault.safe.draft(&self.vault.drafts)?;
            draft.write(&scribe.finish())?;
            draft.publish_unsynced(&self.index_path)
        };
        // The snapshot is taken whether or not this worked.
        let _ = write();
    }

    fn scribe(&self, snapshot: Digest, manifest: &Manifest, facts: &[(Facts, State)]) -> Scribe {
        let settled = |facts: &Facts| is_settled(facts, self.began);
        let root = Some(&self.facts).filter(|facts| settled(facts));
        let mut scribe = Scribe::new(snapshot, &counts(manifest), root);
        for (entry, (facts, state)) in manifest.entries.iter().zip(facts) {
            match entry.kind {
                Kind::Folder => {
                    scribe.folder(&entry.path, Some(facts).filter(|facts| settled(facts)));
                }
                Kind::File { unstable: true, .. } | Kind::Twin { .. } => {}
                Kind::File { .. } | Kind::Link { .. } => {
                    if *state == State::Settled && settled(facts) {
                        scribe.add(entry, facts);
                    }
                }
            }
        }
        scribe
    }
}

/// What a manifest has, in short.
fn counts(manifest: &Manifest) -> Summary {
    let mut counts = Summary {
        skipped: Some(digest_of(&manifest.skipped)),
        ..Summary::default()
    };
    for entry in &manifest.entries {
        counts.bytes += entry.size();
        if entry.path.file_name().is_some_and(|name| name == ".git") {
            let folder = entry.path.parent().map(Path::to_owned);
            counts.repositories.extend(folder);
        }
        match entry.kind {
            Kind::Folder => counts.folders += 1,
            Kind::Link { .. } => counts.links += 1,
            Kind::File { .. } | Kind::Twin { .. } => counts.files += 1,
        }
    }
    counts
}

pub(crate) fn summary(
    snapshot: Digest,
    manifest: Manifest,
    read_files: u64,
    stored_bytes: u64,
) -> Captured {
    let counts = counts(&manifest);
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
