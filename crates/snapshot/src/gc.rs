//! Deleting what nobody needs: late, announced, and never under a writer's hands (P8).
//!
//! What no kept snapshot needs is first written into the trash with the time. A later call deletes
//! it, if the grace is over and still nobody needs it. Everything happens while the vault is held
//! alone: a capture that was under way has ended and is seen, one that comes waits.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::Duration;

use segno_core::digest::Digest;
use segno_core::fault::{Point, point};
use segno_core::time::Timestamp;

use crate::carry::GUEST;
use crate::delta::Stored;
use crate::entry::Chunk;
use crate::error::Error;
use crate::files;
use crate::pack::{Cursor, Known, Packer, Place, Shelf};
use crate::trash::Trash;
use crate::vault::{Vault, names};

/// More small packs than this are joined.
const CROWD: usize = 64;
/// A pack shorter than this is small.
const SMALL: u64 = 1024 * 1024;

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Someone was using the vault: nothing was done, try again.
    pub busy: bool,
    /// Packs and manifests that were newly put into the trash.
    pub thrown: u64,
    /// Packs and manifests that were deleted.
    pub deleted: u64,
    /// Bytes that were deleted.
    pub bytes: u64,
    /// Packs whose content was written anew because little of it was needed.
    pub compacted: u64,
}

impl Vault {
    /// Deletes what was put into the trash at least `grace` ago and is still not needed; puts what
    /// is not needed now into the trash; writes packs anew of which less than half is needed.
    ///
    /// Nothing is deleted while a manifest cannot be read: nobody knows what it needs. A full disk
    /// keeps nothing from being deleted: only what would be written anew stays as it is.
    pub fn gc(&self, now: Timestamp, grace: Duration) -> Result<Swept, Error> {
        let Some(_alone) = self.hold_alone()? else {
            return Ok(Swept {
                busy: true,
                ..Swept::default()
            });
        };
        let mut swept = Swept::default();
        let kept: HashSet<Digest> = self.snapshots()?.into_iter().collect();
        self.rebase(&kept)?;
        let (manifests, needed) = self.mark(&kept)?;
        let mut trash = self.trash();
        let mut stock = Stock::open(self, needed)?;
        self.empty(&mut trash, &manifests, &mut stock, now, grace, &mut swept)?;
        self.compact(&mut stock, &mut trash, now, &mut swept)?;
        self.throw(&mut trash, &manifests, &stock, now, &mut swept)?;
        self.dismiss_guests(now, grace)?;
        Ok(swept)
    }

    /// Removes packs that came long ago and were never proved: whoever fetched them gave up.
    fn dismiss_guests(&self, now: Timestamp, grace: Duration) -> Result<(), Error> {
        for name in self.guests()? {
            let path = self.packs.join(format!("{name}{GUEST}"));
            let came = path.metadata().and_then(|facts| facts.modified());
            let came = came.map_err(|error| Error::at(&path, error))?;
            let came = came
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap_or_default();
            let came = Timestamp(i64::try_from(came.as_millis()).unwrap_or(i64::MAX));
            if now.since(came) >= grace && now >= came {
                files::remove(&path).map_err(|error| Error::at(&path, error))?;
            }
        }
        Ok(())
    }

    /// Manifests that are stored as changes since one that is not kept are stored anew, and those
    /// that should be encrypted.
    fn rebase(&self, kept: &HashSet<Digest>) -> Result<(), Error> {
        for &snapshot in kept {
            let lonely = match self.stored(snapshot)? {
                Stored::Changes { parent, .. } => !kept.contains(&parent),
                Stored::Whole(_) => false,
            };
            if lonely || self.is_legible(snapshot)? {
                let whole = self.whole(snapshot)?;
                match self.store_whole(snapshot, &whole) {
                    // Then what it is based on stays as well.
                    Err(Error::Full { .. }) => return Ok(()),
                    other => other?,
                };
            }
        }
        Ok(())
    }

