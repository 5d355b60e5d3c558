//! What a vault has already.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, PoisonError};

use segno_core::digest::Digest;

use crate::pack::shelf::Shelf;

/// Digests are evenly spread already: their first bytes are their hash.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct First(u64);

impl Hasher for First {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

pub(crate) type ByDigest = BuildHasherDefault<First>;

/// What the vault has already, and what this capture has promised to write.
#[derive(Debug, Default)]
pub(crate) struct Known {
    shelf: Shelf,
    promised: Mutex<HashSet<Digest, ByDigest>>,
}

impl Known {
    pub(crate) fn new(shelf: Shelf) -> Self {
        Self {
            shelf,
            ..Self::default()
        }
    }

    /// Where what the vault has is.
    pub(crate) fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    /// True if nobody has it yet; from now on the caller does.
    pub(super) fn claim(&self, digest: Digest) -> bool {
        self.shelf.place(&digest).is_none()
            && self
                .promised
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(digest)
    }

    /// Whether the vault has it, or will have it.
    pub(crate) fn has(&self, digest: &Digest) -> bool {
        self.shelf.place(digest).is_some()
            || self
                .promised
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contains(digest)
    }
}
