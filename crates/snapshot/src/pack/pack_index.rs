//! An index of chunks by digest. Every checkpoint with new content looks up a few chunks of very
//! many, so the time to fill the index matters: chunks stay in the lists of the tables, and the
//! index adds eight bytes for each.

use std::collections::HashMap;

use segno_core::digest::Digest;

use crate::pack::pack_set::{ChunkLocation, PackInfo};
use crate::pack::stored_chunks::ByDigest;
use crate::pack::{Form, Piece};

const EMPTY: Slot = Slot {
    mark: 0,
    at: u32::MAX,
};

/// The smallest number of slots.
const MIN_SLOTS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    /// Part of the digest that does not determine the position of the slot.
    mark: u32,
    /// The number of the chunk; chunks are numbered consecutively through all packs.
    at: u32,
}

/// The locations of chunks.
#[derive(Debug, Default)]
pub(super) struct PackIndex {
    /// Chunks that are not patches, in a hash table with linear probing.
    slots: Vec<Slot>,
    filled: usize,
    /// Chunks that are patches.
    patches_by_digest: HashMap<Digest, ChunkLocation, ByDigest>,
    /// For each pack, the number after its last chunk.
    ends: Vec<u32>,
}

impl PackIndex {
    /// Adds the chunks of the last of `packs`, for which there must be space. A chunk that has a
    /// location keeps it. Returns the patches, whose locations the caller decides.
    pub(super) fn add(&mut self, packs: &[PackInfo]) -> Vec<(Digest, ChunkLocation)> {
        let Some((pack, before)) = packs.split_last() else {
            return Vec::new();
        };
        let number = u32::try_from(before.len()).expect("the number of packs fits into 32 bits");
        let first = self.ends.last().copied().unwrap_or(0);
        let count = u32::try_from(pack.pieces.len()).ok();
        let end = count.and_then(|count| first.checked_add(count));
        let end = end.expect("the number of chunks fits into 32 bits");
        self.ends.push(end);
        let mut patches = Vec::new();
        for (at, piece) in (first..end).zip(&pack.pieces) {
            if let Form::Patch(_) = pack.blocks[piece.block as usize].form {
                patches.push((piece.digest, location(number, piece)));
            } else if !self.patches_by_digest.contains_key(&piece.digest)
                && let Err(free) = self.seek(packs, &piece.digest)
            {
                let mark = mark(&piece.digest);
                self.slots[free] = Slot { mark, at };
                self.filled += 1;
            }
        }
        patches
    }

    /// Adds a chunk that is a patch.
    pub(super) fn insert_patch(&mut self, digest: Digest, location: ChunkLocation) {
        self.patches_by_digest.insert(digest, location);
    }

    /// The location of a chunk in these packs.
    pub(super) fn get(&self, packs: &[PackInfo], digest: &Digest) -> Option<ChunkLocation> {
        if self.slots.is_empty() {
            return None;
        }
        match self.seek(packs, digest) {
            Ok(location) => Some(location),
            Err(_) => self.patches_by_digest.get(digest).copied(),
        }
    }

    /// Makes space for `more` chunks than `packs` have, so that at least a third of the slots stays
    /// free.
    pub(super) fn reserve(&mut self, packs: &[PackInfo], more: usize) {
        let wanted = (self.filled + more).saturating_mul(3) / 2;
        let wanted = wanted.next_power_of_two().max(MIN_SLOTS);
        if wanted <= self.slots.len() {
            return;
        }
        let before = std::mem::replace(&mut self.slots, vec![EMPTY; wanted]);
        for slot in before.into_iter().filter(|slot| *slot != EMPTY) {
            let (_, piece) = self.piece(packs, slot.at);
            if let Err(free) = self.seek(packs, &piece.digest) {
                self.slots[free] = slot;
            }
        }
    }

