//! The contract for transferring snapshots between machines, as the files that the snapshot store keeps.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ports::Boxed;
use crate::snapshot::Error;

/// Exports the files of snapshots and imports those of others.
pub trait Transfer: Send + Sync {
    /// Every file that these snapshots need. No file is deleted or changed while the caller holds the
    /// result.
    fn collect_parts(&self, snapshots: Vec<Digest>) -> Boxed<'_, Result<PartSet, Error>>;

    /// Those of `parts` that are missing locally.
    fn missing_parts(&self, parts: Vec<Part>) -> Boxed<'_, Result<Vec<Part>, Error>>;

    /// An empty file to write a part into. It is deleted when the result is dropped.
    fn new_draft(&self) -> Boxed<'_, Result<Draft, Error>>;

    /// Imports a part that was written into a draft. Verifies all of it first; if the content does not
    /// match the name, the call reports damage and imports nothing. Durable when this returns.
    fn import_part(&self, part: Part, draft: Draft) -> Boxed<'_, Result<(), Error>>;

    /// Lists snapshots whose parts were imported, once nothing that they need is missing (P4).
    fn register_snapshots(&self, snapshots: Vec<Digest>) -> Boxed<'_, Result<(), Error>>;

    /// Every file of a snapshot that [`crate::snapshot::Snapshots::put_files`] created.
    fn attachments(&self, snapshot: Digest) -> Boxed<'_, Result<Attachments, Error>>;
}

/// Files by name.
pub type Attachments = Vec<(String, Vec<u8>)>;

/// The kind of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// File contents.
    Pack,
    /// The list of a snapshot's files.
    Manifest,
}

/// A file that snapshots need. Equal parts have the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    #[serde(rename = "sort")]
    pub kind: PartKind,
    /// The part's name in the snapshot store.
    pub name: Digest,
    /// The digest in the file's last bytes, over all bytes before it. A manifest may be stored in
    /// several encodings under one name; a pack has one, and this digest is its name.
    #[serde(rename = "check")]
    pub checksum: Digest,
    pub bytes: u64,
}

impl Part {
    /// The part's object name in a remote, where other bytes have another name.
    pub fn object_name(&self) -> String {
        match self.kind {
            PartKind::Pack => format!("packs/{}", self.name),
            PartKind::Manifest => format!("manifests/{}.{}", self.name, self.checksum),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            PartKind::Pack => write!(f, "pack {}", self.name),
            PartKind::Manifest => write!(f, "manifest {}", self.name),
        }
    }
}

/// Files that are ready to be transferred.
pub struct PartSet {
    /// The parts and their paths.
    pub parts: Vec<(Part, PathBuf)>,
    /// Keeps the files from being deleted.
    pub guard: Box<dyn Send + Sync>,
}

/// A file that is being written.
pub struct Draft {
    pub path: PathBuf,
    /// Deletes the file when dropped, unless the file was imported.
    pub guard: Box<dyn Send + Sync>,
}
