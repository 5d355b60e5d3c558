//! How a manifest is stored: whole, or as changes since another one.
//!
//! Either way, the file is named by the hash of the whole manifest. So a manifest can be stored
//! again in the other form without becoming another snapshot, and a manifest assembled from a chain
//! of changes is verified by its name.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;

use crate::entry::{Entry, Skipped};
use crate::manifest::{self, Manifest, bytes, order};
use crate::manifest_cursor::ManifestCursor;
use crate::wire::{Broken, Reader, Writer};

const MAGIC: &[u8; 8] = b"SEGNOMF1";
const WHOLE: u8 = 0;
const CHANGES: u8 = 1;
/// How many changes may follow one another before a manifest is stored whole again.
pub(crate) const CHAIN: u32 = 64;
/// The longest manifest that is read, whatever its file claims (P10).
pub(crate) const LONGEST: u64 = 2 * 1024 * 1024 * 1024;
const LEVEL: i32 = 3;
/// A manifest is stored whole if more than one entry in this many changed.
const MANY: usize = 4;

/// A manifest in its stored form.
#[derive(Debug)]
pub(crate) enum Stored {
    /// The bytes that [`Manifest::decode`] parses.
    Whole(Vec<u8>),
    /// The changes since another snapshot.
    Changes {
        parent: Digest,
        /// The number of changes between this manifest and a whole one.
        depth: u32,
        changes: Changes,
    },
}

/// The changes from one manifest to the next.
#[derive(Debug)]
pub(crate) struct Changes {
    root: Entry,
    removed: Vec<PathBuf>,
    put: Vec<Entry>,
    skipped: Vec<Skipped>,
}

/// Applies a chain of changes, the last one first, to a manifest. Returns the bytes of the result.
pub(crate) fn apply(whole: &[u8], chain: &[Changes]) -> Result<Vec<u8>, Broken> {
    let Some(last) = chain.first() else {
        return Ok(whole.to_vec());
    };
    let mut changed = sum_up(chain).into_iter().peekable();
    let (_, mut before) = ManifestCursor::open(whole)?;
    let mut after = Entries::new(whole.len());
    let precedes = |path: &Path, before: &ManifestCursor<'_>| {
        manifest::order_of(bytes(path), &before.path) == Ordering::Less
    };
    while before.next()? {
        while let Some((_, entry)) = changed.next_if(|(path, _)| precedes(path, &before)) {
            after.put(entry);
        }
        match changed.next_if(|(path, _)| bytes(path) == before.path) {
            Some((_, entry)) => after.put(entry),
            None => after.copy(&before),
        }
    }
    changed.for_each(|(_, entry)| after.put(entry));
    let mut result = Writer(Vec::with_capacity(after.bytes.0.len() + 4096));
    result.byte(manifest::VERSION);
    manifest::write_facts(&mut result, &last.root);
    result.size(after.count);
    result.0.append(&mut after.bytes.0);
    manifest::write_skipped(&mut result, &last.skipped);
    Ok(result.0)
}

/// Sums up a chain of changes, the last one first: each changed path, in order, with its new entry.
fn sum_up(chain: &[Changes]) -> Vec<(&Path, Option<&Entry>)> {
    let mut changed: HashMap<&Path, Option<&Entry>> = HashMap::new();
    for changes in chain {
        for entry in &changes.put {
            changed.entry(&entry.path).or_insert(Some(entry));
        }
        for path in &changes.removed {
            changed.entry(path).or_insert(None);
        }
    }
    let mut changed: Vec<(&Path, Option<&Entry>)> = changed.into_iter().collect();
    changed.sort_unstable_by(|(left, _), (right, _)| order(left, right));
    changed
}

/// The entries of a manifest that is being assembled.
struct Entries {
    bytes: Writer,
    count: usize,
    /// The path that was written last.
    last: Vec<u8>,
    /// Where the last entry ends in the manifest that it was copied from.
    copied: Option<usize>,
}

impl Entries {
    fn new(length: usize) -> Self {
        Self {
            bytes: Writer(Vec::with_capacity(length + 4096)),
            count: 0,
            last: Vec::new(),
            copied: None,
        }
    }

    /// Writes a new entry; `None` stands for a removed one.
    fn put(&mut self, entry: Option<&Entry>) {
        self.copied = None;
        if let Some(entry) = entry {
            self.write_path(bytes(&entry.path));
            manifest::write_facts(&mut self.bytes, entry);
        }
    }

    /// Copies an entry: verbatim, if the entry before it is the same as in the source.
    fn copy(&mut self, entry: &ManifestCursor<'_>) {
        if let Some(copied) = self.copied {
            self.bytes.0.extend_from_slice(entry.since(copied));
            self.count += 1;
        } else {
            self.write_path(&entry.path);
            self.bytes.0.extend_from_slice(entry.encoded());
        }
        self.copied = Some(entry.facts.end);
        self.last.clear();
        self.last.extend_from_slice(&entry.path);
    }

    fn write_path(&mut self, path: &[u8]) {
        manifest::write_path(&mut self.bytes, &self.last, path);
        self.last.clear();
        self.last.extend_from_slice(path);
        self.count += 1;
    }
}

