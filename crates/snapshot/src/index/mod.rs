//! The state of a workspace at its last snapshot, so that unchanged files need not be read again.
//!
//! ```text
//! "SEGNOIX3" | snapshot (32) | entries (8) | packs (8) | a stamp for the folder and each entry
//! | the name of each pack | check (32) | manifest
//! ```
//!
//! The manifest is that of the snapshot and is verified by its name; the check is the BLAKE3 hash
//! of everything before it. While all listed packs exist, so does all content. A file with the same
//! stamp counts as unchanged; a folder with the same stamp has the same names in it. Items that
//! changed too recently have no stamp, because a write in the same clock tick would leave no trace.
//! A miss costs a read, never a wrong answer. A damaged index is noticed and costs a full read.

mod folder_cursor;
mod nodes;
mod stamp;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;

use crate::encrypted_file::EncryptedFiles;
use crate::entry::{Entry, EntryType, Skipped};
use crate::machine;
use crate::manifest::{attributes_in, bytes, digests_in, order_of, path, read_facts};
use crate::manifest_cursor::ManifestCursor;
use crate::openat::Facts;
use crate::wire::{Broken, Reader, Writer};

use nodes::{IndexNode, IndexTree};

pub(crate) use folder_cursor::{FolderCursor, KnownFile};
pub(crate) use nodes::Summary;
pub(crate) use stamp::{NONE, RECENT_NANOS, STAMP, has_trusted_stamp, is_older, stamp};

const MAGIC: &[u8; 8] = b"SEGNOIX3";
const HEAD: usize = MAGIC.len() + 32 + 8 + 8;
/// The longest index that is read, whatever its file is (P10): its offsets have 32 bits.
const LONGEST: u64 = 4 * 1024 * 1024 * 1024 - 1;
/// An index of at least this many bytes is parsed with two threads.
const LONG: usize = 1024 * 1024;
/// The number of the root folder.
pub(crate) const ROOT: u32 = 0;

/// The path of a workspace's index: one for each path and device.
pub(crate) fn index_path(folder: &Path, workspace: &Path, device: u64) -> PathBuf {
    let digest = Digest::of_fields(&[bytes(workspace), &device.to_le_bytes()]);
    let mut name = digest.to_string();
    name.truncate(32);
    let _ = write!(name, ".index");
    folder.join(name)
}

/// A parsed index. Entries are numbered as in the manifest, from 1 on; 0 is the root folder.
#[derive(Debug, Default)]
pub(crate) struct Index {
    content: Vec<u8>,
    nodes: Vec<IndexNode>,
    names: Vec<u8>,
    /// Excluded names, by the folder that contains them.
    excluded: HashMap<u32, Vec<OsString>>,
    /// Folders whose content is not completely known.
    closed: HashSet<u32>,
    /// The snapshot that the index was written with.
    pub(crate) snapshot: Option<Digest>,
    /// The packs that existed then.
    pub(crate) packs: Vec<Digest>,
    /// The root folder's entry in that snapshot.
    pub(crate) root: Option<Entry>,
    /// The paths that the snapshot excludes.
    pub(crate) skipped: Vec<Skipped>,
    /// The totals of the snapshot.
    pub(crate) summary: Summary,
}

/// The bytes of an index file up to the manifest.
pub(crate) fn head(snapshot: Digest, stamps: &[u8], packs: &[Digest]) -> Vec<u8> {
    let length = HEAD + stamps.len() + packs.len() * 32 + 32;
    let mut head = Writer(Vec::with_capacity(length));
    head.0.extend_from_slice(MAGIC);
    head.digest(&snapshot);
    let entries = stamps.len() / STAMP - 1;
    for count in [entries, packs.len()] {
        head.0.extend_from_slice(&(count as u64).to_le_bytes());
    }
    head.0.extend_from_slice(stamps);
    packs.iter().for_each(|pack| head.digest(pack));
    let check = Digest::of(&head.0);
    head.digest(&check);
    head.0
}

/// The manifest of a snapshot, if the index was written with it.
pub(crate) fn manifest(
    encrypted_files: &EncryptedFiles,
    index: &Path,
    snapshot: Digest,
) -> Option<Vec<u8>> {
    let mut content = encrypted_files.read(index, LONGEST).ok()?;
    let from = content.len() - Parts::of(&content).ok()?.manifest.len();
    let is_it = Digest::of(&content[from..]) == snapshot;
    is_it.then(|| content.split_off(from))
}

