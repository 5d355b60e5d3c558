//! What it is to carry snapshots from one place to another, as the files that they are kept in.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ports::Boxed;
use crate::snapshot::{Error, Nowhere};

/// Hands out the files that snapshots are kept in, and takes in those of others.
pub trait Carry: Send + Sync {
    /// Every file that these snapshots need. None of them goes away or changes while the answer is
    /// held.
    fn load(&self, snapshots: Vec<Digest>) -> Boxed<'_, Result<Load, Error>>;

    /// Those of `parts` that are not here.
    fn lacking(&self, parts: Vec<Part>) -> Boxed<'_, Result<Vec<Part>, Error>>;

    /// An empty file to write a part into. It goes when the answer is dropped.
    fn draft(&self) -> Boxed<'_, Result<Draft, Error>>;

    /// Takes in a part that was written into a draft. All of it is checked first; if it is not what
    /// it is called, it is named as damaged, and nothing was taken in. Durable when this returns.
    fn adopt(&self, part: Part, draft: Draft) -> Boxed<'_, Result<(), Error>>;

    /// Lists snapshots whose parts were taken in, once nothing that they need is missing (P4).
    fn enlist(&self, snapshots: Vec<Digest>) -> Boxed<'_, Result<(), Error>>;

    /// Every file of a snapshot that [`crate::snapshot::Snapshots::keep`] has made.
    fn papers(&self, snapshot: Digest) -> Boxed<'_, Result<Papers, Error>>;
}

/// Files by their names.
pub type Papers = Vec<(String, Vec<u8>)>;

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// Content.
    Pack,
    /// What a snapshot holds.
    Manifest,
}

/// A file that snapshots need. Two that are equal have the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// What it is.
    pub sort: Sort,
    /// What it is called where it is kept.
    pub name: Digest,
    /// The digest in its last bytes, over those before it. A manifest can be kept in several forms
    /// under one name; a pack has one, and this is its name.
    pub check: Digest,
    /// How long it is.
    pub bytes: u64,
}

impl Part {
    /// What it is called in a depot: there, other bytes have another name.
    pub fn object(&self) -> String {
        match self.sort {
            Sort::Pack => format!("packs/{}", self.name),
            Sort::Manifest => format!("manifests/{}.{}", self.name, self.check),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sort {
            Sort::Pack => write!(f, "pack {}", self.name),
            Sort::Manifest => write!(f, "manifest {}", self.name),
        }
    }
}

/// Files that are ready to be carried.
pub struct Load {
    /// The parts, and where they are.
    pub parts: Vec<(Part, PathBuf)>,
    /// Keeps them there.
    pub hold: Box<dyn Send + Sync>,
}

/// A file that is being written.
pub struct Draft {
    /// Where it is.
    pub path: PathBuf,
    /// Removes it, unless it was taken in.
    pub hold: Box<dyn Send + Sync>,
}

impl Carry for Nowhere {
    fn load(&self, _: Vec<Digest>) -> Boxed<'_, Result<Load, Error>> {
        Self::refuse()
    }

    fn lacking(&self, _: Vec<Part>) -> Boxed<'_, Result<Vec<Part>, Error>> {
        Self::refuse()
    }

    fn draft(&self) -> Boxed<'_, Result<Draft, Error>> {
        Self::refuse()
    }

    fn adopt(&self, _: Part, _: Draft) -> Boxed<'_, Result<(), Error>> {
        Self::refuse()
    }

    fn enlist(&self, _: Vec<Digest>) -> Boxed<'_, Result<(), Error>> {
        Self::refuse()
    }

    fn papers(&self, _: Digest) -> Boxed<'_, Result<Papers, Error>> {
        Self::refuse()
    }
}
