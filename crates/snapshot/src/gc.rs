//! Garbage collection: deletes unreferenced data, with a grace period and never under a writer
//! (P8).
//!
//! Data that no listed snapshot references is first recorded in the trash with the time. A later
//! call deletes it if the grace period is over and it is still unreferenced. All of this happens
//! under the exclusive lock: captures that were under way have ended and are seen, new ones wait.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::Duration;

use segno_core::digest::Digest;
use segno_core::fault::{Point, point};
use segno_core::snapshot::Swept;
use segno_core::time::Timestamp;

use crate::delta::Stored;
use crate::entry::Chunk;
use crate::error::Error;
use crate::files;
use crate::pack::{ChunkLocation, Cursor, PENDING_SUFFIX, PackSet, StoredChunks};
use crate::snapshot_store::SnapshotStore;
use crate::trash::Trash;

/// More small packs than this are merged.
const MAX_SMALL_PACKS: usize = 64;
/// A pack shorter than this is small.
const SMALL: u64 = 1024 * 1024;

impl SnapshotStore {
    /// Deletes what was put into the trash at least `grace` ago and is still unreferenced; puts
    /// what is unreferenced now into the trash; rewrites packs of which less than half is
    /// referenced.
    ///
    /// Deletes nothing while a manifest cannot be read, because its references are unknown. A full
    /// disk does not prevent deletion: only what would be rewritten stays as it is. Unlists no
    /// snapshot.
    pub fn gc(&self, now: Timestamp, grace: Duration) -> Result<Swept, Error> {
        let Some(_lock) = self.try_lock_exclusive()? else {
            return Ok(Swept {
                busy: true,
                ..Swept::default()
            });
        };
        let mut swept = Swept::default();
        let listed: HashSet<Digest> = self.snapshots()?.into_iter().collect();
        self.rebase(&listed)?;
        let (manifests, needed) = self.mark(&listed)?;
        let mut trash = self.trash();
        let mut usage = PackUsage::open(self, needed)?;
        self.delete_expired(&mut trash, &manifests, &mut usage, now, grace, &mut swept)?;
        self.compact(&mut usage, &mut trash, now, &mut swept)?;
        self.move_to_trash(&mut trash, &manifests, &usage, now, &mut swept)?;
        self.remove_stale_pending(now, grace)?;
        Ok(swept)
    }

    /// Removes old packs that were never verified: the transfer that fetched them was abandoned.
    fn remove_stale_pending(&self, now: Timestamp, grace: Duration) -> Result<(), Error> {
        for name in self.pending_packs()? {
            let path = self.packs.join(format!("{name}{PENDING_SUFFIX}"));
            let received = path.metadata().and_then(|facts| facts.modified());
            let received = received.map_err(|error| Error::at(&path, error))?;
            let received = received
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap_or_default();
            let received = Timestamp(i64::try_from(received.as_millis()).unwrap_or(i64::MAX));
            if now.since(received) >= grace && now >= received {
                files::remove(&path).map_err(|error| Error::at(&path, error))?;
            }
        }
        Ok(())
    }

    /// Rewrites manifests that are stored as changes since an unlisted one, and those that should
    /// be encrypted.
    fn rebase(&self, listed: &HashSet<Digest>) -> Result<(), Error> {
        for &snapshot in listed {
            let has_unlisted_parent = match self.read_stored(snapshot)? {
                Stored::Changes { parent, .. } => !listed.contains(&parent),
                Stored::Whole(_) => false,
            };
            if has_unlisted_parent || self.is_plaintext(snapshot)? {
                let whole = self.manifest_bytes(snapshot)?;
                match self.store_whole_manifest(snapshot, &whole) {
                    // Then the manifest that it is based on stays as well.
                    Err(Error::Full { .. }) => return Ok(()),
                    other => other?,
                };
            }
        }
        Ok(())
    }

    /// The manifests and chunks that listed snapshots reference.
    fn mark(&self, listed: &HashSet<Digest>) -> Result<(HashSet<Digest>, HashSet<Digest>), Error> {
        let (mut manifests, mut needed) = (HashSet::new(), HashSet::new());
        for &snapshot in listed {
            let mut at = snapshot;
            while manifests.insert(at) {
                let stored = self.read_stored(at)?;
                let broken = |broken: crate::wire::Broken| {
                    Error::damaged(format!("manifest {at}"), broken.0)
                };
                needed.extend(stored.digests().map_err(broken)?);
                match stored {
                    Stored::Whole(_) => break,
                    Stored::Changes { parent, .. } => at = parent,
                }
            }
        }
        Ok((manifests, needed))
    }

