//! What a workspace looked like when its last snapshot was taken, so that what has not changed need
//! not be read again.
//!
//! ```text
//! "SEGNOIX3" | snapshot (32) | entries (8) | packs (8) | a stamp for the folder and each entry
//! | the name of each pack | check (32) | manifest
//! ```
//!
//! The manifest is that of the snapshot, and proved by its name; the check is the BLAKE3 hash of all
//! that comes before it. While all packs are there that there were, so is all content. A file is taken to be unchanged if its stamp is what it was; so is a
//! folder, and then nothing in it came or went. What was young when it was looked at has no stamp: a
//! write in the same tick of the clock would leave no trace. A miss costs a read, never a wrong
//! answer. A damaged index is noticed, and costs a full read.

mod lines;
mod section;
mod stamp;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;

use crate::beneath::Facts;
use crate::entry::{Entry, Skipped};
use crate::machine;
use crate::manifest::{attributes_in, bytes, digests_in, order_of, path, read_facts};
use crate::safe::Safe;
use crate::scroll::{Scroll, Sort};
use crate::wire::{Broken, Reader, Writer};

use lines::{Line, Lines};

pub(crate) use lines::Summary;
pub(crate) use section::{Memory, Section};
pub(crate) use stamp::{NONE, STAMP, YOUNG, is_older, is_settled, stamp};

const MAGIC: &[u8; 8] = b"SEGNOIX3";
const HEAD: usize = MAGIC.len() + 32 + 8 + 8;
/// The longest index that is read, whatever its file is (P10): its places are 32 bits.
const LONGEST: u64 = 4 * 1024 * 1024 * 1024 - 1;
/// From how many bytes on an index is worth two threads.
const LONG: usize = 1024 * 1024;
/// The number of the folder itself.
pub(crate) const ROOT: u32 = 0;

/// Where the index of a workspace is: one for each path and device.
pub(crate) fn place(folder: &Path, workspace: &Path, device: u64) -> PathBuf {
    let digest = Digest::of_fields(&[bytes(workspace), &device.to_le_bytes()]);
    let mut name = digest.to_string();
    name.truncate(32);
    let _ = write!(name, ".index");
    folder.join(name)
}

/// An index that was read. Entries are numbered as in the manifest, from 1 on; 0 is the folder
/// itself.
#[derive(Debug, Default)]
pub(crate) struct Index {
    content: Vec<u8>,
    lines: Vec<Line>,
    names: Vec<u8>,
    /// Names that were left out, by the folder that they are in.
    left: HashMap<u32, Vec<OsString>>,
    /// Folders of which not everything is known.
    closed: HashSet<u32>,
    /// The snapshot that was taken when it was written.
    pub(crate) snapshot: Option<Digest>,
    /// The packs that there were.
    pub(crate) packs: Vec<Digest>,
    /// What that says of the folder itself.
    pub(crate) root: Option<Entry>,
    /// What that left out.
    pub(crate) skipped: Vec<Skipped>,
    /// What that has, in short.
    pub(crate) summary: Summary,
}

/// The bytes of an index's file, but for the manifest that they end with.
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

/// The manifest of a snapshot, if that is what an index was written with.
pub(crate) fn manifest(safe: &Safe, index: &Path, snapshot: Digest) -> Option<Vec<u8>> {
    let mut content = safe.read(index, LONGEST).ok()?;
    let from = content.len() - Parts::of(&content).ok()?.manifest.len();
    let is_it = Digest::of(&content[from..]) == snapshot;
    is_it.then(|| content.split_off(from))
}

/// What an index consists of.
struct Parts<'a> {
    snapshot: Digest,
    entries: u64,
    packs: &'a [u8],
    /// All that the check is of.
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

    fn are_proved(&self) -> bool {
        Digest::of(self.head) == self.check && Digest::of(self.manifest) == self.snapshot
    }
}

impl Index {
    /// Reads an index; an empty one if there is none that can be used.
    pub(crate) fn read(safe: &Safe, path: &Path) -> Self {
        let content = safe.read(path, LONGEST);
        content.map_or_else(|_| Self::default(), Self::from_bytes)
    }

    /// An index from the bytes of its file; an empty one if they cannot be used.
    pub(crate) fn from_bytes(content: Vec<u8>) -> Self {
        Self::open(content).unwrap_or_default()
    }