impl Stored {
    /// How many bytes tell the stored form.
    pub(crate) const BEGIN: usize = MAGIC.len() + 1;

    /// Whether a file that begins like this contains a whole manifest.
    pub(crate) fn begins_whole(begin: &[u8; Self::BEGIN]) -> bool {
        begin.starts_with(MAGIC) && begin.ends_with(&[WHOLE])
    }

    /// The bytes of the file, with a checksum at the end.
    pub(crate) fn encode(&self) -> std::io::Result<Vec<u8>> {
        let mut file = Writer(MAGIC.to_vec());
        let body = match self {
            Stored::Whole(bytes) => {
                file.byte(WHOLE);
                bytes
            }
            Stored::Changes {
                parent,
                depth,
                changes,
            } => {
                file.byte(CHANGES);
                file.digest(parent);
                file.number(u64::from(*depth));
                &changes.encode()
            }
        };
        file.size(body.len());
        file.0.extend(zstd::bulk::compress(body, LEVEL)?);
        let check = Digest::of(&file.0);
        file.digest(&check);
        Ok(file.0)
    }

    /// Parses a manifest's file. Verifies its checksum and nothing more.
    pub(crate) fn decode(file: &[u8]) -> Result<Self, Broken> {
        let (content, check) = file
            .split_last_chunk::<32>()
            .ok_or(Broken("it is too short"))?;
        if Digest::of(content).as_bytes() != check {
            return Err(Broken("its checksum does not match"));
        }
        let mut reader = Reader(content);
        if reader.take(8)? != MAGIC {
            return Err(Broken("it is not a manifest of a known version"));
        }
        match reader.byte()? {
            WHOLE => Ok(Stored::Whole(unpack(&mut reader)?)),
            CHANGES => Ok(Stored::Changes {
                parent: reader.digest()?,
                depth: reader.small()?,
                changes: Changes::decode(&unpack(&mut reader)?)?,
            }),
            _ => Err(Broken("its storage form is unknown")),
        }
    }

    /// The digests that this file alone adds. Together, those of a chain cover the manifest.
    pub(crate) fn digests(&self) -> Result<Vec<Digest>, Broken> {
        Ok(match self {
            Stored::Whole(bytes) => manifest::digests(&Manifest::decode(bytes)?.entries).collect(),
            Stored::Changes { changes, .. } => manifest::digests(&changes.put).collect(),
        })
    }
}

fn unpack(reader: &mut Reader<'_>) -> Result<Vec<u8>, Broken> {
    let length = reader.number()?;
    if length > LONGEST {
        return Err(Broken("it exceeds the maximum length"));
    }
    let length = usize::try_from(length).map_err(|_| Broken("it is too long"))?;
    // The frame must state the same length before memory is allocated for it.
    let said = zstd::zstd_safe::get_frame_content_size(reader.0)
        .ok()
        .flatten();
    if said != Some(length as u64) {
        return Err(Broken("its length differs from the recorded one"));
    }
    let body = zstd::bulk::decompress(reader.0, length)
        .map_err(|_| Broken("it cannot be decompressed"))?;
    if body.len() != length {
        return Err(Broken("its length differs from the recorded one"));
    }
    Ok(body)
}

impl Changes {
    /// No changes except those of the folder itself and of the excluded paths.
    pub(crate) fn none(root: Entry, skipped: Vec<Skipped>) -> Self {
        Self {
            root,
            removed: Vec::new(),
            put: Vec::new(),
            skipped,
        }
    }

    /// Records the removal of an entry. Changes are recorded in the order of entries.
    pub(crate) fn remove(&mut self, path: PathBuf) {
        self.removed.push(path);
    }

    /// Records a new or changed entry.
    pub(crate) fn put(&mut self, entry: Entry) {
        self.put.push(entry);
    }

    /// Whether they are few enough to be stored instead of a manifest with this many entries.
    pub(crate) fn are_few(&self, entries: usize) -> bool {
        (self.removed.len() + self.put.len()) * MANY <= entries
    }

    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        manifest::write_facts(&mut writer, &self.root);
        writer.size(self.removed.len());
        let mut last: &[u8] = &[];
        for path in &self.removed {
            last = manifest::write_path(&mut writer, last, bytes(path));
        }
        manifest::write_entries(&mut writer, self.put.iter());
        manifest::write_skipped(&mut writer, &self.skipped);
        writer.0
    }

    fn decode(bytes: &[u8]) -> Result<Self, Broken> {
        let mut reader = Reader(bytes);
        let root = manifest::read_root(&mut reader)?;
        let (mut removed, mut last) = (Vec::new(), Vec::new());
        for _ in 0..reader.count(2)? {
            manifest::read_path(&mut reader, &mut last)?;
            removed.push(manifest::path(&last));
        }
        let put = manifest::read_entries(&mut reader)?;
        let skipped = manifest::read_skipped(&mut reader)?;
        reader.end()?;
        Ok(Self {
            root,
            removed,
            put,
            skipped,
        })
    }
}
