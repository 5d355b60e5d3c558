//! Examines everything that snapshots need: that it is there and well-formed, and on request that
//! its content is right.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use segno_core::digest::Digest;
use segno_core::snapshot::transfer::PartKind;
use segno_core::snapshot::{Damage, Depth, Examined};

use crate::entry::{Chunk, Entry};
use crate::error::Error;
use crate::pack::PackSet;
use crate::request::Progress;
use crate::snapshot_store::SnapshotStore;
use crate::verify::{Broken, check};

impl SnapshotStore {
    /// Examines these snapshots and all packs. Damage to one does not hide that to others.
    ///
    /// Always reads every manifest and the table of every pack, which has the pack's checksums and
    /// length, and looks up every chunk. With [`Depth::Content`], also reads and verifies the
    /// chunks.
    pub fn examine(
        &self,
        snapshots: &[Digest],
        depth: Depth,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Examined, Error> {
        let _lock = self.lock_shared()?;
        let pack_set = self.pack_set()?;
        let mut examined = Examined::default();
        let mut chunks: HashSet<Chunk> = HashSet::new();
        let snapshots: BTreeSet<Digest> = snapshots.iter().copied().collect();
        for &snapshot in &snapshots {
            examined.snapshots += 1;
            if !self.is_listed(snapshot) {
                examined.damage.push(Damage {
                    object: format!("snapshot {snapshot}"),
                    reason: "it is not listed: its file in heads is missing".to_owned(),
                    part: None,
                    is_unlisted: true,
                    snapshots: vec![snapshot],
                });
            }
            match self.assemble(snapshot) {
                Ok(manifest) => {
                    let content = manifest.entries.iter().flat_map(Entry::content);
                    chunks.extend(content.copied());
                }
                Err(Error::Damaged { object, reason }) => {
                    let name = object.rsplit(' ').next().and_then(|name| name.parse().ok());
                    examined.damage.push(Damage {
                        object,
                        reason,
                        part: name.and_then(|name| self.stored_manifest(name)),
                        is_unlisted: false,
                        snapshots: vec![snapshot],
                    });
                }
                Err(error @ Error::Hostile { .. }) => examined.damage.push(Damage {
                    object: format!("manifest {snapshot}"),
                    reason: error.to_string(),
                    part: self.stored_manifest(snapshot),
                    is_unlisted: false,
                    snapshots: vec![snapshot],
                }),
                Err(error) => return Err(error),
            }
        }
        let chunks: Vec<Chunk> = chunks.into_iter().collect();
        let broken = match depth {
            Depth::Content => check(&chunks, &pack_set, progress)?,
            Depth::Structure => missing(&chunks, &pack_set),
        };
        let lost = self.affected_snapshots(&snapshots, &broken, &pack_set);
        examined.damage.extend(lost);
        let unreadable = pack_set.damaged().iter();
        examined
            .damage
            .extend(unreadable.map(|(name, reason)| Damage {
                object: format!("pack {name}"),
                reason: (*reason).to_owned(),
                part: Some((PartKind::Pack, *name)),
                is_unlisted: false,
                snapshots: Vec::new(),
            }));
        for name in self.pack_names()? {
            let path = self.packs.join(name.to_string());
            examined.packs += 1;
            examined.bytes += path.metadata().map_or(0, |metadata| metadata.len());
        }
        Ok(examined)
    }

    /// The file of a manifest, if it exists.
    fn stored_manifest(&self, name: Digest) -> Option<(PartKind, Digest)> {
        let exists = self.manifests.join(name.to_string()).exists();
        exists.then_some((PartKind::Manifest, name))
    }

    /// The damage behind broken chunks, with the snapshots that need them.
    fn affected_snapshots(
        &self,
        snapshots: &BTreeSet<Digest>,
        broken: &Broken,
        pack_set: &PackSet,
    ) -> Vec<Damage> {
        let mut found: BTreeMap<(&str, &str), Damage> = BTreeMap::new();
        if broken.is_empty() {
            return Vec::new();
        }
        for &snapshot in snapshots {
            let Ok(manifest) = self.assemble(snapshot) else {
                continue;
            };
            for chunk in manifest.entries.iter().flat_map(Entry::content) {
                let Some((object, reason)) = broken.get(chunk) else {
                    continue;
                };
                let damage = found.entry((object, reason)).or_insert_with(|| {
                    let pack = pack_set.locate(&chunk.digest);
                    let pack = pack.map(|location| pack_set.name(location.pack));
                    Damage {
                        object: object.clone(),
                        reason: reason.clone(),
                        part: pack.map(|pack| (PartKind::Pack, pack)),
                        is_unlisted: false,
                        snapshots: Vec::new(),
                    }
                });
                if damage.snapshots.last() != Some(&snapshot) {
                    damage.snapshots.push(snapshot);
                }
            }
        }
        summarize_missing(found.into_values().collect())
    }
}

/// The chunks that no pack has.
fn missing(chunks: &[Chunk], pack_set: &PackSet) -> Broken {
    let lost = chunks
        .iter()
        .filter(|chunk| pack_set.locate(&chunk.digest).is_none());
    let reason = |chunk: &Chunk| match pack_set.missing_chunk(chunk.digest) {
        Error::Damaged { object, reason } => (object, reason),
        error => (format!("chunk {}", chunk.digest), error.to_string()),
    };
    lost.map(|chunk| (*chunk, reason(chunk)))
        .collect::<HashMap<_, _>>()
}

/// A missing pack leaves thousands of missing chunks: they become one line.
fn summarize_missing(found: Vec<Damage>) -> Vec<Damage> {
    let is_chunk = |damage: &Damage| damage.part.is_none() && damage.object.starts_with("chunk ");
    let (chunks, mut others): (Vec<Damage>, Vec<Damage>) = found.into_iter().partition(is_chunk);
    if chunks.is_empty() {
        return others;
    }
    let snapshots = chunks.iter().flat_map(|damage| &damage.snapshots).copied();
    let snapshots: BTreeSet<Digest> = snapshots.collect();
    others.push(Damage {
        object: "the content of files".to_owned(),
        reason: format!("no pack contains {} of its chunks", chunks.len()),
        part: None,
        is_unlisted: false,
        snapshots: snapshots.into_iter().collect(),
    });
    others
}
