//! Captures a snapshot: walks the folder, reads what is new, writes packs, manifest and head.

mod job;
mod manifest_merge;
mod plan;
mod repositories;
mod unchanged;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::slice;

use segno_core::digest::Digest;
use segno_core::snapshot::FolderUse;

use crate::delta::{self, Changes};
use crate::encrypted_file::EncryptedDraft;
use crate::entry::{Entry, EntryType, FileTime, Kind, Skipped, Why};
use crate::error::Error;
use crate::index::{self, Index, NONE, Summary, has_trusted_stamp, stamp};
use crate::machine;
use crate::manifest::{Manifest, bytes};
use crate::openat::{self, Facts};
use crate::pack::{PackSync, StoredChunks};
use crate::read::Stamps;
use crate::recheck::Recheck;
use crate::request::{CaptureReport, Progress, Request};
use crate::snapshot_store::SnapshotStore;
use crate::walk::{Tree, Walk, guard};
use crate::wire::Broken;

use job::Previous;
use manifest_merge::{MergedManifest, merge, stamp_of};
use plan::{Found, Plan, State, entry};

impl SnapshotStore {
    /// Takes a snapshot of a folder. The snapshot is durable and listed on return. The same tree
    /// gives the same snapshot.
    ///
    /// Several captures may run at once, in several processes.
    pub fn capture(
        &self,
        request: &Request<'_>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<CaptureReport, Error> {
        let place = guard(request.root, request.home)?;
        self.own.check(&place, FolderUse::Workspace)?;
        let _lock = self.lock_shared()?;
        let mut capture = Capture::new(self, request, &place)?;
        let tree = capture.walk()?;
        if let Some(same) = capture.unchanged_snapshot(&tree) {
            self.touch_head(same.snapshot)?;
            return Ok(same);
        }
        let known = StoredChunks::new(self.usable_packs()?);
        let mut read = capture.read_all(tree, &known, progress)?;
        for millis in PAUSES {
            if capture.changing_refs(&read.plan).is_empty() {
                return capture.commit(read, &known);
            }
            machine::sleep(std::time::Duration::from_millis(millis));
            capture.restart_with(&read);
            let mut later = capture.read_all(capture.walk()?, &known, progress)?;
            later.files += read.files;
            later.pack_sync.add(read.pack_sync);
            if capture.changing_refs(&later.plan).is_empty() {
                return capture.commit(later, &known);
            }
            if repositories::can_combine(&capture.index, &later.plan) {
                repositories::combine(&capture.index, &mut later.plan);
                return capture.commit(later, &known);
            }
            read = later;
        }
        let changing = capture.changing_refs(&read.plan);
        repositories::mark_unstable(&mut read.plan, &changing);
        capture.commit(read, &known)
    }
}

/// How many milliseconds to wait before a git folder in use is read again.
const PAUSES: [u64; 4] = [1, 5, 25, 125];

/// Manifests of at least this many bytes are written with two threads.
const LONG: usize = 1024 * 1024;

struct Read {
    plan: Plan,
    /// The number of files that were read.
    files: u64,
    /// The packs that are being written to the disk meanwhile.
    pack_sync: PackSync,
}

struct Capture<'a> {
    store: &'a SnapshotStore,
    request: &'a Request<'a>,
    place: &'a Path,
    root: OwnedFd,
    facts: Facts,
    index_path: PathBuf,
    index: Index,
    /// The snapshot that the index was written with, if it is still listed.
    parent: Option<Digest>,
    stamps: Stamps<'a>,
    /// When the walk began, by the clock that stamps files.
    began: FileTime,
    /// When the time budget ends.
    deadline: Option<std::time::Duration>,
}

impl<'a> Capture<'a> {
    fn new(
        store: &'a SnapshotStore,
        request: &'a Request<'a>,
        place: &'a Path,
    ) -> Result<Self, Error> {
        let to_error = |error| Error::at(place, error);
        let root = openat::root(place).map_err(to_error)?;
        let facts = Facts::of(&root).map_err(to_error)?;
        let index_path = index::index_path(&store.index, place, facts.device);
        let index = Index::read(&store.encrypted_files, &index_path);
        Ok(Self {
            store,
            request,
            place,
            root,
            facts,
            parent: index.snapshot.filter(|parent| store.is_listed(*parent)),
            index,
            index_path,
            stamps: Stamps::new(&store.drafts),
            began: machine::stamp_clock(),
            deadline: request
                .budget
                .time
                .map(|time| request.clock.elapsed().saturating_add(time)),
        })
    }

    fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| self.request.clock.elapsed() >= deadline)
    }

    fn walk(&self) -> Result<Tree, Error> {
        let walk = Walk {
            root: &self.root,
            scope: self.request.scope,
            index: &self.index,
            reach: self.request.reach,
            own: &self.store.own,
            files: self.request.budget.files.unwrap_or(u64::MAX),
            is_late: &|| self.is_late(),
            skip_unchanged: !self.request.budget.is_limited(),
            recheck: Recheck::sample(self.request.recheck_per_mille, self.began),
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

    fn plan(&self, mut tree: Tree) -> Plan {
        let root = &mut tree.folders[0];
        let root = match (root.known, &self.index.root) {
            (Some(_), Some(root)) => root.clone(),
            _ => Entry {
                attributes: std::mem::take(&mut root.attributes),
                ..entry(PathBuf::new(), &self.facts, Kind::Folder)
            },
        };
        let mut plan = Plan::new(root, &mut tree, &self.index);
        self.apply_budget(&mut plan);
        plan
    }

    fn apply_budget(&self, plan: &mut Plan) {
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

    /// Plans the capture and reads the files whose content is not known.
    fn read_all(
        &mut self,
        tree: Tree,
        known: &StoredChunks,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Read, Error> {
        let mut plan = self.plan(tree);
        let is_read = |found: &Found| found.state != State::Unread;
        // While the snapshot that the index was written with is listed, everything it references is
        // kept.
        let nothing_new = self.parent.is_some() && plan.found.iter().all(is_read);
        if !nothing_new {
            // The capture does not build upon packs that cannot be read, so that the new snapshot
            // is complete.
            let missing = if known.pack_set().has_packs(&self.index.packs) {
                Vec::new()
            } else {
                plan.missing(&self.index, known)
            };
            if !missing.is_empty() {
                missing
                    .into_iter()
                    .for_each(|number| self.index.clear_stamp(number));
                plan = self.plan(self.walk()?);
            }
            plan.mark_missing_unread(known);
        }
        let logs = plan.join_databases();
        let unread = plan.unread();
        let previous = Previous::new(self.store, known, &self.index);
        let pack_sync = self.read(&mut plan, &unread, &logs, &previous, progress)?;
        plan.finish();
        Ok(Read {
            plan,
            files: unread.len() as u64,
            pack_sync,
        })
    }

    fn changing_refs(&self, plan: &Plan) -> Vec<PathBuf> {
        repositories::changing_refs(plan, &self.index, self.began)
    }

    fn merge_manifest(&self, plan: &Plan) -> MergedManifest {
        let trusted = |facts: &Facts| has_trusted_stamp(facts, self.began);
        let root = if trusted(&self.facts) {
            stamp(&self.facts)
        } else {
            NONE
        };
        merge(&self.index, plan, root, &|found| {
            stamp_of(found, trusted(&found.facts))
        })
    }

    fn unavailable(&self, broken: Broken) -> Error {
        Error::Unavailable {
            place: self.place.to_owned(),
            reason: broken.0.to_owned(),
        }
    }

    /// Starts over with the content read so far as the index.
    fn restart_with(&mut self, read: &Read) {
        let merged = self.merge_manifest(&read.plan);
        let mut bytes = index::head(Digest::of(&merged.whole), &merged.stamps, &[]);
        bytes.extend_from_slice(&merged.whole);
        // In memory only: nothing references the content stored so far.
        self.index = Index::from_bytes(bytes);
        self.began = machine::stamp_clock();
    }

    /// Commits a snapshot of what was read: durable first, then listed.
    fn commit(self, read: Read, known: &StoredChunks) -> Result<CaptureReport, Error> {
        let Read {
            plan,
            files,
            pack_sync,
        } = read;
        let merged = self.merge_manifest(&plan);
        let snapshot = Digest::of(&merged.whole);
        let changed = self.index.snapshot != Some(snapshot) || self.index.stamps() != merged.stamps;
        if changed {
            // P4: everything that is listed can be restored.
            plan.check().map_err(|broken| self.unavailable(broken))?;
        }
        let unstable =
            |found: &&Found| matches!(found.entry.kind, Kind::File { unstable: true, .. });
        let unstable = plan.found.iter().filter(unstable);
        debug_assert!(
            self.changes_match(&merged),
            "the stored changes reproduce the manifest"
        );
        let captured = CaptureReport {
            snapshot,
            files: merged.summary.files,
            folders: merged.summary.folders,
            links: merged.summary.links,
            bytes: merged.summary.bytes,
            read_files: files,
            stored_bytes: 0,
            unstable: unstable.map(|found| found.entry.path.clone()).collect(),
            skipped: plan.skipped,
            repositories: merged.summary.repositories,
        };
        let since = self.changes_since_parent(merged.changes, merged.entries);
        let draft = || {
            let stored = self.store.encode_manifest(&merged.whole, since)?;
            self.store.write_manifest_draft(&stored)
        };
        let is_new = !self.store.is_listed(snapshot);
        let manifest = is_new.then(draft).transpose()?;
        // P4: everything that the manifest references is durable before the manifest has a name.
        let mut grown = pack_sync.wait()?;
        let write_index =
            || changed.then(|| self.draft_index(snapshot, &merged.stamps, &merged.whole, known));
        let index = match manifest {
            None => {
                self.store.touch_head(snapshot)?;
                write_index()
            }
            Some(manifest) => {
                let is_long = merged.whole.len() >= LONG;
                let publish = || self.store.publish_manifest(snapshot, manifest);
                let (written, index) = machine::join(is_long, publish, write_index);
                grown += written?;
                self.store.write_head(snapshot)?;
                index
            }
        };
        // Without the index, the next capture reads everything again; the snapshot is complete all
        // the same.
        let _ = index.map(|draft| draft?.publish_unsynced(&self.index_path));
        Ok(CaptureReport {
            stored_bytes: grown,
            ..captured
        })
    }

    /// The changes since the previous snapshot, if the index belongs to it and the changes are few.
    fn changes_since_parent(&self, changes: Changes, entries: usize) -> Option<(Digest, Changes)> {
        let parent = self.parent.filter(|_| self.parent == self.index.snapshot)?;
        changes.are_few(entries).then_some((parent, changes))
    }

    /// Whether the changes turn the manifest in the index into the merged one.
    fn changes_match(&self, merged: &MergedManifest) -> bool {
        let before = self.index.manifest();
        before.is_empty()
            || delta::apply(before, slice::from_ref(&merged.changes)).as_ref() == Ok(&merged.whole)
    }

    /// Writes the index for the next capture: the stat data of all files, and the manifest.
    fn draft_index(
        &self,
        snapshot: Digest,
        stamps: &[u8],
        manifest: &[u8],
        known: &StoredChunks,
    ) -> io::Result<EncryptedDraft> {
        // Without the list of packs, the next capture looks up content chunk by chunk.
        let packs = self
            .store
            .undamaged_packs(known.pack_set())
            .unwrap_or_default();
        let mut draft = self
            .store
            .encrypted_files
            .draft(&self.store.drafts)?
            .unverified();
        draft.write(&index::head(snapshot, stamps, &packs))?;
        draft.write(manifest)?;
        Ok(draft)
    }
}

/// The result for a manifest that was assembled elsewhere.
pub(crate) fn summary(
    snapshot: Digest,
    manifest: Manifest,
    read_files: u64,
    stored_bytes: u64,
) -> CaptureReport {
    let mut counts = Summary::default();
    for entry in &manifest.entries {
        counts.add(bytes(&entry.path), EntryType::of(entry), entry.size());
    }
    let unstable = |entry: &&Entry| matches!(entry.kind, Kind::File { unstable: true, .. });
    let unstable = manifest.entries.iter().filter(unstable);
    CaptureReport {
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
