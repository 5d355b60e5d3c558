//! All packs of a vault: where each piece of content is.
//!
//! A piece that is stored as a patch has a place only if its base has one. Places are given out
//! from the pieces that stand by themselves upwards, so whatever tables claim, following bases
//! comes to an end: circles, bases that no pack has, and chains longer than any that is written
//! lead to pieces without a place (P10).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;

use crate::carry::GUEST;
use crate::error::Error;
use crate::machine;
use crate::pack::known::ByDigest;
use crate::pack::places::Places;
use crate::pack::{Block, Form, Piece, Table, read_table};
use crate::safe::Safe;
use crate::wire::Broken;

/// How many patches may be applied one after another. Writers stop much earlier.
const DEEPEST: u8 = 32;
/// Fewer tables than this are read before a second thread would have begun.
const FEW: usize = 4;

/// What became of reading a table: the inner error is the pack's.
type Read = io::Result<Result<Table, Broken>>;

/// Where a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) pack: u32,
    pub(crate) block: u32,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    /// How many patches lie between it and a piece that stands by itself.
    pub(crate) depth: u8,
}

/// A pack that can be read.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) name: Digest,
    pub(crate) blocks: Vec<Block>,
    pub(super) pieces: Vec<Piece>,
    pub(crate) sealed: bool,
}

/// All packs that can be read.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    folder: PathBuf,
    safe: Safe,
    /// Packs that wait to be proved.
    guests: HashSet<Digest>,
    packs: Vec<Held>,
    places: Places,
    /// Patches that cannot be applied: their bases have no place.
    orphans: HashMap<Digest, Place, ByDigest>,
    damaged: Vec<(Digest, &'static str)>,
}

impl Shelf {
    /// Reads the tables of packs. What packs of an earlier group have is taken from there; in a
    /// group, pieces that stand by themselves are preferred, then those with few patches. Packs
    /// that went away in the meantime are passed over, damaged ones noted.
    pub(crate) fn open(
        folder: &Path,
        safe: &Safe,
        groups: impl IntoIterator<Item = Vec<Digest>>,
    ) -> Result<Self, Error> {
        let shelf = Self {
            folder: folder.to_owned(),
            safe: safe.clone(),
            ..Self::default()
        };
        shelf.fill(groups)
    }

    /// The same, with packs that wait to be proved after all others.
    pub(crate) fn with_guests(
        folder: &Path,
        safe: &Safe,
        packs: Vec<Digest>,
        guests: &[Digest],
    ) -> Result<Self, Error> {
        let shelf = Self {
            folder: folder.to_owned(),
            safe: safe.clone(),
            guests: guests.iter().copied().collect(),
            ..Self::default()
        };
        shelf.fill([packs, guests.to_vec()])
    }

    fn fill(self, groups: impl IntoIterator<Item = Vec<Digest>>) -> Result<Self, Error> {
        let mut shelf = self;
        let mut patches = Vec::new();
        for names in groups {
            let read = shelf.tables(&names);
            let pieces = |read: &Read| read.as_ref().ok()?.as_ref().ok().map(|it| it.pieces.len());
            let more = read.iter().filter_map(pieces).sum();
            shelf.places.reserve(&shelf.packs, more);
            for (name, table) in names.into_iter().zip(read) {
                match table {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(Error::at(&shelf.path(name), error)),
                    Ok(Err(broken)) => shelf.damaged.push((name, broken.0)),
                    Ok(Ok(table)) => shelf.add(name, table, &mut patches),
                }
            }
            shelf.settle(&mut patches);
        }
        for (digest, place) in patches {
            shelf.orphans.entry(digest).or_insert(place);
        }
        Ok(shelf)
    }

