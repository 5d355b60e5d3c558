//! Splits large files into chunks with `FastCDC` (Xia et al. 2016). Boundaries depend on the
//! content alone, so an edit moves only the boundaries around it.

/// Files shorter than this are one chunk.
pub(crate) const WHOLE: u64 = 1024 * 1024;
/// The shortest chunk, except for the last.
const SHORTEST: usize = 64 * 1024;
/// The length that most chunks are close to.
const USUAL: usize = 256 * 1024;
/// The longest chunk.
pub(crate) const LONGEST: usize = 1024 * 1024;

// A boundary is where the highest bits of the hash are all zero. 18 bits would give the usual
// length; before it, 20 are required, after it 16 (normalised chunking).
const STRICT: u64 = 1 << (64 - 20);
const LENIENT: u64 = 1 << (64 - 16);

/// A random number for each byte, from splitmix64. Other numbers would still give a valid store,
/// but deduplicate less against existing chunks.
const GEAR: [u64; 256] = {
    let mut gear = [0; 256];
    let mut state = 0x5345_474e_4f01_u64;
    let mut at = 0;
    while at < 256 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        gear[at] = mixed ^ (mixed >> 31);
        at += 1;
    }
    gear
};

/// The length of the first chunk of `bytes`, which must be the rest of the file or at least
/// [`LONGEST`] bytes.
pub(crate) fn cut(bytes: &[u8]) -> usize {
    if bytes.len() <= SHORTEST {
        return bytes.len();
    }
    let end = bytes.len().min(LONGEST);
    let middle = end.min(USUAL);
    let mut hash = 0;
    first_below(&mut hash, &bytes[SHORTEST..middle], STRICT)
        .map(|at| SHORTEST + at)
        .or_else(|| first_below(&mut hash, &bytes[middle..end], LENIENT).map(|at| middle + at))
        .unwrap_or(end)
}

/// After how many of `bytes` the hash is below `limit` for the first time.
fn first_below(hash: &mut u64, bytes: &[u8], limit: u64) -> Option<usize> {
    let roll = |hash: u64, byte: u8| (hash << 1).wrapping_add(GEAR[usize::from(byte)]);
    let mut seen = 0;
    // Sixteen at a time, with one comparison of their minimum: nearly always it is not below the
    // limit.
    for several in bytes.chunks(16) {
        let before = *hash;
        let mut least = u64::MAX;
        for &byte in several {
            *hash = roll(*hash, byte);
            least = least.min(*hash);
        }
        if least < limit {
            *hash = before;
            let below = several.iter().position(|&byte| {
                *hash = roll(*hash, byte);
                *hash < limit
            });
            return below.map(|at| seen + at + 1);
        }
        seen += several.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(length: usize, seed: u64) -> Vec<u8> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes());
        let mut bytes = vec![0; length];
        hasher.finalize_xof().fill(&mut bytes);
        bytes
    }

    fn pieces(mut bytes: &[u8]) -> Vec<&[u8]> {
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(cut(bytes));
            pieces.push(piece);
            bytes = rest;
        }
        pieces
    }

    #[test]
    fn chunk_lengths_stay_within_limits() {
        let bytes = noise(32 * 1024 * 1024, 1);
        let pieces = pieces(&bytes);
        let (_, whole) = pieces.split_last().unwrap();
        assert!(
            whole
                .iter()
                .all(|piece| piece.len() >= SHORTEST && piece.len() <= LONGEST)
        );
        let usual = bytes.len() / pieces.len();
        assert!((USUAL / 2..USUAL * 2).contains(&usual), "{usual}");
    }

    #[test]
    fn inserted_byte_changes_few_chunks() {
        let before = noise(8 * 1024 * 1024, 2);
        let mut after = before.clone();
        after.insert(3_000_000, 7);
        let known: std::collections::HashSet<_> = pieces(&before).into_iter().collect();
        let new = pieces(&after)
            .iter()
            .filter(|piece| !known.contains(*piece))
            .count();
        assert!(new <= 3, "{new}");
    }

    /// Other boundaries for the same content would deduplicate nothing in existing stores.
    #[test]
    fn chunk_boundaries_are_stable() {
        let bytes = noise(8 * 1024 * 1024, 3);
        let mut left = &bytes[..];
        for piece in pieces(&bytes) {
            let mut hash = 0_u64;
            let mut length = left.len().min(SHORTEST);
            while length < left.len().min(LONGEST) {
                hash = (hash << 1).wrapping_add(GEAR[usize::from(left[length])]);
                length += 1;
                let zeros = if length <= USUAL { 20 } else { 16 };
                if hash.leading_zeros() >= zeros {
                    break;
                }
            }
            assert_eq!(piece.len(), length);
            left = &left[length..];
        }
    }

    #[test]
    fn uniform_data_is_cut_at_the_longest_chunk() {
        assert_eq!(cut(&vec![0; 3 * LONGEST]), LONGEST);
    }
}
