//! A piece as what changed since another one: a zstd frame that may refer to the other's bytes as
//! if they came before its own.

use std::io;

use zstd::zstd_safe::{CCtx, CParameter, DCtx, compress_bound};

use crate::chunk::LONGEST;

const LEVEL: i32 = 3;
/// Both pieces fit: a frame can refer to all of the base from its very end.
const WINDOW: u32 = (2 * LONGEST).ilog2();

/// What turns `base` into `bytes`.
///
/// The base is never taken for a dictionary in zstd's own format, whatever it begins with. Where
/// both lie in the same memory, zstd finds nothing in common.
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

/// Turns `base` into what the patch was made of, of which there are `length` bytes, or fails. The
/// result is not checked: whoever asks knows its digest.
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
        fn what_was_patched_comes_back(base: Vec<u8>, bytes: Vec<u8>) {
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
    fn an_edit_of_the_longest_piece_costs_little_wherever_it_is() {
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
    fn a_base_that_looks_like_a_dictionary_is_not_one() {
        let mut base = noise(5000);
        base[..4].copy_from_slice(&0xec30_a437_u32.to_le_bytes());
        let patch = make(&base, &base.clone()).unwrap();
        let mut back = Vec::new();
        assert_eq!(apply(&base, &patch, base.len(), &mut back), Some(()));
        assert!(back == base && patch.len() < 100);
    }

    #[test]
    fn a_patch_that_makes_more_than_it_should_is_refused() {
        let patch = make(b"", &vec![0; LONGEST]).unwrap();
        let mut back = Vec::new();
        assert_eq!(apply(b"", &patch, 1000, &mut back), None);
        assert!(back.capacity() <= 2000);
    }
}
