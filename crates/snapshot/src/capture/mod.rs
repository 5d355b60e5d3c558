//! Taking a snapshot: look at everything, read what is new, write it down.

mod plan;
mod repositories;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use segno_core::digest::Digest;

use crate::beneath::{self, Facts};
use crate::entry::{Kind, Moment, Skipped, Why};
use crate::error::Error;
use crate::files::{self, Draft};
use crate::index::{self, Index, Scribe, is_settled};
use crate::machine;
use crate::manifest::Manifest;
use crate::pack::{Known, Packer};
use crate::read::{Reader, Reading};
use crate::request::{Captured, Progress, Request};
use crate::vault::Vault;
use crate::walk::{Walk, guard};

use plan::{Plan, State, entry};

/// How many bytes of neighbouring files a thread takes at once.
const BATCH: u64 = 4 * 1024 * 1024;

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
        let mut read = capture.read_all(progress)?;
        for millis in PAUSES {
            let moving = capture.moving(&read);
            if moving.is_empty() {
                return capture.keep(read);
            }
            machine::pause(std::time::Duration::from_millis(millis));
            capture.remember(&read);
            let mut later = capture.read_all(progress)?;
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
            index: Index::read(&index_path),
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

    fn look(&self) -> Result<Plan, Error> {
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
        let mut tree = walk.run().map_err(|error| Error::at(self.place, error))?;
        if let Some(why @ Why::Unreadable(_)) = &tree.folders[0].closed {
            return Err(Error::Unavailable {
                place: self.place.to_owned(),
                reason: why.to_string(),
            });
        }
        let mut plan = Plan {
            root: entry(PathBuf::new(), &self.facts, Kind::Folder),
            found: Vec::new(),
            skipped: Vec::new(),
        };
        plan.root.attributes = std::mem::take(&mut tree.folders[0].attributes);
        plan.gather(&mut tree, 0, Path::new(""));
        plan.pair_twins();
        self.keep_to_budget(&mut plan);
        Ok(plan)
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

    /// Some files are read again though they look unchanged.
    fn doubt(&self, plan: &mut Plan) {
        let Ok(chance) = machine::chance() else {
            return;
        };
        let turn = u64::from(chance[0]) << 8 | u64::from(chance[1]);
        for (number, found) in plan.found.iter_mut().enumerate() {
            let is_file = matches!(found.entry.kind, Kind::File { .. });
            let lot = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            if is_file && lot.wrapping_add(turn) % 1000 < u64::from(self.request.doubt) {
                found.state = State::Unread;
            }
        }
    }

    /// Looks at everything, and reads what is not known.
    fn read_all(&self, progress: &(dyn Fn(Progress) + Sync)) -> Result<Read, Error> {
        let mut plan = self.look()?;
        self.doubt(&mut plan);
        let unread: Vec<usize> = (0..plan.found.len())
            .filter(|&number| plan.found[number].state == State::Unread)
            .collect();
        // While the snapshot that the index was written with is kept, so is all that it needs.
        let parent = self.parent();
        let known = if unread.is_empty() && parent.is_some() {
            Known::default()
        } else {
            Known::new(self.vault.fresh_shelf()?.digests())
        };
        let unread = if parent.is_some() {
            unread
        } else {
            plan.forget_what_is_gone(&known)
        };
        let stored = self.read(&mut plan, &unread, &known, progress)?;
        let (manifest, facts) = plan.finish();
        Ok(Read {
            manifest,
            facts,
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
            files,
            mut stored,
        } = read;
        let parent = self.parent();
        let whole = manifest.encode();
        let snapshot = Digest::of(&whole);
        if !self.vault.is_kept(snapshot) {
            // P4: what is listed can be restored.
            manifest.check().map_err(|broken| Error::Unavailable {
                place: self.place.to_owned(),
                reason: broken.0.to_owned(),
            })?;
            let before =
                parent.and_then(|parent| Some((parent, self.vault.assemble(parent).ok()?)));
            let before = before
                .as_ref()
                .map(|(parent, manifest)| (*parent, manifest));
            stored += self.vault.store(snapshot, &manifest, whole, before)?;
            self.vault.list_as_kept(snapshot)?;
        }
        if files > 0 || self.index.snapshot != Some(snapshot) {
            self.write_index(snapshot, &manifest, &facts);
        }
        Ok(summary(snapshot, manifest, files, stored))
    }

    /// Reads what has to be read, with several threads if there is much.
    fn read(
        &self,
        plan: &mut Plan,
        unread: &[usize],
        known: &Known,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<u64, Error> {
        if unread.is_empty() {
            return Ok(0);
        }
        let sizes: Vec<u64> = unread
            .iter()
            .map(|&number| plan.found[number].entry.size())
            .collect();
        let batches = batches(unread, &sizes);
        let total: u64 = sizes.iter().sum();
        let threads = if total < BATCH {
            1
        } else {
            machine::workers().min(batches.len())
        };
        let paths: Vec<&Path> = unread
            .iter()
            .map(|&number| &*plan.found[number].entry.path)
            .collect();
        let job = Job {
            capture: self,
            paths: &paths,
            batches: &batches,
            next: AtomicUsize::new(0),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            readings: Mutex::new(Vec::with_capacity(unread.len())),
            progress,
        };
        let stored = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads)
                .map(|_| scope.spawn(|| job.work(known)))
                .collect();
            let mut stored = job.work(known);
            for other in others {
                let ended = || {
                    Err(Error::at(
                        &self.vault.packs,
                        std::io::Error::other("a thread ended early"),
                    ))
                };
                let other = other.join().unwrap_or_else(|_| ended());
                stored = stored.and_then(|stored| Ok(stored + other?));
            }
            stored
        })?;
        // P4: what the manifest will name is durable before it is written.
        files::sync_folder(&self.vault.packs)
            .map_err(|error| Error::at(&self.vault.packs, error))?;
        let readings = job
            .readings
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        for (at, reading) in readings {
            plan.note(unread[at], reading);
        }
        Ok(stored)
    }

    /// Writes down how files look, for the next time. Losing it costs a read of everything.
    fn write_index(&self, snapshot: Digest, manifest: &Manifest, facts: &[(Facts, State)]) {
        let scribe = self.scribe(snapshot, manifest, facts);
        let write = || {
            let mut draft = Draft::new(&self.vault.drafts)?;
            draft.write(&scribe.finish())?;
            draft.publish_unsynced(&self.index_path)
        };
        // The snapshot is taken whether or not this worked.
        let _ = write();
    }

    fn scribe(&self, snapshot: Digest, manifest: &Manifest, facts: &[(Facts, State)]) -> Scribe {
        let mut scribe = Scribe::new(snapshot);
        for (entry, (facts, state)) in manifest.entries.iter().zip(facts) {
            let is_file = matches!(
                entry.kind,
                Kind::File {
                    unstable: false,
                    ..
                }
            );
            if is_file && *state == State::Settled && is_settled(facts, self.began) {
                scribe.add(entry, facts);
            }
        }
        scribe
    }
}

