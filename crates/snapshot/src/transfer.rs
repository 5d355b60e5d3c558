//! Transfers snapshots from one store to another, as the files that they are stored in.
//!
//! Files are sent as they are, and nothing is deleted meanwhile. Received files are used only after
//! they were completely verified, and snapshots are listed only when nothing is missing (P4, P9).

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;
use segno_core::snapshot::transfer::{self, Part, PartKind, PartSet};

use crate::delta::{self, Stored};
use crate::entry::{Entry, Kind};
use crate::error::Error;
use crate::files;
use crate::manifest::Manifest;
use crate::pack::{self, PENDING_SUFFIX, PackSet, Proof, read_table};
use crate::snapshot_store::SnapshotStore;

impl SnapshotStore {
    /// Every file that these snapshots reference: manifests first, each after the one that it
    /// builds upon. Nothing is deleted from the store until the result is dropped.
    pub fn collect_parts(&self, snapshots: &[Digest]) -> Result<PartSet, Error> {
        let hold = self.lock_shared()?;
        let (mut manifests, mut needed) = (Vec::new(), HashSet::new());
        for &snapshot in snapshots {
            self.chain(snapshot, &mut manifests)?;
            let manifest = self.manifest(snapshot)?;
            let content = manifest.entries.iter().flat_map(Entry::content);
            needed.extend(content.map(|chunk| chunk.digest));
        }
        let mut parts = Vec::new();
        for name in manifests {
            let path = self.manifests.join(name.to_string());
            parts.push((part_of(PartKind::Manifest, name, &path)?, path));
        }
        for name in self.pack_set()?.packs_with(&needed)? {
            let path = self.packs.join(name.to_string());
            parts.push((part_of(PartKind::Pack, name, &path)?, path));
        }
        let hold = Box::new(hold);
        Ok(PartSet { parts, guard: hold })
    }

    /// Appends a manifest and, before it, those that it builds upon.
    fn chain(&self, snapshot: Digest, manifests: &mut Vec<Digest>) -> Result<(), Error> {
        let mut chain = Vec::new();
        let mut at = snapshot;
        while !manifests.contains(&at) && chain.len() <= delta::CHAIN as usize {
            chain.push(at);
            match self.read_stored(at)? {
                Stored::Whole(_) => break,
                Stored::Changes { parent, .. } => at = parent,
            }
        }
        manifests.extend(chain.into_iter().rev());
        Ok(())
    }

    /// Those of `parts` that this store does not have.
    pub fn missing_parts(&self, parts: &[Part]) -> Result<Vec<Part>, Error> {
        let _lock = self.lock_shared()?;
        let mut lacking = Vec::new();
        for part in parts {
            if !self.has(part)? {
                lacking.push(*part);
            }
        }
        Ok(lacking)
    }

