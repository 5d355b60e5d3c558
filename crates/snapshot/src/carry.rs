//! Snapshots on their way from one vault to another, as the files that they are kept in.
//!
//! Files go out as they are, and nothing is deleted meanwhile. What comes in is believed only after
//! all of it was checked, and is listed only when nothing is missing (P4, P9).

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use segno_core::carry::{self, Load, Part, Sort};
use segno_core::digest::Digest;

use crate::delta::{self, Stored};
use crate::entry::{Entry, Kind};
use crate::error::Error;
use crate::files;
use crate::manifest::Manifest;
use crate::pack::{self, Proof, Shelf, read_table};
use crate::vault::Vault;

/// What is put behind the name of a pack that waits.
pub(crate) const GUEST: &str = ".guest";

impl Vault {
    /// Every file that these snapshots need: manifests first, each after the one that it builds on.
    /// Nothing is deleted from the vault while the answer is held.
    pub fn load(&self, snapshots: &[Digest]) -> Result<Load, Error> {
        let hold = self.hold()?;
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
            parts.push((part_of(Sort::Manifest, name, &path)?, path));
        }
        for name in self.shelf()?.packs_with(&needed)? {
            let path = self.packs.join(name.to_string());
            parts.push((part_of(Sort::Pack, name, &path)?, path));
        }
        let hold = Box::new(hold);
        Ok(Load { parts, hold })
    }

    /// Appends a manifest and those that it builds on, which come first.
    fn chain(&self, snapshot: Digest, manifests: &mut Vec<Digest>) -> Result<(), Error> {
        let mut chain = Vec::new();
        let mut at = snapshot;
        while !manifests.contains(&at) && chain.len() <= delta::CHAIN as usize {
            chain.push(at);
            match self.stored(at)? {
                Stored::Whole(_) => break,
                Stored::Changes { parent, .. } => at = parent,
            }
        }
        manifests.extend(chain.into_iter().rev());
        Ok(())
    }

    /// Those of `parts` that are not here.
    pub fn lacking(&self, parts: &[Part]) -> Result<Vec<Part>, Error> {
        let _held = self.hold()?;
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
        match part.sort {
            Sort::Pack => {
                for path in [self.packs.join(name), self.guest(part.name)] {
                    let is_there = path.symlink_metadata().is_ok();
                    let read = || read_table(&self.safe, &path, part.name);
                    if is_there && read().map_err(|error| Error::at(&path, error))?.is_ok() {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            // Its form may be another one; what counts is what it adds up to.
            Sort::Manifest => match self.assemble(part.name) {
                Ok(_) => Ok(true),
                Err(Error::Damaged { .. } | Error::Hostile { .. }) => Ok(false),
                Err(error) => Err(error),
            },
        }
    }

    /// An empty file that a part can be written into.
    pub fn draft(&self) -> Result<carry::Draft, Error> {
        let draft =
            files::Draft::new(&self.drafts).map_err(|error| Error::at(&self.drafts, error))?;
        Ok(carry::Draft {
            path: draft.path().to_owned(),
            hold: Box::new(draft),
        })
    }

    /// Takes in a part, once all of it was checked. A part that is here already stays as it is.
    pub fn adopt(&self, part: &Part, draft: &carry::Draft) -> Result<(), Error> {
        let _held = self.hold()?;
        if self.has(part)? {
            return Ok(());
        }
        let found = part_of(part.sort, part.name, &draft.path)?;
        if found != *part {
            let reason = "it is not as long as it was, or its end is another";
            return Err(Error::damaged(part.to_string(), reason));
        }
        let (folder, path) = match part.sort {
            Sort::Pack => match pack::check(&self.safe, &draft.path, part.name)? {
                Proof::Whole => (&self.packs, self.packs.join(part.name.to_string())),
                Proof::ButPatches => (&self.packs, self.guest(part.name)),
            },
            Sort::Manifest => {
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

    /// Proves a manifest in a draft by its name. What it builds on is here already.
    fn check_manifest(&self, name: Digest, draft: &Path) -> Result<(), Error> {
        let damaged = |reason: &str| Error::damaged(format!("manifest {name}"), reason);
        let read = self.safe.read(draft, delta::LONGEST);
        let bytes = read.map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidData => damaged(&error.to_string()),
            _ => Error::at(draft, error),
        })?;
        let whole = match Stored::decode(&bytes).map_err(|broken| damaged(broken.0))? {
            Stored::Whole(bytes) => bytes,
            Stored::Changes {
                parent, changes, ..
            } => delta::apply(&self.whole(parent)?, &[changes])
                .map_err(|broken| damaged(broken.0))?,
        };
        if Digest::of(&whole) != name {
            return Err(damaged("what it says does not match its name"));
        }
        let decoded = Manifest::decode(&whole).map_err(|broken| damaged(broken.0));
        decoded.map(|_| ())
    }

    /// Lists snapshots whose files were taken in, if nothing that they need is missing.
    pub fn enlist(&self, snapshots: &[Digest]) -> Result<(), Error> {
        let _held = self.hold()?;
        self.settle_guests()?;
        let shelf = self.shelf()?;
        for &snapshot in snapshots {
            let manifest = self.assemble(snapshot)?;
            let content = manifest.entries.iter().flat_map(Entry::content);
            let needed: HashSet<Digest> = content.map(|chunk| chunk.digest).collect();
            shelf.packs_with(&needed)?;
        }
        for &snapshot in snapshots {
            self.list_as_kept(snapshot)?;
        }
        Ok(())
    }

    /// Where a pack waits whose pieces are changes of what other packs have: until those are here,
    /// it cannot be proved, and nobody builds upon it.
    fn guest(&self, name: Digest) -> PathBuf {
        self.packs.join(format!("{name}{GUEST}"))
    }

    /// The packs that wait to be proved.
    pub(crate) fn guests(&self) -> Result<Vec<Digest>, Error> {
        let names = files::names(&self.packs).map_err(|error| Error::at(&self.packs, error))?;
        let guest = |name: &std::ffi::OsString| name.to_str()?.strip_suffix(GUEST)?.parse().ok();
        Ok(names.iter().filter_map(guest).collect())
    }

    /// Proves guests, and takes them in. One that needs what is not here goes on waiting.
    fn settle_guests(&self) -> Result<(), Error> {
        let guests = self.guests()?;
        if guests.is_empty() {
            return Ok(());
        }
        let packs = self.pack_names()?;
        let shelf = Shelf::with_guests(&self.packs, &self.safe, packs, &guests)?;
        for name in guests {
            let path = self.guest(name);
            match pack::check_patches(&self.safe, &path, name, &shelf) {
                Ok(()) => {}
                Err(Error::Damaged { object, .. }) if !object.contains(&name.to_string()) => {
                    continue;
                }
                Err(error) => {
                    // Damaged as it came: the next attempt fetches it again.
                    files::remove(&path).map_err(|error| Error::at(&path, error))?;
                    return Err(error);
                }
            }
            rustix::fs::rename(&path, self.packs.join(name.to_string()))
                .map_err(|error| Error::at(&path, error))?;
        }
        files::sync_folder(&self.packs).map_err(|error| Error::at(&self.packs, error))
    }

    /// The files of a snapshot that [`Vault::keep`] has made.
    pub fn papers(&self, snapshot: Digest) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let mut papers = BTreeMap::new();
        for entry in self.list(snapshot)? {
            if let (Kind::File { .. }, Some(name)) = (&entry.kind, entry.path.to_str()) {
                papers.insert(name.to_owned(), self.read(snapshot, &entry.path)?);
            }
        }
        Ok(papers.into_iter().collect())
    }
}

/// What a file is, as a part: by its length and its last bytes.
fn part_of(sort: Sort, name: Digest, path: &Path) -> Result<Part, Error> {
    let (bytes, end) = files::end::<32>(path).map_err(|error| Error::at(path, error))?;
    let check = end.as_ref().and_then(|end| Digest::from_bytes(end));
    let check =
        check.ok_or_else(|| Error::damaged(path.display().to_string(), "it is too short"))?;
    Ok(Part {
        sort,
        name,
        check,
        bytes,
    })
}
