//! All packs of a store: locates each chunk of content.
//!
//! A patch has a location only if its base has one. Locations are assigned from the chunks that are
//! not patches upwards, so following bases always ends, whatever tables claim: chunks in cycles,
//! with missing bases, or in chains longer than any that is written have no location (P10).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;

use crate::encrypted_file::EncryptedFiles;
use crate::error::Error;
use crate::machine;
use crate::pack::pack_index::PackIndex;
use crate::pack::stored_chunks::ByDigest;
use crate::pack::{Block, Form, PENDING_SUFFIX, Piece, Table, read_table};
use crate::wire::Broken;

/// How many patches may be applied one after another. Writers stop much earlier.
const DEEPEST: u8 = 32;
/// Fewer tables than this are read before a second thread would have started.
const FEW: usize = 4;

/// The result of reading a table: the inner error means that the pack is damaged.
type Read = io::Result<Result<Table, Broken>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChunkLocation {
    pub(crate) pack: u32,
    pub(crate) block: u32,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    /// The number of patches between this chunk and one that is not a patch.
    pub(crate) depth: u8,
}

/// A pack that can be read.
#[derive(Debug)]
pub(crate) struct PackInfo {
    pub(crate) name: Digest,
    pub(crate) blocks: Vec<Block>,
    pub(super) pieces: Vec<Piece>,
    pub(crate) encrypted: bool,
}

/// All packs that can be read.
#[derive(Debug, Default)]
pub(crate) struct PackSet {
    folder: PathBuf,
    encrypted_files: EncryptedFiles,
    /// Packs that are not verified yet.
    pending_packs: HashSet<Digest>,
    packs: Vec<PackInfo>,
    index: PackIndex,
    /// Patches that cannot be applied, because their bases have no location.
    orphans: HashMap<Digest, ChunkLocation, ByDigest>,
    damaged: Vec<(Digest, &'static str)>,
}

impl PackSet {
    /// Reads the tables of packs. Chunks of earlier groups take precedence; within a group, chunks
    /// that are not patches are preferred, then those with few patches. Skips packs that vanished
    /// in the meantime and records damaged ones.
    pub(crate) fn open(
        folder: &Path,
        encrypted_files: &EncryptedFiles,
        groups: impl IntoIterator<Item = Vec<Digest>>,
    ) -> Result<Self, Error> {
        let pack_set = Self {
            folder: folder.to_owned(),
            encrypted_files: encrypted_files.clone(),
            ..Self::default()
        };
        pack_set.read_groups(groups)
    }

    /// Like [`PackSet::open`], with packs that are not verified yet as the last group.
    pub(crate) fn open_with_pending(
        folder: &Path,
        encrypted_files: &EncryptedFiles,
        packs: Vec<Digest>,
        pending_packs: &[Digest],
    ) -> Result<Self, Error> {
        let pack_set = Self {
            folder: folder.to_owned(),
            encrypted_files: encrypted_files.clone(),
            pending_packs: pending_packs.iter().copied().collect(),
            ..Self::default()
        };
        pack_set.read_groups([packs, pending_packs.to_vec()])
    }

    fn read_groups(self, groups: impl IntoIterator<Item = Vec<Digest>>) -> Result<Self, Error> {
        let mut pack_set = self;
        let mut patches = Vec::new();
        for names in groups {
            let read = pack_set.tables(&names);
            let pieces = |read: &Read| read.as_ref().ok()?.as_ref().ok().map(|it| it.pieces.len());
            let more = read.iter().filter_map(pieces).sum();
            pack_set.index.reserve(&pack_set.packs, more);
            for (name, table) in names.into_iter().zip(read) {
                match table {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(Error::at(&pack_set.path(name), error)),
                    Ok(Err(broken)) => pack_set.damaged.push((name, broken.0)),
                    Ok(Ok(table)) => pack_set.add(name, table, &mut patches),
                }
            }
            pack_set.locate_patches(&mut patches);
        }
        for (digest, location) in patches {
            pack_set.orphans.entry(digest).or_insert(location);
        }
        Ok(pack_set)
    }