    /// Deletes what was in the trash long enough. What is referenced again leaves the trash.
    fn delete_expired(
        &self,
        trash: &mut Trash,
        manifests: &HashSet<Digest>,
        usage: &mut PackUsage,
        now: Timestamp,
        grace: Duration,
        swept: &mut Swept,
    ) -> Result<(), Error> {
        let unreadable = |name: &Digest| {
            let damaged = usage.pack_set.damaged();
            damaged.iter().any(|(damaged, _)| damaged == name)
        };
        let needs =
            |name: &Digest| manifests.contains(name) || usage.needs(name) || unreadable(name);
        trash.0.retain(|name, _| !needs(name));
        let is_expired = |since: &Timestamp| now.since(*since) >= grace && now >= *since;
        let gone: Vec<Digest> = trash
            .0
            .iter()
            .filter(|(_, since)| is_expired(since))
            .map(|(name, _)| *name)
            .collect();
        for name in gone {
            for folder in [&self.packs, &self.manifests] {
                let path = folder.join(name.to_string());
                let Ok(metadata) = std::fs::symlink_metadata(&path) else {
                    continue;
                };
                point(Point::SweepBeforeDelete);
                files::remove(&path).map_err(|error| Error::at(&path, error))?;
                point(Point::SweepAfterDelete);
                swept.deleted += 1;
                swept.freed += metadata.len();
            }
            trash.0.remove(&name);
            usage.packs.remove(&name);
        }
        let sync =
            |folder: &Path| files::sync_folder(folder).map_err(|error| Error::at(folder, error));
        sync(&self.packs).and_then(|()| sync(&self.manifests))
    }

    /// Puts what is unreferenced into the trash, and writes the trash file.
    fn move_to_trash(
        &self,
        trash: &mut Trash,
        manifests: &HashSet<Digest>,
        usage: &PackUsage,
        now: Timestamp,
        swept: &mut Swept,
    ) -> Result<(), Error> {
        let names =
            files::digests(&self.manifests).map_err(|error| Error::at(&self.manifests, error))?;
        let unreferenced = names.into_iter().filter(|name| !manifests.contains(name));
        let packs = usage.packs.keys().filter(|name| !usage.needs(name));
        for name in unreferenced.chain(packs.copied()) {
            trash.0.entry(name).or_insert_with(|| {
                swept.waiting += 1;
                now
            });
        }
        let path = self.root.join("trash");
        let written = trash.write(&path, &self.drafts);
        written.map_err(|error| Error::at(&path, error))?;
        point(Point::SweepAfterTrash);
        Ok(())
    }

    /// Rewrites packs of which little is referenced, one at a time, and merges small ones if there
    /// are many. The old packs go into the trash.
    fn compact(
        &self,
        usage: &mut PackUsage,
        trash: &mut Trash,
        now: Timestamp,
        swept: &mut Swept,
    ) -> Result<(), Error> {
        let mut groups: Vec<Vec<Digest>> = Vec::new();
        let mut small = Vec::new();
        for (name, pack) in usage.packs.iter().filter(|(name, _)| !trash.has(name)) {
            if pack.needs_rewrite() {
                groups.push(vec![*name]);
            } else if pack.pieces > 0 && pack.file < SMALL {
                small.push(*name);
            }
        }
        if small.len() > MAX_SMALL_PACKS {
            groups.push(small);
        }
        for group in groups {
            match self.rewrite(&group, usage) {
                // Damaged packs stay for a later repair; those without space on the disk stay until
                // something else has freed it.
                Err(Error::Damaged { .. } | Error::Full { .. }) => continue,
                other => other?,
            }
            for name in group {
                if let Some(pack) = usage.packs.get_mut(&name) {
                    pack.pieces = 0;
                }
                trash.0.insert(name, now);
                swept.compacted += 1;
                swept.waiting += 1;
            }
        }
        Ok(())
    }