    /// The location of a chunk that is not a patch, or the free slot for it.
    fn seek(&self, packs: &[PackInfo], digest: &Digest) -> Result<ChunkLocation, usize> {
        let (mask, mark) = (self.slots.len() - 1, mark(digest));
        let mut at = start(digest) & mask;
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                return Err(at);
            }
            if slot.mark == mark {
                let (pack, piece) = self.piece(packs, slot.at);
                if piece.digest == *digest {
                    return Ok(location(pack, piece));
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// The chunk with a number, and the number of its pack.
    fn piece<'a>(&self, packs: &'a [PackInfo], at: u32) -> (u32, &'a Piece) {
        let pack = self.ends.partition_point(|end| *end <= at);
        let first = pack.checked_sub(1).map_or(0, |before| self.ends[before]);
        let number = u32::try_from(pack).expect("the number of packs fits into 32 bits");
        (number, &packs[pack].pieces[(at - first) as usize])
    }
}

/// Digests are evenly distributed already.
fn start(digest: &Digest) -> usize {
    let [a, b, c, d, ..] = *digest.as_bytes();
    u32::from_le_bytes([a, b, c, d]) as usize
}

fn mark(digest: &Digest) -> u32 {
    let [_, _, _, _, a, b, c, d, ..] = *digest.as_bytes();
    u32::from_le_bytes([a, b, c, d])
}

fn location(pack: u32, piece: &Piece) -> ChunkLocation {
    ChunkLocation {
        pack,
        block: piece.block,
        offset: piece.offset,
        length: piece.length,
        depth: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::Block;

    /// A pack of one block, with chunks named by numbers.
    fn pack(name: u32, pieces: impl IntoIterator<Item = u32>, form: Form) -> PackInfo {
        let piece = |(at, number): (usize, u32)| Piece {
            digest: Digest::of(&number.to_le_bytes()),
            block: 0,
            offset: u32::try_from(at).unwrap(),
            length: 1,
        };
        PackInfo {
            name: Digest::of(&name.to_be_bytes()),
            blocks: vec![Block {
                at: 0,
                stored: 0,
                raw: 0,
                form,
            }],
            pieces: pieces.into_iter().enumerate().map(piece).collect(),
            encrypted: false,
        }
    }

    #[test]
    fn first_listed_chunk_location_wins() {
        let lists = [0..1, 1..1, 1..700, 300..5000, 0..5001];
        let (mut packs, mut locations) = (Vec::new(), PackIndex::default());
        let get = |locations: &PackIndex, packs: &[PackInfo], number: u32| {
            let location = locations.get(packs, &Digest::of(&number.to_le_bytes()))?;
            Some((location.pack, location.offset))
        };
        assert_eq!(get(&locations, &packs, 0), None);
        for (name, list) in (0..).zip(lists.clone()) {
            locations.reserve(&packs, list.len());
            packs.push(pack(name, list, Form::Zstd));
            assert_eq!(locations.add(&packs), []);
        }
        for number in 0..6000 {
            let listed = (0..).zip(&lists).find(|(_, list)| list.contains(&number));
            let listed = listed.map(|(name, list)| (name, number - list.start));
            assert_eq!(get(&locations, &packs, number), listed, "{number}");
        }
    }

    #[test]
    fn patch_location_is_assigned_once() {
        let (mut packs, mut locations) = (Vec::new(), PackIndex::default());
        locations.reserve(&packs, 4);
        packs.push(pack(0, 0..2, Form::Patch(Digest::of(b"base"))));
        let patches = locations.add(&packs);
        assert_eq!(patches.len(), 2);
        let (digest, location) = patches[0];
        assert_eq!(locations.get(&packs, &digest), None);
        let patches_by_digest = ChunkLocation {
            depth: 3,
            ..location
        };
        locations.insert_patch(digest, patches_by_digest);
        packs.push(pack(1, 0..2, Form::Plain));
        assert_eq!(locations.add(&packs), []);
        assert_eq!(locations.get(&packs, &digest), Some(patches_by_digest));
        let other = locations.get(&packs, &patches[1].0).unwrap();
        assert_eq!((other.pack, other.depth), (1, 0));
    }
}