    fn has(&self, part: &Part) -> Result<bool, Error> {
        let name = part.name.to_string();
        match part.kind {
            PartKind::Pack => {
                for path in [self.packs.join(name), self.pending_path(part.name)] {
                    let is_there = path.symlink_metadata().is_ok();
                    let read = || read_table(&self.encrypted_files, &path, part.name);
                    if is_there && read().map_err(|error| Error::at(&path, error))?.is_ok() {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            // The stored form may differ; the manifest it gives must be right.
            PartKind::Manifest => match self.assemble(part.name) {
                Ok(_) => Ok(true),
                Err(Error::Damaged { .. } | Error::Hostile { .. }) => Ok(false),
                Err(error) => Err(error),
            },
        }
    }

    /// An empty file that a part can be written into.
    pub fn new_draft(&self) -> Result<transfer::Draft, Error> {
        let draft =
            files::Draft::new(&self.drafts).map_err(|error| Error::at(&self.drafts, error))?;
        Ok(transfer::Draft {
            path: draft.path().to_owned(),
            guard: Box::new(draft),
        })
    }

    /// Adds a part to the store after verifying it. A part that the store already has stays as it
    /// is.
    pub fn import_part(&self, part: &Part, draft: &transfer::Draft) -> Result<(), Error> {
        let _lock = self.lock_shared()?;
        if self.has(part)? {
            return Ok(());
        }
        let found = part_of(part.kind, part.name, &draft.path)?;
        if found != *part {
            let reason = "its length or its checksum has changed";
            return Err(Error::damaged(part.to_string(), reason));
        }
        let (folder, path) = match part.kind {
            PartKind::Pack => match pack::check(&self.encrypted_files, &draft.path, part.name)? {
                Proof::Whole => (&self.packs, self.packs.join(part.name.to_string())),
                Proof::ExceptPatches => (&self.packs, self.pending_path(part.name)),
            },
            PartKind::Manifest => {
                self.check_manifest(part.name, &draft.path)?;
                let path = self.manifests.join(part.name.to_string());
                (&self.manifests, path)
            }
        };
        let publish = || {
            files::open(&draft.path)?.sync_all()?;
            rustix::fs::rename(&draft.path, &path)?;
            files::sync_folder(folder)
        };
        publish().map_err(|error| Error::at(&path, error))
    }

    /// Verifies a received manifest against its name. Its parent is already here.
    fn check_manifest(&self, name: Digest, draft: &Path) -> Result<(), Error> {
        let damaged = |reason: &str| Error::damaged(format!("manifest {name}"), reason);
        let read = self.encrypted_files.read(draft, delta::LONGEST);
        let bytes = read.map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidData => damaged(&error.to_string()),
            _ => Error::at(draft, error),
        })?;
        let whole = match Stored::decode(&bytes).map_err(|broken| damaged(broken.0))? {
            Stored::Whole(bytes) => bytes,
            Stored::Changes {
                parent, changes, ..
            } => delta::apply(&self.manifest_bytes(parent)?, &[changes])
                .map_err(|broken| damaged(broken.0))?,
        };
        if Digest::of(&whole) != name {
            return Err(damaged("its content does not match its name"));
        }
        let decoded = Manifest::decode(&whole).map_err(|broken| damaged(broken.0));
        decoded.map(|_| ())
    }

    /// Lists received snapshots, if nothing that they reference is missing.
    pub fn register_snapshots(&self, snapshots: &[Digest]) -> Result<(), Error> {
        let _lock = self.lock_shared()?;
        self.admit_pending_packs()?;
        let pack_set = self.pack_set()?;
        for &snapshot in snapshots {
            let manifest = self.assemble(snapshot)?;
            let content = manifest.entries.iter().flat_map(Entry::content);
            let needed: HashSet<Digest> = content.map(|chunk| chunk.digest).collect();
            pack_set.packs_with(&needed)?;
        }
        for &snapshot in snapshots {
            self.write_head(snapshot)?;
        }
        Ok(())
    }

    /// The path of a received pack with patches of chunks in other packs. It cannot be verified
    /// before those have arrived, and no snapshot builds upon it until then.
    fn pending_path(&self, name: Digest) -> PathBuf {
        self.packs.join(format!("{name}{PENDING_SUFFIX}"))
    }

    /// The packs that are not verified yet.
    pub(crate) fn pending_packs(&self) -> Result<Vec<Digest>, Error> {
        let names = files::names(&self.packs).map_err(|error| Error::at(&self.packs, error))?;
        let guest =
            |name: &std::ffi::OsString| name.to_str()?.strip_suffix(PENDING_SUFFIX)?.parse().ok();
        Ok(names.iter().filter_map(guest).collect())
    }

    /// Verifies pending packs and adds them to the store. Those that need missing chunks stay
    /// pending.
    fn admit_pending_packs(&self) -> Result<(), Error> {
        let pending_packs = self.pending_packs()?;
        if pending_packs.is_empty() {
            return Ok(());
        }
        let packs = self.pack_names()?;
        let pack_set =
            PackSet::open_with_pending(&self.packs, &self.encrypted_files, packs, &pending_packs)?;
        let mut verified = Vec::new();
        for name in pending_packs {
            let path = self.pending_path(name);
            match pack::check_patches(&self.encrypted_files, &path, name, &pack_set) {
                Ok(()) => verified.push(name),
                Err(Error::Damaged { object, .. }) if !object.contains(&name.to_string()) => {}
                Err(error) => {
                    // It arrived damaged: the next attempt fetches it again.
                    files::remove(&path).map_err(|error| Error::at(&path, error))?;
                    return Err(error);
                }
            }
        }
        // Not before all are verified: the bases of one may be in another, under its pending name.
        for name in verified {
            let path = self.pending_path(name);
            rustix::fs::rename(&path, self.packs.join(name.to_string()))
                .map_err(|error| Error::at(&path, error))?;
        }
        files::sync_folder(&self.packs).map_err(|error| Error::at(&self.packs, error))
    }

    /// The files of a snapshot that [`SnapshotStore::put_files`] has made.
    pub fn attachments(&self, snapshot: Digest) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let mut attachments = BTreeMap::new();
        for entry in self.list(snapshot)? {
            if let (Kind::File { .. }, Some(name)) = (&entry.kind, entry.path.to_str()) {
                attachments.insert(name.to_owned(), self.read(snapshot, &entry.path)?);
            }
        }
        Ok(attachments.into_iter().collect())
    }
}

/// Describes a file as a part, by its length and its last bytes.
fn part_of(sort: PartKind, name: Digest, path: &Path) -> Result<Part, Error> {
    let (bytes, end) = files::read_tail::<32>(path).map_err(|error| Error::at(path, error))?;
    let check = end.as_ref().and_then(|end| Digest::from_bytes(end));
    let check =
        check.ok_or_else(|| Error::damaged(path.display().to_string(), "it is too short"))?;
    Ok(Part {
        kind: sort,
        name,
        checksum: check,
        bytes,
    })
}