    /// Reads the tables of packs, with several threads.
    fn tables(&self, names: &[Digest]) -> Vec<Read> {
        let read = |name: &Digest| read_table(&self.encrypted_files, &self.path(*name), *name);
        let share = names.len().div_ceil(machine::workers()).max(FEW);
        std::thread::scope(|scope| {
            let (first, others) = names.split_at(share.min(names.len()));
            let others = others.chunks(share);
            let others: Vec<_> = others
                .map(|names| scope.spawn(move || names.iter().map(read).collect::<Vec<Read>>()))
                .collect();
            let mut tables: Vec<Read> = first.iter().map(read).collect();
            for other in others {
                tables.extend(other.join().expect("reading a table does not panic"));
            }
            tables
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn encrypted_files(&self) -> &EncryptedFiles {
        &self.encrypted_files
    }

    pub(crate) fn path(&self, name: Digest) -> PathBuf {
        let end = if self.pending_packs.contains(&name) {
            PENDING_SUFFIX
        } else {
            ""
        };
        self.folder.join(format!("{name}{end}"))
    }

    fn add(&mut self, name: Digest, table: Table, patches: &mut Vec<(Digest, ChunkLocation)>) {
        self.packs.push(PackInfo {
            name,
            blocks: table.blocks,
            pieces: table.pieces,
            encrypted: table.encrypted,
        });
        patches.extend(self.index.add(&self.packs));
    }

    /// Locates the patches whose bases have a location, those with the fewest patches first.
    fn locate_patches(&mut self, patches: &mut Vec<(Digest, ChunkLocation)>) {
        for depth in 1..=DEEPEST {
            patches.retain(|&(digest, location)| {
                if self.locate(&digest).is_some() {
                    return false;
                }
                let base = self.base(location).and_then(|base| self.locate(&base));
                let base = base.filter(|base| base.depth < depth);
                if let Some(base) = base {
                    let depth = base.depth + 1;
                    self.index
                        .insert_patch(digest, ChunkLocation { depth, ..location });
                }
                base.is_none()
            });
        }
    }

    pub(crate) fn locate(&self, digest: &Digest) -> Option<ChunkLocation> {
        self.index.get(&self.packs, digest)
    }

    /// The location of the chunk at the end of a chain of patches; the chunk itself if it is not a
    /// patch.
    pub(crate) fn unpatched_location(&self, digest: &Digest) -> Option<ChunkLocation> {
        let mut location = self.locate(digest)?;
        // A base has fewer patches below it than the chunk made from it, so this loop ends.
        while let Some(base) = self.base(location) {
            location = self.locate(&base)?;
        }
        Some(location)
    }

    /// The base of the patch at `location`.
    pub(crate) fn base(&self, location: ChunkLocation) -> Option<Digest> {
        match self.block(location).form {
            Form::Patch(base) => Some(base),
            Form::Plain | Form::Zstd => None,
        }
    }

    /// Chunks and all of their bases, each with its location. A patch that cannot be applied counts
    /// with its own location: the rest of it must not be deleted as unreferenced.
    pub(crate) fn with_bases(
        &self,
        digests: impl IntoIterator<Item = Digest>,
    ) -> HashMap<Digest, ChunkLocation, ByDigest> {
        let mut found = HashMap::default();
        let mut wanted: Vec<Digest> = digests.into_iter().collect();
        while let Some(digest) = wanted.pop() {
            let location = self
                .locate(&digest)
                .or_else(|| self.orphans.get(&digest).copied());
            if let Some(location) = location
                && found.insert(digest, location).is_none()
            {
                wanted.extend(self.base(location));
            }
        }
        found
    }

    /// The error that explains why a chunk has no location.
    pub(crate) fn missing_chunk(&self, digest: Digest) -> Error {
        let Some(&orphan) = self.orphans.get(&digest) else {
            return Error::damaged(format!("chunk {digest}"), "no pack contains it");
        };
        let mut at = orphan;
        for _ in 0..DEEPEST {
            let Some(base) = self.base(at) else { break };
            match self.orphans.get(&base) {
                Some(&next) => at = next,
                None if self.locate(&base).is_some() => break,
                None => {
                    let reason = format!("no pack contains its base, chunk {base}");
                    return Error::damaged(self.label(orphan), reason);
                }
            }
        }
        Error::damaged(
            self.label(orphan),
            "its chain of bases is circular or too long",
        )
    }

    /// Every pack that is needed to read these chunks. A missing chunk is damage.
    pub(crate) fn packs_with<'a>(
        &self,
        pieces: impl IntoIterator<Item = &'a Digest>,
    ) -> Result<BTreeSet<Digest>, Error> {
        let pieces: Vec<Digest> = pieces.into_iter().copied().collect();
        if let Some(lost) = pieces.iter().find(|piece| self.locate(piece).is_none()) {
            return Err(self.missing_chunk(*lost));
        }
        let locations = self.with_bases(pieces).into_values();
        Ok(locations.map(|location| self.name(location.pack)).collect())
    }

    /// Packs whose tables cannot be read, and why.
    pub(crate) fn damaged(&self) -> &[(Digest, &'static str)] {
        &self.damaged
    }

    /// All packs that can be read, in the order of [`ChunkLocation::pack`].
    pub(crate) fn packs(&self) -> &[PackInfo] {
        &self.packs
    }

    /// Whether all these packs can be read. False for an empty list.
    pub(crate) fn has_packs(&self, names: &[Digest]) -> bool {
        let here: HashSet<Digest> = self.packs.iter().map(|pack| pack.name).collect();
        !names.is_empty() && names.iter().all(|name| here.contains(name))
    }

    pub(crate) fn name(&self, pack: u32) -> Digest {
        self.packs[pack as usize].name
    }

    pub(crate) fn block(&self, location: ChunkLocation) -> Block {
        self.packs[location.pack as usize].blocks[location.block as usize]
    }

    /// The share of a chunk in the stored length of its block.
    pub(crate) fn share(&self, location: ChunkLocation) -> u64 {
        let block = self.block(location);
        u64::from(location.length) * u64::from(block.stored) / u64::from(block.raw.max(1))
    }

    /// The name of a location in error messages.
    pub(crate) fn label(&self, location: ChunkLocation) -> String {
        format!(
            "block {} of pack {}",
            location.block,
            self.name(location.pack)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::LONGEST;
    use crate::entry::Chunk;
    use crate::pack::pack_writer::PackWriter;
    use crate::pack::{Cursor, patch};

    /// The content of a chunk, the content of its base, and the bytes of the block.
    type Made<'a> = (&'a [u8], Option<&'a [u8]>, Vec<u8>);

    /// Packs that no capture would write: each chunk has a block of its own.
    struct Packs(tempfile::TempDir);

    impl Packs {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn add(&self, pieces: &[Made<'_>]) {
            let mut open = PackWriter::new(&EncryptedFiles::default(), self.0.path()).unwrap();
            for (content, base, bytes) in pieces {
                let length = u32::try_from(content.len()).unwrap();
                let form = base.map_or(Form::Plain, |base| Form::Patch(Digest::of(base)));
                let piece = [(Digest::of(content), length)];
                open.add(form, bytes, content.len(), &piece).unwrap();
            }
            open.seal(self.0.path()).unwrap();
        }

        fn read(&self, content: &[u8]) -> Result<Vec<u8>, Error> {
            let names = crate::files::digests(self.0.path()).unwrap();
            let pack_set =
                PackSet::open(self.0.path(), &EncryptedFiles::default(), [names]).unwrap();
            let chunk = Chunk {
                digest: Digest::of(content),
                length: u32::try_from(content.len()).unwrap(),
            };
            Cursor::new(&pack_set)?.read(chunk).map(<[u8]>::to_vec)
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
    fn patches_are_read_across_packs() {
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
    fn cyclic_bases_are_damage() {
        let packs = Packs::new();
        let v = versions(4);
        packs.add(&[
            (&v[0], Some(&v[1]), patched(&v[1], &v[0])),
            (&v[1], Some(&v[0]), patched(&v[0], &v[1])),
            (&v[2], Some(&v[2]), patched(&v[2], &v[2].clone())),
            (&v[3], Some(&v[1]), patched(&v[1], &v[3])),
        ]);
        for version in &v {
            assert!(packs.reason(version).contains("circular"));
        }
    }

    #[test]
    fn missing_base_is_named_in_the_error() {
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
    fn too_long_patch_chain_is_damage() {
        let packs = Packs::new();
        let v = versions(100);
        packs.add(&[(&v[0], None, v[0].clone())]);
        for pair in v.windows(2) {
            packs.add(&[(&pair[1], Some(&pair[0]), patched(&pair[0], &pair[1]))]);
        }
        assert_eq!(packs.read(&v[usize::from(DEEPEST)]).as_ref(), Ok(&v[32]));
        assert!(packs.reason(&v[33]).contains("circular or too long"));
        assert!(packs.reason(&v[99]).contains("circular or too long"));
    }

    #[test]
    fn patch_of_another_base_is_damage() {
        let packs = Packs::new();
        let v = versions(3);
        packs.add(&[
            (&v[0], None, v[0].clone()),
            (&v[1], Some(&v[0]), patched(&v[1].clone(), &v[1])),
            (&v[2], Some(&v[0]), vec![0; 9]),
        ]);
        for version in &v[1..] {
            assert!(packs.reason(version).contains("does not produce"));
        }
    }

    /// Changes the version byte of the only pack.
    fn rewrite(packs: &Packs, version: u8) -> Digest {
        let name = crate::files::digests(packs.0.path()).unwrap()[0];
        let path = packs.0.path().join(name.to_string());
        let mut bytes = crate::files::read(&path, 1 << 24).unwrap();
        bytes[7] = version;
        let mut draft = crate::files::Draft::new(packs.0.path()).unwrap();
        draft.write(&bytes).unwrap();
        draft.sync().unwrap().publish(&path).unwrap();
        name
    }

    #[test]
    fn pack_of_unknown_version_is_reported() {
        let packs = Packs::new();
        packs.add(&[(b"a", None, b"a".to_vec())]);
        let name = rewrite(&packs, b'9');
        let pack_set =
            PackSet::open(packs.0.path(), &EncryptedFiles::default(), [vec![name]]).unwrap();
        let reason = "it is a pack of an unknown version";
        assert_eq!(pack_set.damaged(), [(name, reason)]);
    }

    #[test]
    fn block_and_chunk_lengths_are_limited() {
        let [half, whole] = [LONGEST / 2, LONGEST].map(|length| vec![7; length]);
        let piece = |bytes: &[u8]| (Digest::of(bytes), u32::try_from(bytes.len()).unwrap());
        let of = |pieces: &[&[u8]]| {
            let packs = Packs::new();
            let mut open = PackWriter::new(&EncryptedFiles::default(), packs.0.path()).unwrap();
            let bytes = pieces.concat();
            let table: Vec<_> = pieces.iter().map(|bytes| piece(bytes)).collect();
            open.add(Form::Plain, &bytes, bytes.len(), &table).unwrap();
            open.seal(packs.0.path()).unwrap();
            let names = crate::files::digests(packs.0.path()).unwrap();
            let pack_set =
                PackSet::open(packs.0.path(), &EncryptedFiles::default(), [names]).unwrap();
            let reasons = pack_set.damaged().iter().map(|(_, reason)| *reason);
            reasons.collect::<Vec<_>>()
        };
        let nothing: Vec<&str> = Vec::new();
        let block = vec!["its table has an invalid block"];
        let piece = vec!["its table has a chunk that is too long"];
        assert_eq!(of(&[&half, &whole]), nothing);
        assert_eq!(of(&[&whole, &whole, &whole, &whole, b"a"]), block);
        assert_eq!(of(&[&[&half[..], &whole].concat()]), piece);
    }

    #[test]
    fn vanished_pack_is_skipped_and_other_errors_are_not() {
        let packs = Packs::new();
        packs.add(&[(b"a", None, b"a".to_vec())]);
        let mut names = crate::files::digests(packs.0.path()).unwrap();
        let there = names.clone();
        names.push(Digest::of(b"vanished"));
        let open = |folder: &Path| {
            let pack_set = PackSet::open(folder, &EncryptedFiles::default(), [names.clone()]);
            pack_set.map(|it| it.packs().iter().map(|pack| pack.name).collect::<Vec<_>>())
        };
        assert_eq!(open(packs.0.path()), Ok(there.clone()));
        let file = packs.0.path().join(there[0].to_string());
        assert!(open(&file).is_err(), "a folder that is a file");
    }

    #[test]
    fn chunk_takes_its_share_of_the_block() {
        let (long, short) = (vec![7; 3000], b"short".to_vec());
        let raw = [&long[..], &short].concat();
        let bytes = zstd::bulk::compress(&raw, 3).unwrap();
        let packs = Packs::new();
        let mut open = PackWriter::new(&EncryptedFiles::default(), packs.0.path()).unwrap();
        let table = [(Digest::of(&long), 3000), (Digest::of(&short), 5)];
        open.add(Form::Zstd, &bytes, raw.len(), &table).unwrap();
        open.seal(packs.0.path()).unwrap();
        let names = crate::files::digests(packs.0.path()).unwrap();
        let pack_set =
            PackSet::open(packs.0.path(), &EncryptedFiles::default(), [names.clone()]).unwrap();
        let share = |content: &[u8]| {
            let location = pack_set.locate(&Digest::of(content)).unwrap();
            pack_set.share(location)
        };
        let stored = u64::try_from(bytes.len()).unwrap();
        assert!(stored > 15 && stored < 100, "{stored}");
        assert_eq!(share(&long), 3000 * stored / 3005);
        assert_eq!(share(&short), 0);
        let other = Digest::of(b"other");
        assert!(pack_set.has_packs(&names));
        assert!(!pack_set.has_packs(&[names[0], other]) && !pack_set.has_packs(&[other]));
        assert!(!pack_set.has_packs(&[]));
    }

    #[test]
    fn chain_of_patches_leads_to_its_first_chunk() {
        let packs = Packs::new();
        let v = versions(3);
        packs.add(&[(&v[0], None, v[0].clone())]);
        for pair in v.windows(2) {
            packs.add(&[(&pair[1], Some(&pair[0]), patched(&pair[0], &pair[1]))]);
        }
        let names = crate::files::digests(packs.0.path()).unwrap();
        let pack_set = PackSet::open(packs.0.path(), &EncryptedFiles::default(), [names]).unwrap();
        let [whole, first, second] = [0, 1, 2].map(|at| Digest::of(&v[at]));
        let location = |digest: &Digest| pack_set.locate(digest).unwrap();
        let depths = [&whole, &first, &second].map(|digest| location(digest).depth);
        assert_eq!(depths, [0, 1, 2]);
        for digest in [&whole, &first, &second] {
            assert_eq!(pack_set.unpatched_location(digest), Some(location(&whole)));
        }
        assert_eq!(pack_set.unpatched_location(&Digest::of(b"missing")), None);
        let found = pack_set.with_bases([second]);
        assert_eq!(found.len(), 3);
        assert_eq!(pack_set.packs_with([&second]).unwrap().len(), 3);
        assert_eq!(pack_set.packs_with([&whole]).unwrap().len(), 1);
        assert!(pack_set.packs_with([&Digest::of(b"missing")]).is_err());
    }
}