struct Parts<'a> {
    snapshot: Digest,
    entries: u64,
    packs: &'a [u8],
    /// Everything that `check` covers.
    head: &'a [u8],
    check: Digest,
    manifest: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(content: &'a [u8]) -> Result<Self, Broken> {
        let mut reader = Reader(content);
        if reader.take(MAGIC.len())? != MAGIC {
            return Err(Broken("it is not an index"));
        }
        let snapshot = reader.digest()?;
        let [entries, packs] = [*reader.chunk()?, *reader.chunk()?].map(u64::from_le_bytes);
        let length = |count: u64, each: usize| {
            let length = count.saturating_mul(each as u64);
            usize::try_from(length).map_err(|_| Broken("it is too long"))
        };
        reader.take(length(entries.saturating_add(1), STAMP)?)?;
        let packs = reader.take(length(packs, 32)?)?;
        Ok(Self {
            snapshot,
            entries,
            packs,
            head: &content[..content.len() - reader.0.len()],
            check: reader.digest()?,
            manifest: reader.0,
        })
    }

    fn are_verified(&self) -> bool {
        Digest::of(self.head) == self.check && Digest::of(self.manifest) == self.snapshot
    }
}

impl Index {
    /// Reads an index; an empty one if there is none that can be used.
    pub(crate) fn read(encrypted_files: &EncryptedFiles, path: &Path) -> Self {
        let content = encrypted_files.read(path, LONGEST);
        content.map_or_else(|_| Self::default(), Self::from_bytes)
    }

    /// Parses an index file; an empty index if the bytes cannot be used.
    pub(crate) fn from_bytes(content: Vec<u8>) -> Self {
        Self::open(content).unwrap_or_default()
    }

    fn open(content: Vec<u8>) -> Result<Self, Broken> {
        let parts = Parts::of(&content)?;
        let read = || {
            let offset = content.len() - parts.manifest.len();
            let (root, cursor) = ManifestCursor::open(parts.manifest)?;
            if cursor.left() as u64 != parts.entries {
                return Err(Broken(
                    "its number of stamps differs from its number of entries",
                ));
            }
            let (tree, cursor) = IndexTree::read(offset, cursor)?;
            Ok((root, tree, cursor.skipped()?))
        };
        let verify = || parts.are_verified();
        let (is_verified, read) = machine::join(content.len() >= LONG, verify, read);
        let (root, tree, skipped) = read?;
        if !is_verified {
            return Err(Broken("it is damaged"));
        }
        let mut index = Self {
            nodes: tree.all,
            names: tree.names,
            snapshot: Some(parts.snapshot),
            packs: parts
                .packs
                .chunks_exact(32)
                .filter_map(Digest::from_bytes)
                .collect(),
            root: Some(root),
            summary: tree.summary,
            content,
            ..Self::default()
        };
        index.record_skipped(&skipped);
        index.skipped = skipped;
        Ok(index)
    }

    fn record_skipped(&mut self, skipped: &[Skipped]) {
        let mut last: Option<(&Path, Option<u32>)> = None;
        for Skipped { path, .. } in skipped {
            let above = path.parent().unwrap_or(Path::new(""));
            let (_, folder) = match last {
                Some((path, folder)) if path == above => (path, folder),
                _ => *last.insert((above, self.find(above))),
            };
            match (self.find(path), folder) {
                (Some(closed), _) => {
                    self.closed.insert(closed);
                }
                (None, Some(folder)) => {
                    let name = path.file_name().unwrap_or_default().to_owned();
                    self.excluded.entry(folder).or_default().push(name);
                }
                (None, None) => {}
            }
        }
    }

    /// The number of entries, including the root folder.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The number after the last.
    pub(crate) fn end(&self) -> u32 {
        let end = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        end.max(ROOT + 1)
    }

    /// The manifest of the snapshot.
    pub(crate) fn manifest(&self) -> &[u8] {
        let from = HEAD + self.nodes.len() * STAMP + self.packs.len() * 32 + 32;
        self.content.get(from..).unwrap_or_default()
    }

    /// All stamps, concatenated.
    pub(crate) fn stamps(&self) -> &[u8] {
        self.content
            .get(HEAD..HEAD + self.nodes.len() * STAMP)
            .unwrap_or_default()
    }

    pub(crate) fn stamp(&self, number: u32) -> &[u8] {
        &self.stamps()[number as usize * STAMP..][..STAMP]
    }