/// Reading, shared by several threads.
struct Job<'a> {
    capture: &'a Capture<'a>,
    paths: &'a [&'a Path],
    batches: &'a [std::ops::Range<usize>],
    next: AtomicUsize,
    files: AtomicU64,
    bytes: AtomicU64,
    readings: Mutex<Vec<(usize, Reading)>>,
    progress: &'a (dyn Fn(Progress) + Sync),
}

impl Job<'_> {
    fn work(&self, known: &Known) -> Result<u64, Error> {
        let vault = self.capture.vault;
        let mut packer = Packer::new(&vault.drafts, &vault.packs, known)?;
        let mut reader = Reader::new(&self.capture.root, &mut packer);
        loop {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = self.batches.get(next) else {
                break;
            };
            let mut readings = Vec::with_capacity(batch.len());
            for at in batch.clone() {
                let reading = if self.capture.is_late() {
                    Reading::Left(Why::Budget("time".into()))
                } else {
                    reader.read(self.paths[at])?
                };
                if let Reading::Kept(kept) = &reading {
                    self.bytes.fetch_add(kept.facts.size, Ordering::Relaxed);
                }
                readings.push((at, reading));
            }
            let count = readings.len() as u64;
            self.readings
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(readings);
            (self.progress)(Progress {
                files: self.files.fetch_add(count, Ordering::Relaxed) + count,
                of: self.paths.len() as u64,
                bytes: self.bytes.load(Ordering::Relaxed),
            });
        }
        drop(reader);
        packer.finish()
    }
}

/// Neighbours, about [`BATCH`] bytes of them at a time.
fn batches(unread: &[usize], sizes: &[u64]) -> Vec<std::ops::Range<usize>> {
    let mut batches = Vec::new();
    let (mut from, mut bytes) = (0, 0_u64);
    for (at, size) in sizes.iter().enumerate() {
        bytes = bytes.saturating_add(*size);
        if bytes >= BATCH || at - from >= 1024 {
            batches.push(from..at + 1);
            (from, bytes) = (at + 1, 0);
        }
    }
    if from < unread.len() {
        batches.push(from..unread.len());
    }
    batches
}

fn summary(snapshot: Digest, manifest: Manifest, read_files: u64, stored_bytes: u64) -> Captured {
    let mut captured = Captured {
        snapshot,
        files: 0,
        folders: 0,
        links: 0,
        bytes: 0,
        read_files,
        stored_bytes,
        unstable: Vec::new(),
        skipped: manifest.skipped,
        repositories: Vec::new(),
    };
    for entry in manifest.entries {
        captured.bytes += entry.size();
        if entry.path.file_name().is_some_and(|name| name == ".git") {
            let folder = entry.path.parent().map(Path::to_owned);
            captured.repositories.extend(folder);
        }
        match entry.kind {
            Kind::Folder => captured.folders += 1,
            Kind::Link { .. } => captured.links += 1,
            Kind::File { unstable, .. } => {
                captured.files += 1;
                if unstable {
                    captured.unstable.push(entry.path);
                }
            }
            Kind::Twin { .. } => captured.files += 1,
        }
    }
    captured
}
