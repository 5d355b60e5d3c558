//! Where pieces are, by digest. Every checkpoint that has something new asks for a few of a great
//! many, so what counts is what it takes to fill this: pieces stay in the lists that tables are read
//! into, and what is added is eight bytes for each.

use std::collections::HashMap;

use segno_core::digest::Digest;

use crate::pack::known::ByDigest;
use crate::pack::shelf::{Held, Place};
use crate::pack::{Form, Piece};

/// A slot that nothing is in.
const EMPTY: Slot = Slot {
    mark: 0,
    at: u32::MAX,
};

/// How many slots there are at least.
const LEAST: usize = 64;

/// Where a piece is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    /// A part of its digest that its place among the slots does not tell.
    mark: u32,
    /// Its number: packs and their pieces are numbered through.
    at: u32,
}

/// Where pieces are.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Pieces that stand by themselves, each in the first free slot from where its digest says.
    slots: Vec<Slot>,
    filled: usize,
    /// Pieces that are made from others.
    made: HashMap<Digest, Place, ByDigest>,
    /// The number after that of the last piece, for each pack.
    ends: Vec<u32>,
}

impl Places {
    /// Adds the pieces of the last of `packs`, for which there is room. What has a place keeps it;
    /// patches come back, for places of their own.
    pub(super) fn add(&mut self, packs: &[Held]) -> Vec<(Digest, Place)> {
        let Some((pack, before)) = packs.split_last() else {
            return Vec::new();
        };
        let number = u32::try_from(before.len()).expect("there are fewer packs than that");
        let first = self.ends.last().copied().unwrap_or(0);
        let count = u32::try_from(pack.pieces.len()).ok();
        let end = count.and_then(|count| first.checked_add(count));
        let end = end.expect("there are fewer pieces than that");
        self.ends.push(end);
        let mut patches = Vec::new();
        for (at, piece) in (first..end).zip(&pack.pieces) {
            if let Form::Patch(_) = pack.blocks[piece.block as usize].form {
                patches.push((piece.digest, place(number, piece)));
            } else if !self.made.contains_key(&piece.digest)
                && let Err(free) = self.seek(packs, &piece.digest)
            {
                let mark = mark(&piece.digest);
                self.slots[free] = Slot { mark, at };
                self.filled += 1;
            }
        }
        patches
    }

    /// Gives a place to a piece that is made from others.
    pub(super) fn add_made(&mut self, digest: Digest, place: Place) {
        self.made.insert(digest, place);
    }

    /// Where a piece is, in these packs.
    pub(super) fn get(&self, packs: &[Held], digest: &Digest) -> Option<Place> {
        if self.slots.is_empty() {
            return None;
        }
        match self.seek(packs, digest) {
            Ok(place) => Some(place),
            Err(_) => self.made.get(digest).copied(),
        }
    }

    /// Makes room for `more` pieces than there are in `packs`, so that a third of the slots at least
    /// stays free.
    pub(super) fn reserve(&mut self, packs: &[Held], more: usize) {
        let wanted = (self.filled + more).saturating_mul(3) / 2;
        let wanted = wanted.next_power_of_two().max(LEAST);
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

    /// The place of a piece that stands by itself, or the free slot that is for it.
    fn seek(&self, packs: &[Held], digest: &Digest) -> Result<Place, usize> {
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
                    return Ok(place(pack, piece));
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// The piece with a number, and the number of its pack.
    fn piece<'a>(&self, packs: &'a [Held], at: u32) -> (u32, &'a Piece) {
        let pack = self.ends.partition_point(|end| *end <= at);
        let first = pack.checked_sub(1).map_or(0, |before| self.ends[before]);
        let number = u32::try_from(pack).expect("there are fewer packs than that");
        (number, &packs[pack].pieces[(at - first) as usize])
    }
}

/// Digests are evenly spread already.
fn start(digest: &Digest) -> usize {
    let [a, b, c, d, ..] = *digest.as_bytes();
    u32::from_le_bytes([a, b, c, d]) as usize
}

fn mark(digest: &Digest) -> u32 {
    let [_, _, _, _, a, b, c, d, ..] = *digest.as_bytes();
    u32::from_le_bytes([a, b, c, d])
}

fn place(pack: u32, piece: &Piece) -> Place {
    Place {
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

    /// A pack of one block, with pieces that are called by numbers.
    fn pack(name: u32, pieces: impl IntoIterator<Item = u32>, form: Form) -> Held {
        let piece = |(at, number): (usize, u32)| Piece {
            digest: Digest::of(&number.to_le_bytes()),
            block: 0,
            offset: u32::try_from(at).unwrap(),
            length: 1,
        };
        Held {
            name: Digest::of(&name.to_be_bytes()),
            blocks: vec![Block {
                at: 0,
                stored: 0,
                raw: 0,
                form,
            }],
            pieces: pieces.into_iter().enumerate().map(piece).collect(),
            sealed: false,
        }
    }

    #[test]
    fn a_piece_is_where_it_was_listed_first_and_what_is_not_listed_is_nowhere() {
        let lists = [0..1, 1..1, 1..700, 300..5000, 0..5001];
        let (mut packs, mut places) = (Vec::new(), Places::default());
        let get = |places: &Places, packs: &[Held], number: u32| {
            let place = places.get(packs, &Digest::of(&number.to_le_bytes()))?;
            Some((place.pack, place.offset))
        };
        assert_eq!(get(&places, &packs, 0), None);
        for (name, list) in (0..).zip(lists.clone()) {
            places.reserve(&packs, list.len());
            packs.push(pack(name, list, Form::Zstd));
            assert_eq!(places.add(&packs), []);
        }
        for number in 0..6000 {
            let listed = (0..).zip(&lists).find(|(_, list)| list.contains(&number));
            let listed = listed.map(|(name, list)| (name, number - list.start));
            assert_eq!(get(&places, &packs, number), listed, "{number}");
        }
    }

    #[test]
    fn a_patch_gets_no_place_by_itself_and_what_it_was_given_stays() {
        let (mut packs, mut places) = (Vec::new(), Places::default());
        places.reserve(&packs, 4);
        packs.push(pack(0, 0..2, Form::Patch(Digest::of(b"base"))));
        let patches = places.add(&packs);
        assert_eq!(patches.len(), 2);
        let (digest, place) = patches[0];
        assert_eq!(places.get(&packs, &digest), None);
        let made = Place { depth: 3, ..place };
        places.add_made(digest, made);
        packs.push(pack(1, 0..2, Form::Plain));
        assert_eq!(places.add(&packs), []);
        assert_eq!(places.get(&packs, &digest), Some(made));
        let other = places.get(&packs, &patches[1].0).unwrap();
        assert_eq!((other.pack, other.depth), (1, 0));
    }
}
