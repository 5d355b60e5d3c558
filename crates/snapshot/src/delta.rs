//! How a manifest is stored: whole, or as what changed since another one.
//!
//! Either way the file is named by the hash of the whole manifest, so a manifest can be stored
//! anew in the other form without becoming another snapshot, and whatever was put together from a
//! chain of changes proves itself by its name.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;

use crate::entry::{Entry, Skipped};
use crate::manifest::{self, Manifest, bytes, order};
use crate::scroll::Scroll;
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

/// A manifest as its file has it.
#[derive(Debug)]
pub(crate) enum Stored {
    /// All of it: the bytes that [`Manifest::decode`] reads.
    Whole(Vec<u8>),
    /// What changed since another snapshot.
    Changes {
        /// That snapshot.
        parent: Digest,
        /// How many changes lie between here and a whole manifest.
        depth: u32,
        /// What changed.
        changes: Changes,
    },
}

/// What turns one manifest into the next.
#[derive(Debug)]
pub(crate) struct Changes {
    root: Entry,
    removed: Vec<PathBuf>,
    put: Vec<Entry>,
    skipped: Vec<Skipped>,
}

/// The bytes of a manifest that another becomes through changes, the last of them first.
pub(crate) fn apply(whole: &[u8], chain: &[Changes]) -> Result<Vec<u8>, Broken> {
    let Some(last) = chain.first() else {
        return Ok(whole.to_vec());
    };
    let mut changed = sum(chain).into_iter().peekable();
    let (_, mut before) = Scroll::open(whole)?;
    let mut after = Entries::new(whole.len());
    let precedes = |path: &Path, before: &Scroll<'_>| {
        manifest::order_of(bytes(path), &before.path) == Ordering::Less
    };
    while before.next()? {
        while let Some((_, entry)) = changed.next_if(|(path, _)| precedes(path, &before)) {
            after.put(entry);
        }
        match changed.next_if(|(path, _)| bytes(path) == before.path) {
            Some((_, entry)) => after.put(entry),
            None => after.keep(&before),
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

/// What a chain of changes, the last of them first, comes to: paths in order, and what is there.
fn sum(chain: &[Changes]) -> Vec<(&Path, Option<&Entry>)> {
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

/// Entries of a manifest that is being put together.
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

    /// Writes an entry that is new, if there is one.
    fn put(&mut self, entry: Option<&Entry>) {
        self.copied = None;
        if let Some(entry) = entry {
            self.path(bytes(&entry.path));
            manifest::write_facts(&mut self.bytes, entry);
        }
    }

    /// Copies an entry: as it stands, if it has the same neighbour as before.
    fn keep(&mut self, entry: &Scroll<'_>) {
        if let Some(copied) = self.copied {
            self.bytes.0.extend_from_slice(entry.since(copied));
            self.count += 1;
        } else {
            self.path(&entry.path);
            self.bytes.0.extend_from_slice(entry.said());
        }
        self.copied = Some(entry.facts.end);
        self.last.clear();
        self.last.extend_from_slice(&entry.path);
    }

    fn path(&mut self, path: &[u8]) {
        manifest::write_path(&mut self.bytes, &self.last, path);
        self.last.clear();
        self.last.extend_from_slice(path);
        self.count += 1;
    }
}

impl Stored {
    /// How many bytes tell in which form it is.
    pub(crate) const BEGIN: usize = MAGIC.len() + 1;

    /// Whether a file that begins like this has a whole manifest.
    pub(crate) fn begins_whole(begin: &[u8; Self::BEGIN]) -> bool {
        begin.starts_with(MAGIC) && begin.ends_with(&[WHOLE])
    }

    /// The bytes of its file, with a checksum at the end.
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

    /// Reads a manifest's file. Its checksum is right when this returns, and nothing more.
    pub(crate) fn decode(file: &[u8]) -> Result<Self, Broken> {
        let (content, check) = file
            .split_last_chunk::<32>()
            .ok_or(Broken("it is too short"))?;
        if Digest::of(content).as_bytes() != check {
            return Err(Broken("its checksum differs"));
        }
        let mut reader = Reader(content);
        if reader.take(8)? != MAGIC {
            return Err(Broken("it is not a manifest of a version known here"));
        }
        match reader.byte()? {
            WHOLE => Ok(Stored::Whole(unpack(&mut reader)?)),
            CHANGES => Ok(Stored::Changes {
                parent: reader.digest()?,
                depth: reader.small()?,
                changes: Changes::decode(&unpack(&mut reader)?)?,
            }),
            _ => Err(Broken("it is stored in no known form")),
        }
    }

    /// Every digest that this file alone brings in. Together those of a chain cover the manifest.
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
        return Err(Broken("it is longer than any that is written"));
    }
    let length = usize::try_from(length).map_err(|_| Broken("it is too long"))?;
    // A frame that says how long it is must say the same, before room is made for it.
    let said = zstd::zstd_safe::get_frame_content_size(reader.0)
        .ok()
        .flatten();
    if said != Some(length as u64) {
        return Err(Broken("its length is not what it says"));
    }
    let body =
        zstd::bulk::decompress(reader.0, length).map_err(|_| Broken("it cannot be unpacked"))?;
    if body.len() != length {
        return Err(Broken("its length is not what it says"));
    }
    Ok(body)
}

impl Changes {
    /// No changes but of the folder itself and of what was left out.
    pub(crate) fn none(root: Entry, skipped: Vec<Skipped>) -> Self {
        Self {
            root,
            removed: Vec::new(),
            put: Vec::new(),
            skipped,
        }
    }

    /// An entry goes. Changes are told in the order of entries.
    pub(crate) fn remove(&mut self, path: PathBuf) {
        self.removed.push(path);
    }

    /// An entry comes, or becomes another.
    pub(crate) fn put(&mut self, entry: Entry) {
        self.put.push(entry);
    }

    /// Whether they are few enough to be stored instead of a manifest of so many entries.
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