    /// The manifests and the content that kept snapshots need.
    fn mark(&self, kept: &HashSet<Digest>) -> Result<(HashSet<Digest>, HashSet<Digest>), Error> {
        let (mut manifests, mut needed) = (HashSet::new(), HashSet::new());
        for &snapshot in kept {
            let mut at = snapshot;
            while manifests.insert(at) {
                let stored = self.stored(at)?;
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

    /// Deletes what has waited long enough; what is needed after all leaves the trash.
    fn empty(
        &self,
        trash: &mut Trash,
        manifests: &HashSet<Digest>,
        stock: &mut Stock,
        now: Timestamp,
        grace: Duration,
        swept: &mut Swept,
    ) -> Result<(), Error> {
        let unreadable = |name: &Digest| {
            let damaged = stock.shelf.damaged();
            damaged.iter().any(|(damaged, _)| damaged == name)
        };
        let needs =
            |name: &Digest| manifests.contains(name) || stock.needs(name) || unreadable(name);
        trash.0.retain(|name, _| !needs(name));
        let ripe = |since: &Timestamp| now.since(*since) >= grace && now >= *since;
        let gone: Vec<Digest> = trash
            .0
            .iter()
            .filter(|(_, since)| ripe(since))
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
                swept.bytes += metadata.len();
            }
            trash.0.remove(&name);
            stock.packs.remove(&name);
        }
        let sync =
            |folder: &Path| files::sync_folder(folder).map_err(|error| Error::at(folder, error));
        sync(&self.packs).and_then(|()| sync(&self.manifests))
    }

    /// Puts what is not needed into the trash, and writes the record.
    fn throw(
        &self,
        trash: &mut Trash,
        manifests: &HashSet<Digest>,
        stock: &Stock,
        now: Timestamp,
        swept: &mut Swept,
    ) -> Result<(), Error> {
        let idle = names(&self.manifests)?
            .into_iter()
            .filter(|name| !manifests.contains(name));
        let packs = stock.packs.keys().filter(|name| !stock.needs(name));
        for name in idle.chain(packs.copied()) {
            trash.0.entry(name).or_insert_with(|| {
                swept.thrown += 1;
                now
            });
        }
        let path = self.root.join("trash");
        let written = trash.write(&path, &self.drafts);
        written.map_err(|error| Error::at(&path, error))?;
        point(Point::SweepAfterTrash);
        Ok(())
    }

    /// Writes packs anew of which little is needed, one at a time, and joins small ones if there
    /// are many. The old ones go the way of everything that is not needed.
    fn compact(
        &self,
        stock: &mut Stock,
        trash: &mut Trash,
        now: Timestamp,
        swept: &mut Swept,
    ) -> Result<(), Error> {
        let mut groups: Vec<Vec<Digest>> = Vec::new();
        let mut small = Vec::new();
        for (name, pack) in stock.packs.iter().filter(|(name, _)| !trash.has(name)) {
            if pack.goes() {
                groups.push(vec![*name]);
            } else if pack.pieces > 0 && pack.file < SMALL {
                small.push(*name);
            }
        }
        if small.len() > CROWD {
            groups.push(small);
        }
        for group in groups {
            match self.rewrite(&group, stock) {
                // What is damaged stays where it is, for whoever can mend it; and what there is no
                // room for, until something else has made room.
                Err(Error::Damaged { .. } | Error::Full { .. }) => continue,
                other => other?,
            }
            for name in group {
                if let Some(pack) = stock.packs.get_mut(&name) {
                    pack.pieces = 0;
                }
                trash.0.insert(name, now);
                swept.compacted += 1;
                swept.thrown += 1;
            }
        }
        Ok(())
    }

    /// Writes what is needed of some packs into new ones. Patches are made anew: what no snapshot
    /// needs but as a base is not built upon again, so it is needed no longer.
    fn rewrite(&self, packs: &[Digest], stock: &Stock) -> Result<(), Error> {
        let known = Known::default();
        let bases = Cursor::new(&stock.shelf)?;
        let mut packer = Packer::new(self, &known)?.with_bases(bases);
        let mut cursor = Cursor::new(&stock.shelf)?;
        for (place, digest) in stock.pieces_in(packs) {
            let chunk = Chunk {
                digest,
                length: place.length,
            };
            packer.put_as(chunk, cursor.read(chunk)?, || stock.lasting_base(place))?;
        }
        packer.finish()?.wait()?;
        point(Point::SweepAfterRewrite);
        Ok(())
    }
}

/// What each pack has that is needed.
struct Stock {
    shelf: Shelf,
    packs: BTreeMap<Digest, Pack>,
    /// What snapshots consist of.
    needed: HashSet<Digest>,
    /// Where that is, with all that it is made from.
    places: Vec<(Place, Digest)>,
}

#[derive(Default)]
struct Pack {
    /// Pieces that are needed, and not from another pack.
    pieces: u64,
    /// The bytes that they take.
    live: u64,
    /// Bytes of all pieces.
    all: u64,
    /// How long the file is.
    file: u64,
    /// It is from before there was a key.
    legible: bool,
}

impl Pack {
    /// Whether it is written anew: little of it is needed, or it should be encrypted.
    fn goes(&self) -> bool {
        self.pieces > 0 && (self.legible || self.live * 2 < self.all)
    }
}

impl Stock {
    /// Looks at all packs that can be read; those that cannot are left alone. What is in the trash
    /// is needed only for what no other pack has.
    fn open(vault: &Vault, needed: HashSet<Digest>) -> Result<Self, Error> {
        let shelf = vault.shelf()?;
        let places = shelf.with_bases(needed.iter().copied());
        let mut places: Vec<_> = places
            .into_iter()
            .map(|(digest, place)| (place, digest))
            .collect();
        places.sort_unstable();
        let mut packs = Vec::new();
        for held in shelf.packs() {
            let path = shelf.path(held.name);
            let metadata = std::fs::symlink_metadata(&path);
            let stored = held.blocks.iter().map(|block| u64::from(block.stored));
            let pack = Pack {
                all: stored.sum(),
                file: metadata.map_err(|error| Error::at(&path, error))?.len(),
                legible: vault.safe.seals() && !held.sealed,
                ..Pack::default()
            };
            packs.push((held.name, pack));
        }
        for (place, _) in &places {
            let (_, pack) = &mut packs[place.pack as usize];
            pack.pieces += 1;
            pack.live += shelf.share(*place);
        }
        Ok(Self {
            shelf,
            packs: packs.into_iter().collect(),
            needed,
            places,
        })
    }

    fn needs(&self, name: &Digest) -> bool {
        self.packs.get(name).is_some_and(|pack| pack.pieces > 0)
    }

    /// What is needed of some packs, in their order.
    fn pieces_in(&self, packs: &[Digest]) -> impl Iterator<Item = (Place, Digest)> {
        let packs: HashSet<&Digest> = packs.iter().collect();
        let places = self.places.iter().copied();
        places.filter(move |(place, _)| packs.contains(&self.shelf.name(place.pack)))
    }

    /// The nearest base of a piece that snapshots need for its own sake.
    fn lasting_base(&self, mut place: Place) -> Option<Chunk> {
        loop {
            let digest = self.shelf.base(place)?;
            place = self.shelf.place(&digest)?;
            if self.needed.contains(&digest) {
                return Some(Chunk {
                    digest,
                    length: place.length,
                });
            }
        }
    }
}
