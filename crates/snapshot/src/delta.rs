//! How a manifest is stored: whole, or as what changed since another one.
//!
//! Either way the file is named by the hash of the whole manifest, so a manifest can be stored
//! anew in the other form without becoming another snapshot, and whatever was put together from a
//! chain of changes proves itself by its name.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::PathBuf;

use segno_core::digest::Digest;

use crate::entry::{Entry, Skipped};
use crate::manifest::{self, Manifest, bytes, order};
use crate::wire::{Broken, Reader, Writer};

const MAGIC: &[u8; 8] = b"SEGNOMF1";
const WHOLE: u8 = 0;
const CHANGES: u8 = 1;
/// How many changes may follow one another before a manifest is stored whole again.
pub(crate) const CHAIN: u32 = 64;
/// The longest manifest that is read, whatever its file claims (P10).
pub(crate) const LONGEST: u64 = 2 * 1024 * 1024 * 1024;
const LEVEL: i32 = 3;

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

impl Stored {
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
    /// What turns `from` into `to`.
    pub(crate) fn between(from: &Manifest, to: &Manifest) -> Self {
        let (mut removed, mut put) = (Vec::new(), Vec::new());
        let mut left = from.entries.iter().peekable();
        for entry in &to.entries {
            while let Some(gone) =
                left.next_if(|left| order(&left.path, &entry.path) == Ordering::Less)
            {
                removed.push(gone.path.clone());
            }
            let before = left.next_if(|left| left.path == entry.path);
            if before != Some(entry) {
                put.push(entry.clone());
            }
        }
        removed.extend(left.map(|gone| gone.path.clone()));
        Self {
            root: to.root.clone(),
            removed,
            put,
            skipped: to.skipped.clone(),
        }
    }

    /// How many entries differ.
    pub(crate) fn len(&self) -> usize {
        self.removed.len() + self.put.len()
    }

    /// The manifest that `from` becomes.
    pub(crate) fn apply(self, from: Manifest) -> Manifest {
        let removed: BTreeSet<&[u8]> = self.removed.iter().map(|path| bytes(path)).collect();
        let mut entries = Vec::with_capacity(from.entries.len() + self.put.len());
        let mut put = self.put.into_iter().peekable();
        for entry in from.entries {
            while let Some(new) = put.next_if(|new| order(&new.path, &entry.path) == Ordering::Less)
            {
                entries.push(new);
            }
            if let Some(new) = put.next_if(|new| new.path == entry.path) {
                entries.push(new);
            } else if !removed.contains(bytes(&entry.path)) {
                entries.push(entry);
            }
        }
        entries.extend(put);
        Manifest {
            root: self.root,
            entries,
            skipped: self.skipped,
        }
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
