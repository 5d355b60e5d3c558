//! Entry points for fuzz targets.

use super::Limits;
use super::import::{Sink, unpack};
use crate::delta::Stored;
use crate::manifest::Manifest;

/// The content of an uncompressed archive, or why it is refused. Asserts that an accepted manifest
/// can be encoded and decoded.
pub fn import(bytes: &[u8], limits: Limits) -> String {
    let manifest = match unpack(bytes, limits, &mut Sink(None), &|| ()) {
        Ok(manifest) => manifest,
        Err(error) => return error.to_string(),
    };
    if let Err(wrong) = manifest.check() {
        return wrong.0.to_owned();
    }
    let written = manifest.encode();
    let again = Manifest::decode(&written).expect("a valid manifest can be decoded");
    assert!(manifest == again, "a manifest changed when it was written");
    format!("{manifest:?}")
}

/// Fixes the checksum of every block that resembles a header, so that its content is parsed.
pub fn fix_checksums(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(super::header::BLOCK) {
        if &block[257..262] == b"ustar" {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
}

/// The content of a manifest, or why it is rejected. Asserts that an accepted one is encoded as it
/// was.
pub fn decode_manifest(bytes: &[u8]) -> String {
    match Manifest::decode(bytes) {
        Ok(manifest) => {
            let written = manifest.encode();
            let again = Manifest::decode(&written).expect("an encoded manifest can be decoded");
            assert!(manifest == again, "a manifest changed when it was written");
            format!("{manifest:?}")
        }
        Err(broken) => broken.0.to_owned(),
    }
}

/// The content of a manifest file, or why it is rejected.
pub fn decode_stored_manifest(bytes: &[u8]) -> String {
    let mut sealed = bytes.to_vec();
    sealed.extend(segno_core::digest::Digest::of(bytes).as_bytes());
    match Stored::decode(&sealed).and_then(|stored| stored.digests()) {
        Ok(digests) => format!("{digests:?}"),
        Err(broken) => broken.0.to_owned(),
    }
}

/// The manifest of an uncompressed archive; `None` if it is refused.
pub fn import_and_encode(bytes: &[u8]) -> Option<Vec<u8>> {
    let limits = Limits {
        bytes: 1 << 22,
        entries: 1 << 10,
    };
    let manifest = unpack(bytes, limits, &mut Sink(None), &|| ()).ok()?;
    Some(manifest.encode())
}
