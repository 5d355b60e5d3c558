//! An index of chunks by digest. Every checkpoint with new content looks up a few chunks of very
//! many, so the time to fill the index matters: chunks stay in the lists of the tables, and the
//! index has only their numbers.

use std::collections::HashMap;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use segno_core::digest::Digest;

use crate::pack::pack_set::{ChunkLocation, PackInfo};
use crate::pack::stored_chunks::ByDigest;
use crate::pack::{Form, Piece};

/// The locations of chunks.
#[derive(Debug, Default)]
pub(super) struct PackIndex {
    /// The numbers of chunks that are not patches, by digest. Chunks are numbered consecutively
    /// through all packs.
    numbers: HashTable<u32>,
    /// Chunks that are patches.
    patches_by_digest: HashMap<Digest, ChunkLocation, ByDigest>,
    /// For each pack, the number after its last chunk.
    ends: Vec<u32>,
}

impl PackIndex {
    /// Adds the chunks of the last of `packs`. A chunk that has a location keeps it. Returns the
    /// patches, whose locations the caller decides.
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
        let digest_of = |at: &u32| piece(&self.ends, packs, *at).1.digest;
        let mut patches = Vec::new();
        for (at, piece) in (first..end).zip(&pack.pieces) {
            if let Form::Patch(_) = pack.blocks[piece.block as usize].form {
                patches.push((piece.digest, location(number, piece)));
            } else if !self.patches_by_digest.contains_key(&piece.digest) {
                let is_known = |at: &u32| digest_of(at) == piece.digest;
                let rehash = |at: &u32| hash(&digest_of(at));
                if let Entry::Vacant(free) =
                    self.numbers.entry(hash(&piece.digest), is_known, rehash)
                {
                    free.insert(at);
                }
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
        let mut found = None;
        self.numbers.find(hash(digest), |at| {
            let (pack, piece) = piece(&self.ends, packs, *at);
            let is_found = piece.digest == *digest;
            if is_found {
                found = Some(location(pack, piece));
            }
            is_found
        });
        found.or_else(|| self.patches_by_digest.get(digest).copied())
    }

    /// Makes space for `more` chunks than `packs` have, so that [`PackIndex::add`] does not move
    /// those that it has.
    pub(super) fn reserve(&mut self, packs: &[PackInfo], more: usize) {
        let rehash = |at: &u32| hash(&piece(&self.ends, packs, *at).1.digest);
        self.numbers.reserve(more, rehash);
    }
}

/// The chunk with a number, and the number of its pack. `ends` has for each pack the number after
/// its last chunk.
fn piece<'a>(ends: &[u32], packs: &'a [PackInfo], at: u32) -> (u32, &'a Piece) {
    let pack = ends.partition_point(|end| *end <= at);
    let first = pack.checked_sub(1).map_or(0, |before| ends[before]);
    let number = u32::try_from(pack).expect("the number of packs fits into 32 bits");
    (number, &packs[pack].pieces[(at - first) as usize])
}

/// Digests are evenly distributed already.
fn hash(digest: &Digest) -> u64 {
    let first = digest.as_bytes().first_chunk();
    u64::from_le_bytes(*first.expect("a digest has 32 bytes"))
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

    /// Lookups of many chunks stay fast only if different digests have different hashes.
    #[test]
    fn hash_is_the_beginning_of_the_digest() {
        let mut bytes = [9; 32];
        bytes[..8].copy_from_slice(&0x0102_0304_0506_0708_u64.to_le_bytes());
        let digest = Digest::from_bytes(&bytes).unwrap();
        assert_eq!(hash(&digest), 0x0102_0304_0506_0708);
    }
}