    /// Writes the referenced chunks of some packs into new packs. Patches are computed anew, but
    /// not from chunks that serve only as a base: those become unreferenced.
    fn rewrite(&self, packs: &[Digest], usage: &PackUsage) -> Result<(), Error> {
        let known = StoredChunks::default();
        let bases = Cursor::new(&usage.pack_set)?;
        let mut packer = self.packer(&known)?.with_bases(bases);
        let mut cursor = Cursor::new(&usage.pack_set)?;
        for (location, digest) in usage.pieces_in(packs) {
            let chunk = Chunk {
                digest,
                length: location.length,
            };
            packer.put_as(chunk, cursor.read(chunk)?, || {
                usage.referenced_base(location)
            })?;
        }
        packer.finish()?.wait()?;
        point(Point::SweepAfterRewrite);
        Ok(())
    }
}

/// How much of each pack is referenced.
struct PackUsage {
    pack_set: PackSet,
    packs: BTreeMap<Digest, Pack>,
    /// The chunks that snapshots consist of.
    needed: HashSet<Digest>,
    /// Their locations, including those of their bases.
    locations: Vec<(ChunkLocation, Digest)>,
}

#[derive(Default)]
struct Pack {
    /// Referenced chunks that this pack provides.
    pieces: u64,
    /// The stored bytes of these chunks.
    live: u64,
    /// The stored bytes of all chunks.
    all: u64,
    /// The length of the file.
    file: u64,
    /// The pack is not encrypted, although there is a key.
    plaintext: bool,
}

impl Pack {
    /// Whether the pack is rewritten: little of it is referenced, or it should be encrypted.
    fn needs_rewrite(&self) -> bool {
        self.pieces > 0 && (self.plaintext || self.live * 2 < self.all)
    }
}

impl PackUsage {
    /// Reads all packs; those that cannot be read are left alone. A pack in the trash counts as
    /// referenced only for chunks that no other pack has.
    fn open(store: &SnapshotStore, needed: HashSet<Digest>) -> Result<Self, Error> {
        let pack_set = store.pack_set()?;
        let locations = pack_set.with_bases(needed.iter().copied());
        let mut locations: Vec<_> = locations
            .into_iter()
            .map(|(digest, location)| (location, digest))
            .collect();
        locations.sort_unstable();
        let mut packs = Vec::new();
        for info in pack_set.packs() {
            let path = pack_set.path(info.name);
            let metadata = std::fs::symlink_metadata(&path);
            let stored = info.blocks.iter().map(|block| u64::from(block.stored));
            let pack = Pack {
                all: stored.sum(),
                file: metadata.map_err(|error| Error::at(&path, error))?.len(),
                plaintext: store.encrypted_files.encrypts() && !info.encrypted,
                ..Pack::default()
            };
            packs.push((info.name, pack));
        }
        for (location, _) in &locations {
            let (_, pack) = &mut packs[location.pack as usize];
            pack.pieces += 1;
            pack.live += pack_set.share(*location);
        }
        Ok(Self {
            pack_set,
            packs: packs.into_iter().collect(),
            needed,
            locations,
        })
    }

    fn needs(&self, name: &Digest) -> bool {
        self.packs.get(name).is_some_and(|pack| pack.pieces > 0)
    }

    /// The referenced chunks of some packs, in the order of the packs.
    fn pieces_in(&self, packs: &[Digest]) -> impl Iterator<Item = (ChunkLocation, Digest)> {
        let packs: HashSet<&Digest> = packs.iter().collect();
        let locations = self.locations.iter().copied();
        locations.filter(move |(location, _)| packs.contains(&self.pack_set.name(location.pack)))
    }

    /// The nearest base of a chunk that snapshots reference directly.
    fn referenced_base(&self, mut location: ChunkLocation) -> Option<Chunk> {
        loop {
            let digest = self.pack_set.base(location)?;
            location = self.pack_set.locate(&digest)?;
            if self.needed.contains(&digest) {
                return Some(Chunk {
                    digest,
                    length: location.length,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pack_is_rewritten_below_half() {
        let pack = |pieces, live, plaintext| Pack {
            pieces,
            live,
            all: 100,
            file: 200,
            plaintext,
        };
        let table = [
            (pack(1, 49, false), true),
            (pack(1, 50, false), false),
            (pack(1, 100, false), false),
            (pack(1, 100, true), true),
            // Nothing to rewrite: the whole pack goes.
            (pack(0, 0, false), false),
            (pack(0, 0, true), false),
        ];
        for (pack, expected) in table {
            let Pack { pieces, live, .. } = pack;
            assert_eq!(pack.needs_rewrite(), expected, "{pieces} {live}");
        }
    }
}