    fn open(content: Vec<u8>) -> Result<Self, Broken> {
        let parts = Parts::of(&content)?;
        let read = || {
            let offset = content.len() - parts.manifest.len();
            let (root, scroll) = Scroll::open(parts.manifest)?;
            if scroll.left() as u64 != parts.entries {
                return Err(Broken("it has another number of stamps than of entries"));
            }
            let (tree, scroll) = Lines::read(offset, scroll)?;
            Ok((root, tree, scroll.skipped()?))
        };
        let proves = || parts.are_proved();
        let (is_proved, read) = machine::both(content.len() >= LONG, proves, read);
        let (root, tree, skipped) = read?;
        if !is_proved {
            return Err(Broken("it is damaged"));
        }
        let mut index = Self {
            lines: tree.all,
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
        index.note_skipped(&skipped);
        index.skipped = skipped;
        Ok(index)
    }

    fn note_skipped(&mut self, skipped: &[Skipped]) {
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
                    self.left.entry(folder).or_default().push(name);
                }
                (None, None) => {}
            }
        }
    }

    /// How many entries there are, with the folder itself.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// The number after the last.
    pub(crate) fn end(&self) -> u32 {
        let end = u32::try_from(self.lines.len()).unwrap_or(u32::MAX);
        end.max(ROOT + 1)
    }

    /// The manifest of the snapshot.
    pub(crate) fn manifest(&self) -> &[u8] {
        let from = HEAD + self.lines.len() * STAMP + self.packs.len() * 32 + 32;
        self.content.get(from..).unwrap_or_default()
    }

    /// All stamps, one after another.
    pub(crate) fn stamps(&self) -> &[u8] {
        self.content
            .get(HEAD..HEAD + self.lines.len() * STAMP)
            .unwrap_or_default()
    }

    /// The stamp of an entry.
    pub(crate) fn stamp(&self, number: u32) -> &[u8] {
        &self.stamps()[number as usize * STAMP..][..STAMP]
    }

    /// Whether an entry looks as it did.
    pub(crate) fn is_same(&self, number: u32, facts: &Facts) -> bool {
        self.stamp(number) == stamp(facts)
    }

    /// Takes the stamp from an entry: it has to be read again.
    pub(crate) fn forget(&mut self, number: u32) {
        let at = HEAD + number as usize * STAMP;
        self.content[at..at + STAMP].copy_from_slice(&NONE);
    }

    /// The entry's last name.
    pub(crate) fn name(&self, number: u32) -> &[u8] {
        let line = &self.lines[number as usize];
        &self.names[line.name as usize..][..usize::from(line.length)]
    }

    /// What the entry is.
    pub(crate) fn sort(&self, number: u32) -> Sort {
        self.lines[number as usize].sort
    }

    /// What a folder has in it, sorted by name.
    pub(crate) fn children(&self, folder: u32) -> impl Iterator<Item = u32> {
        let some = |number: u32| (number != 0).then_some(number);
        let first = self
            .lines
            .get(folder as usize)
            .and_then(|line| some(line.child));
        std::iter::successors(first, move |number| some(self.lines[*number as usize].next))
    }

    /// The names in a folder that were left out, sorted; none if not all of it is known.
    pub(crate) fn left_in(&self, folder: u32) -> Option<&[OsString]> {
        let left = self.left.get(&folder).map_or(&[][..], Vec::as_slice);
        (!self.closed.contains(&folder)).then_some(left)
    }

    /// The number of an entry.
    pub(crate) fn find(&self, path: &Path) -> Option<u32> {
        let mut at = (!self.lines.is_empty()).then_some(ROOT)?;
        for name in path {
            at = self
                .children(at)
                .find(|child| self.name(*child) == name.as_bytes())?;
        }
        Some(at)
    }

    /// Where an entry is.
    pub(crate) fn path(&self, number: u32) -> PathBuf {
        path(&self.path_bytes(number))
    }

    /// The same, as bytes.
    pub(crate) fn path_bytes(&self, mut number: u32) -> Vec<u8> {
        let mut names = Vec::with_capacity(16);
        while number != ROOT {
            names.push(self.name(number));
            number = self.lines[number as usize].above;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// Whether the entry is at `path`.
    pub(crate) fn is_at(&self, number: u32, path: &[u8]) -> bool {
        number < self.end() && self.path_bytes(number) == path
    }

    /// The first number from `from` on that does not come before `path`: looked for nearby first.
    pub(crate) fn seek(&self, from: u32, path: &[u8]) -> u32 {
        let comes_before = |number: u32| order_of(&self.path_bytes(number), path).is_lt();
        let (mut low, mut step, end) = (from, 1, self.end());
        while low < end && comes_before(low) {
            let next = low.saturating_add(step).min(end);
            if next < end && comes_before(next) {
                (low, step) = (next, step * 2);
                continue;
            }
            // Between the two.
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

    /// The bytes of all entries after `from` and before `to`, as the manifest has them.
    pub(crate) fn between(&self, from: u32, to: u32) -> &[u8] {
        let (from, last) = (&self.lines[from as usize], &self.lines[to as usize - 1]);
        &self.content[from.to as usize..last.to as usize]
    }

    /// The size of a file.
    pub(crate) fn size(&self, number: u32) -> u64 {
        self.lines[number as usize].size
    }

    /// What the manifest says of an entry.
    pub(crate) fn said(&self, number: u32) -> &[u8] {
        let line = &self.lines[number as usize];
        &self.content[line.from as usize..line.to as usize]
    }

    /// The digests of what a file consists of.
    pub(crate) fn digests(&self, number: u32) -> impl Iterator<Item = Digest> {
        digests_in(self.said(number))
    }

    /// The extended attributes of an entry.
    pub(crate) fn attributes(&self, number: u32) -> Vec<(OsString, Vec<u8>)> {
        attributes_in(self.said(number)).unwrap_or_default()
    }

    /// An entry, with a path of the caller's choice.
    pub(crate) fn entry(&self, number: u32, path: PathBuf) -> Option<Entry> {
        read_facts(&mut Reader(self.said(number)), path).ok()
    }
}
