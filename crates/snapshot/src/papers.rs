//! Files that are in no folder: what belongs to a checkpoint beside its workspace.
//!
//! They are kept as a snapshot like any other. A long one is cut like any long file, so that a
//! paper which only grows costs what it grew by.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use segno_core::digest::Digest;

use crate::chunk::{self, WHOLE};
use crate::entry::{Chunk, Entry, Kind, Moment};
use crate::error::Error;
use crate::files;
use crate::manifest::{Manifest, order};
use crate::pack::{Known, Packer};
use crate::vault::Vault;

impl Vault {
    /// Keeps papers by their names, which may have folders in them. When this returns, they are
    /// durable and listed. The same papers give the same snapshot.
    pub fn keep(&self, papers: &[(String, Vec<u8>)]) -> Result<Digest, Error> {
        let _held = self.hold()?;
        let known = Known::new(self.fresh_shelf()?);
        let mut packer = Packer::new(self, &known)?;
        let mut entries = Vec::new();
        for folder in folders(papers) {
            entries.push(entry(folder, Kind::Folder));
        }
        for (name, bytes) in papers {
            let kind = Kind::File {
                size: bytes.len() as u64,
                content: cut(&mut packer, bytes)?,
                unstable: false,
            };
            entries.push(entry(name.into(), kind));
        }
        packer.finish()?;
        // P4: what the manifest will name is durable before it is written.
        files::sync_folder(&self.packs).map_err(|error| Error::at(&self.packs, error))?;
        entries.sort_by(|left, right| order(&left.path, &right.path));
        let manifest = Manifest {
            root: entry(PathBuf::new(), Kind::Folder),
            entries,
            skipped: Vec::new(),
        };
        let whole = manifest.encode();
        let snapshot = Digest::of(&whole);
        manifest.check().map_err(|broken| Error::Hostile {
            snapshot,
            reason: broken.0.to_owned(),
        })?;
        if self.is_kept(snapshot) {
            self.renew(snapshot)?;
        } else {
            self.store(snapshot, &whole, None)?;
            self.list_as_kept(snapshot)?;
        }
        Ok(snapshot)
    }
}

fn folders(papers: &[(String, Vec<u8>)]) -> BTreeSet<PathBuf> {
    let above = papers
        .iter()
        .flat_map(|(name, _)| Path::new(name).ancestors().skip(1));
    above
        .filter(|folder| !folder.as_os_str().is_empty())
        .map(Path::to_owned)
        .collect()
}

fn entry(path: PathBuf, kind: Kind) -> Entry {
    Entry {
        mode: if kind == Kind::Folder { 0o700 } else { 0o600 },
        path,
        modified: Moment::default(),
        attributes: Vec::new(),
        kind,
    }
}

fn cut(packer: &mut Packer<'_>, bytes: &[u8]) -> Result<Vec<Chunk>, Error> {
    let mut content = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = if (bytes.len() as u64) < WHOLE {
            rest.len()
        } else {
            chunk::cut(rest)
        };
        let (piece, after) = rest.split_at(length);
        content.push(packer.put(piece, || None)?);
        rest = after;
    }
    Ok(content)
}
