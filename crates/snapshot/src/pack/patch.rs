//! Patches: a chunk as a zstd frame that may reference the bytes of another chunk as if they came
//! before its own.

use std::io;

use zstd::zstd_safe::{CCtx, CParameter, DCtx, compress_bound};

use crate::chunk::LONGEST;

const LEVEL: i32 = 3;
/// Large enough for both chunks: a frame can reference all of the base up to its own end.
const WINDOW: u32 = (2 * LONGEST).ilog2();

/// The patch that turns `base` into `bytes`.
///
/// zstd never takes the base for a dictionary in its own format, whatever it begins with. If both
/// slices lie in the same memory, zstd finds no matches.
pub(super) fn make(base: &[u8], bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut context = CCtx::create();
    let mut patch = Vec::with_capacity(compress_bound(bytes.len()));
    let made = context
        .set_parameter(CParameter::CompressionLevel(LEVEL))
        .and_then(|_| context.set_parameter(CParameter::WindowLog(WINDOW)))
        .and_then(|_| context.ref_prefix(base))
        .and_then(|_| context.compress2(&mut patch, bytes));
    made.map_err(|code| io::Error::other(zstd::zstd_safe::get_error_name(code)))?;
    Ok(patch)
}

/// Applies a patch to `base`, or fails. The result must have `length` bytes. It is not verified:
/// the caller knows its digest.
pub(super) fn apply(base: &[u8], patch: &[u8], length: usize, into: &mut Vec<u8>) -> Option<()> {
    let mut context = DCtx::create();
    into.clear();
    into.reserve_exact(length);
    context.ref_prefix(base).ok()?;
    let made = context.decompress(into, patch).ok()?;
    (made == length).then_some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn patch_round_trips(base: Vec<u8>, bytes: Vec<u8>) {
            let patch = make(&base, &bytes).unwrap();
            let mut back = Vec::new();
            prop_assert_eq!(apply(&base, &patch, bytes.len(), &mut back), Some(()));
            prop_assert_eq!(back, bytes);
        }
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    }

    #[test]
    fn edit_of_the_longest_chunk_makes_a_small_patch() {
        let base = noise(LONGEST);
        for at in [0, 1, LONGEST / 2, LONGEST - 10] {
            let mut bytes = base.clone();
            bytes[at..at + 9].copy_from_slice(b"an edit..");
            let patch = make(&base, &bytes).unwrap();
            assert!(patch.len() < 2000, "{} at {at}", patch.len());
            let mut moved = base[..LONGEST - 9].to_vec();
            moved.splice(at.min(LONGEST - 9)..at.min(LONGEST - 9), *b"an insert");
            let patch = make(&base, &moved).unwrap();
            assert!(patch.len() < 2000, "{} at {at}", patch.len());
            let mut back = Vec::new();
            assert_eq!(apply(&base, &patch, LONGEST, &mut back), Some(()));
            assert!(back == moved);
        }
    }

    #[test]
    fn base_is_never_taken_for_a_dictionary() {
        let mut base = noise(5000);
        base[..4].copy_from_slice(&0xec30_a437_u32.to_le_bytes());
        let patch = make(&base, &base.clone()).unwrap();
        let mut back = Vec::new();
        assert_eq!(apply(&base, &patch, base.len(), &mut back), Some(()));
        assert!(back == base && patch.len() < 100);
    }

    #[test]
    fn patch_with_too_long_output_is_refused() {
        let patch = make(b"", &vec![0; LONGEST]).unwrap();
        let mut back = Vec::new();
        assert_eq!(apply(b"", &patch, 1000, &mut back), None);
        assert!(back.capacity() <= 2000);
    }
}
