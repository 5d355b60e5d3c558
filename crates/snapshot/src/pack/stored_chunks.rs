//! The chunks that the store already has.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, PoisonError};

use segno_core::digest::Digest;

use crate::pack::pack_set::PackSet;

/// Hashes digests by their first bytes: they are evenly distributed already.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct DigestHasher(u64);

impl Hasher for DigestHasher {
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

pub(crate) type ByDigest = BuildHasherDefault<DigestHasher>;

/// The chunks that the store already has, and those that this capture is going to write.
#[derive(Debug, Default)]
pub(crate) struct StoredChunks {
    pack_set: PackSet,
    promised: Mutex<HashSet<Digest, ByDigest>>,
}

impl StoredChunks {
    pub(crate) fn new(pack_set: PackSet) -> Self {
        Self {
            pack_set,
            ..Self::default()
        }
    }

    /// The packs of the store.
    pub(crate) fn pack_set(&self) -> &PackSet {
        &self.pack_set
    }

    /// True if the store does not have the chunk and no other thread writes it; then the caller
    /// must write it.
    pub(super) fn claim(&self, digest: Digest) -> bool {
        self.pack_set.locate(&digest).is_none()
            && self
                .promised
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(digest)
    }

    /// Whether the store has the chunk or will have it.
    pub(crate) fn has(&self, digest: &Digest) -> bool {
        self.pack_set.locate(digest).is_some()
            || self
                .promised
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contains(digest)
    }
}