    /// Whether the stamp of an entry is the same.
    pub(crate) fn is_same(&self, number: u32, facts: &Facts) -> bool {
        self.stamp(number) == stamp(facts)
    }

    /// Clears the stamp of an entry: it has to be read again.
    pub(crate) fn clear_stamp(&mut self, number: u32) {
        let at = HEAD + number as usize * STAMP;
        self.content[at..at + STAMP].copy_from_slice(&NONE);
    }

    /// The file name of an entry.
    pub(crate) fn name(&self, number: u32) -> &[u8] {
        let node = &self.nodes[number as usize];
        &self.names[node.name as usize..][..usize::from(node.length)]
    }

    pub(crate) fn entry_type(&self, number: u32) -> EntryType {
        self.nodes[number as usize].entry_type
    }

    /// The entries of a folder, sorted by name.
    pub(crate) fn children(&self, folder: u32) -> impl Iterator<Item = u32> {
        let some = |number: u32| (number != 0).then_some(number);
        let first = self
            .nodes
            .get(folder as usize)
            .and_then(|node| some(node.child));
        std::iter::successors(first, move |number| some(self.nodes[*number as usize].next))
    }

    /// The excluded names in a folder, sorted; `None` if its content is not completely known.
    pub(crate) fn excluded_in(&self, folder: u32) -> Option<&[OsString]> {
        let left = self.excluded.get(&folder).map_or(&[][..], Vec::as_slice);
        (!self.closed.contains(&folder)).then_some(left)
    }

    pub(crate) fn find(&self, path: &Path) -> Option<u32> {
        let mut at = (!self.nodes.is_empty()).then_some(ROOT)?;
        for name in path {
            at = self
                .children(at)
                .find(|child| self.name(*child) == name.as_bytes())?;
        }
        Some(at)
    }

    pub(crate) fn path(&self, number: u32) -> PathBuf {
        path(&self.path_bytes(number))
    }

    /// Like [`Index::path`], as bytes.
    pub(crate) fn path_bytes(&self, mut number: u32) -> Vec<u8> {
        let mut names = Vec::with_capacity(16);
        while number != ROOT {
            names.push(self.name(number));
            number = self.nodes[number as usize].parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    pub(crate) fn is_at(&self, number: u32, path: &[u8]) -> bool {
        number < self.end() && self.path_bytes(number) == path
    }

    /// The first number from `from` on whose path is not before `path`. Searches nearby first.
    pub(crate) fn seek(&self, from: u32, path: &[u8]) -> u32 {
        let comes_before = |number: u32| order_of(&self.path_bytes(number), path).is_lt();
        let (mut low, mut step, end) = (from, 1, self.end());
        while low < end && comes_before(low) {
            let next = low.saturating_add(step).min(end);
            if next < end && comes_before(next) {
                (low, step) = (next, step * 2);
                continue;
            }
            // Binary search between the two.
            let (mut before, mut after) = (low, next);
            while before + 1 < after {
                let middle = before + (after - before) / 2;
                if comes_before(middle) {
                    before = middle;
                } else {
                    after = middle;
                }
            }
            return after;
        }
        low
    }

    /// The bytes of all entries after `from` and before `to`, as encoded in the manifest.
    pub(crate) fn between(&self, from: u32, to: u32) -> &[u8] {
        let (from, last) = (&self.nodes[from as usize], &self.nodes[to as usize - 1]);
        &self.content[from.to as usize..last.to as usize]
    }

    pub(crate) fn size(&self, number: u32) -> u64 {
        self.nodes[number as usize].size
    }

    /// The encoded entry in the manifest, without its path.
    pub(crate) fn encoded(&self, number: u32) -> &[u8] {
        let node = &self.nodes[number as usize];
        &self.content[node.from as usize..node.to as usize]
    }

    /// The digests of a file's chunks.
    pub(crate) fn digests(&self, number: u32) -> impl Iterator<Item = Digest> {
        digests_in(self.encoded(number))
    }

    pub(crate) fn attributes(&self, number: u32) -> Vec<(OsString, Vec<u8>)> {
        attributes_in(self.encoded(number)).unwrap_or_default()
    }

    /// Decodes an entry, with a path given by the caller.
    pub(crate) fn entry(&self, number: u32, path: PathBuf) -> Option<Entry> {
        read_facts(&mut Reader(self.encoded(number)), path).ok()
    }
}