    /// The tables of packs, read with several threads.
    fn tables(&self, names: &[Digest]) -> Vec<Read> {
        let read = |name: &Digest| read_table(&self.safe, &self.path(*name), *name);
        let share = names.len().div_ceil(machine::workers()).max(FEW);
        std::thread::scope(|scope| {
            let (first, others) = names.split_at(share.min(names.len()));
            let others = others.chunks(share);
            let others: Vec<_> = others
                .map(|names| scope.spawn(move || names.iter().map(read).collect::<Vec<Read>>()))
                .collect();
            let mut tables: Vec<Read> = first.iter().map(read).collect();
            for other in others {
                tables.extend(other.join().expect("reading a table ends"));
            }
            tables
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn safe(&self) -> &Safe {
        &self.safe
    }

    pub(crate) fn path(&self, name: Digest) -> PathBuf {
        let end = if self.guests.contains(&name) {
            GUEST
        } else {
            ""
        };
        self.folder.join(format!("{name}{end}"))
    }

    fn add(&mut self, name: Digest, table: Table, patches: &mut Vec<(Digest, Place)>) {
        self.packs.push(Held {
            name,
            blocks: table.blocks,
            pieces: table.pieces,
            sealed: table.sealed,
        });
        patches.extend(self.places.add(&self.packs));
    }

    /// Gives places to patches whose bases have one, those with the fewest patches first.
    fn settle(&mut self, patches: &mut Vec<(Digest, Place)>) {
        for depth in 1..=DEEPEST {
            patches.retain(|&(digest, place)| {
                if self.place(&digest).is_some() {
                    return false;
                }
                let base = self.base(place).and_then(|base| self.place(&base));
                let base = base.filter(|base| base.depth < depth);
                if let Some(base) = base {
                    let depth = base.depth + 1;
                    self.places.add_made(digest, Place { depth, ..place });
                }
                base.is_none()
            });
        }
    }

    pub(crate) fn place(&self, digest: &Digest) -> Option<Place> {
        self.places.get(&self.packs, digest)
    }

    /// Where the piece is that another is made from in the end: itself, if it is no patch.
    pub(crate) fn foundation(&self, digest: &Digest) -> Option<Place> {
        let mut place = self.place(digest)?;
        // A base has fewer patches below it than what is made from it, so this ends.
        while let Some(base) = self.base(place) {
            place = self.place(&base)?;
        }
        Some(place)
    }

    /// The piece that the one at `place` is a patch of.
    pub(crate) fn base(&self, place: Place) -> Option<Digest> {
        match self.block(place).form {
            Form::Patch(base) => Some(base),
            Form::Plain | Form::Zstd => None,
        }
    }

    /// Pieces and all that they are made from, each with its place. A patch that cannot be applied
    /// counts with its own: what is left of it is not nobody's.
    pub(crate) fn with_bases(
        &self,
        digests: impl IntoIterator<Item = Digest>,
    ) -> HashMap<Digest, Place, ByDigest> {
        let mut found = HashMap::default();
        let mut wanted: Vec<Digest> = digests.into_iter().collect();
        while let Some(digest) = wanted.pop() {
            let place = self
                .place(&digest)
                .or_else(|| self.orphans.get(&digest).copied());
            if let Some(place) = place
                && found.insert(digest, place).is_none()
            {
                wanted.extend(self.base(place));
            }
        }
        found
    }

    /// Why a piece has no place.
    pub(crate) fn lost(&self, digest: Digest) -> Error {
        let Some(&orphan) = self.orphans.get(&digest) else {
            return Error::damaged(format!("content {digest}"), "no pack has it");
        };
        let mut at = orphan;
        for _ in 0..DEEPEST {
            let Some(base) = self.base(at) else { break };
            match self.orphans.get(&base) {
                Some(&next) => at = next,
                None if self.place(&base).is_some() => break,
                None => {
                    let reason = format!("no pack has the content {base} that it is a change of");
                    return Error::damaged(self.label(orphan), reason);
                }
            }
        }
        Error::damaged(
            self.label(orphan),
            "what it is a change of goes round in a circle, or too far back",
        )
    }

    /// Every pack that is needed to read these pieces. That one is nowhere is damage.
    pub(crate) fn packs_with<'a>(
        &self,
        pieces: impl IntoIterator<Item = &'a Digest>,
    ) -> Result<BTreeSet<Digest>, Error> {
        let pieces: Vec<Digest> = pieces.into_iter().copied().collect();
        if let Some(lost) = pieces.iter().find(|piece| self.place(piece).is_none()) {
            return Err(self.lost(*lost));
        }
        let places = self.with_bases(pieces).into_values();
        Ok(places.map(|place| self.name(place.pack)).collect())
    }

    /// Packs whose tables cannot be read, and why.
    pub(crate) fn damaged(&self) -> &[(Digest, &'static str)] {
        &self.damaged
    }

    /// All packs that can be read, with their blocks, in the order of [`Place::pack`].
    pub(crate) fn packs(&self) -> &[Held] {
        &self.packs
    }

    /// Whether all these packs can be read, and there are some.
    pub(crate) fn has_packs(&self, names: &[Digest]) -> bool {
        let here: HashSet<Digest> = self.packs.iter().map(|pack| pack.name).collect();
        !names.is_empty() && names.iter().all(|name| here.contains(name))
    }

    pub(crate) fn name(&self, pack: u32) -> Digest {
        self.packs[pack as usize].name
    }

    pub(crate) fn block(&self, place: Place) -> Block {
        self.packs[place.pack as usize].blocks[place.block as usize]
    }

    /// A piece's share of what its block takes in the pack.
    pub(crate) fn share(&self, place: Place) -> u64 {
        let block = self.block(place);
        u64::from(place.length) * u64::from(block.stored) / u64::from(block.raw.max(1))
    }

    /// What a place is called when it is damaged.
    pub(crate) fn label(&self, place: Place) -> String {
        format!("block {} of pack {}", place.block, self.name(place.pack))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::LONGEST;
    use crate::entry::Chunk;
    use crate::pack::open::Open;
    use crate::pack::{Cursor, patch};

    /// What a digest is of, what the digest of the base is of, and the bytes of the block.
    type Made<'a> = (&'a [u8], Option<&'a [u8]>, Vec<u8>);

    /// Packs as a capture would not write them: each piece a block of its own.
    struct Packs(tempfile::TempDir);

    impl Packs {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        /// A pack with these pieces.
        fn add(&self, pieces: &[Made<'_>]) {
            let mut open = Open::new(&Safe::default(), self.0.path()).unwrap();
            for (content, base, bytes) in pieces {
                let length = u32::try_from(content.len()).unwrap();
                let form = base.map_or(Form::Plain, |base| Form::Patch(Digest::of(base)));
                let piece = [(Digest::of(content), length)];
                open.add(form, bytes, content.len(), &piece).unwrap();
            }
            open.seal(self.0.path()).unwrap();
        }

        fn read(&self, content: &[u8]) -> Result<Vec<u8>, Error> {
            let names = crate::vault::names(self.0.path()).unwrap();
            let shelf = Shelf::open(self.0.path(), &Safe::default(), [names]).unwrap();
            let chunk = Chunk {
                digest: Digest::of(content),
                length: u32::try_from(content.len()).unwrap(),
            };
            Cursor::new(&shelf)?.read(chunk).map(<[u8]>::to_vec)
        }

        fn reason(&self, content: &[u8]) -> String {
            match self.read(content) {
                Err(Error::Damaged { reason, .. }) => reason,
                other => panic!("{other:?}"),
            }
        }
    }

    fn versions(count: u8) -> Vec<Vec<u8>> {
        let version = |number: u8| [[7; 32], *blake3::hash(&[number]).as_bytes()].concat();
        (0..count).map(version).collect()
    }

    fn patched(from: &[u8], to: &[u8]) -> Vec<u8> {
        patch::make(from, to).unwrap()
    }

    #[test]
    fn a_patch_is_read_whichever_packs_have_it_and_its_bases() {
        let packs = Packs::new();
        let versions = versions(4);
        for pair in versions.windows(2).rev() {
            packs.add(&[(&pair[1], Some(&pair[0]), patched(&pair[0], &pair[1]))]);
        }
        packs.add(&[(&versions[0], None, versions[0].clone())]);
        for version in &versions {
            assert_eq!(packs.read(version).as_ref(), Ok(version));
        }
    }

    #[test]
    fn bases_that_go_round_in_a_circle_are_damage() {
        let packs = Packs::new();
        let v = versions(4);
        packs.add(&[
            (&v[0], Some(&v[1]), patched(&v[1], &v[0])),
            (&v[1], Some(&v[0]), patched(&v[0], &v[1])),
            (&v[2], Some(&v[2]), patched(&v[2], &v[2].clone())),
            (&v[3], Some(&v[1]), patched(&v[1], &v[3])),
        ]);
        for version in &v {
            assert!(packs.reason(version).contains("circle"));
        }
    }

    #[test]
    fn a_base_that_is_missing_is_named_to_whoever_builds_on_it() {
        let packs = Packs::new();
        let v = versions(3);
        packs.add(&[
            (&v[1], Some(&v[0]), patched(&v[0], &v[1])),
            (&v[2], Some(&v[1]), patched(&v[1], &v[2])),
        ]);
        let missing = Digest::of(&v[0]).to_string();
        assert!(packs.reason(&v[1]).contains(&missing));
        assert!(packs.reason(&v[2]).contains(&missing));
    }

    #[test]
    fn a_chain_that_is_longer_than_any_that_is_written_is_damage() {
        let packs = Packs::new();
        let v = versions(100);
        packs.add(&[(&v[0], None, v[0].clone())]);
        for pair in v.windows(2) {
            packs.add(&[(&pair[1], Some(&pair[0]), patched(&pair[0], &pair[1]))]);
        }
        assert_eq!(packs.read(&v[usize::from(DEEPEST)]).as_ref(), Ok(&v[32]));
        assert!(packs.reason(&v[33]).contains("too far back"));
        assert!(packs.reason(&v[99]).contains("too far back"));
    }

    #[test]
    fn a_patch_of_something_else_is_damage() {
        let packs = Packs::new();
        let v = versions(3);
        packs.add(&[
            (&v[0], None, v[0].clone()),
            (&v[1], Some(&v[0]), patched(&v[1].clone(), &v[1])),
            (&v[2], Some(&v[0]), vec![0; 9]),
        ]);
        for version in &v[1..] {
            assert!(packs.reason(version).contains("do not give"));
        }
    }

    /// Gives the only pack another version, whatever is in it.
    fn rewrite(packs: &Packs, version: u8) -> Digest {
        let name = crate::vault::names(packs.0.path()).unwrap()[0];
        let path = packs.0.path().join(name.to_string());
        let mut bytes = crate::files::read(&path, 1 << 24).unwrap();
        bytes[7] = version;
        let mut draft = crate::files::Draft::new(packs.0.path()).unwrap();
        draft.write(&bytes).unwrap();
        draft.settle().unwrap().publish(&path).unwrap();
        name
    }

    #[test]
    fn a_pack_of_another_version_is_named_as_such() {
        let packs = Packs::new();
        packs.add(&[(b"a", None, b"a".to_vec())]);
        let name = rewrite(&packs, b'9');
        let shelf = Shelf::open(packs.0.path(), &Safe::default(), [vec![name]]).unwrap();
        let reason = "it is a pack of a version that is not known here";
        assert_eq!(shelf.damaged(), [(name, reason)]);
    }

    #[test]
    fn blocks_and_pieces_are_at_most_so_long() {
        let [half, whole] = [LONGEST / 2, LONGEST].map(|length| vec![7; length]);
        let piece = |bytes: &[u8]| (Digest::of(bytes), u32::try_from(bytes.len()).unwrap());
        let of = |pieces: &[&[u8]]| {
            let packs = Packs::new();
            let mut open = Open::new(&Safe::default(), packs.0.path()).unwrap();
            let bytes = pieces.concat();
            let table: Vec<_> = pieces.iter().map(|bytes| piece(bytes)).collect();
            open.add(Form::Plain, &bytes, bytes.len(), &table).unwrap();
            open.seal(packs.0.path()).unwrap();
            let names = crate::vault::names(packs.0.path()).unwrap();
            let shelf = Shelf::open(packs.0.path(), &Safe::default(), [names]).unwrap();
            let reasons = shelf.damaged().iter().map(|(_, reason)| *reason);
            reasons.collect::<Vec<_>>()
        };
        let nothing: Vec<&str> = Vec::new();
        let block = vec!["its table has a block that none can be"];
        let piece = vec!["its table has a piece that is too long"];
        assert_eq!(of(&[&half, &whole]), nothing);
        assert_eq!(of(&[&whole, &whole, &whole, &whole, b"a"]), block);
        assert_eq!(of(&[&[&half[..], &whole].concat()]), piece);
    }
}
