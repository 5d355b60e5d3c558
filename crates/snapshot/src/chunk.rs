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

    /// Bytes of a linear congruential generator, so that no other code decides them.
    fn generated(length: usize, seed: u64) -> Vec<u8> {
        let mut state = seed;
        let next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        };
        std::iter::repeat_with(next).take(length).collect()
    }

    /// Other boundaries for the same content would deduplicate nothing in existing stores. A program
    /// in another language computed the lengths.
    #[test]
    fn chunk_boundaries_are_stable() {
        let bytes = generated(8_388_608, 2026);
        let lengths: Vec<usize> = pieces(&bytes).iter().map(|piece| piece.len()).collect();
        let expected = [
            309_073, 678_327, 297_549, 290_548, 283_575, 264_623, 280_905, 295_272, 286_181,
            290_715, 269_042, 274_184, 225_204, 121_102, 188_380, 338_613, 297_716, 96_127,
            306_493, 352_558, 276_730, 275_737, 195_575, 309_917, 299_284, 215_083, 281_103,
            267_764, 114_488, 279_620, 127_120,
        ];
        assert_eq!(lengths, expected);
    }

    /// Each input is zeros with one window of 64 bytes, whose hash begins with a known number of
    /// zero bits. Nothing before the window influences the hash.
    #[test]
    fn limits_and_hash_bits_decide_the_boundary() {
        let bytes = generated(8_388_608, 2026);
        // Where windows whose hash begins with 15, 16, 19 and 20 zero bits end in `bytes`.
        let (bits_15, bits_16, bits_19, bits_20) = (88_146, 117_963, 1_245_449, 4_166_300);
        for (window, end, expected) in [
            // Chunks have at least 64 KiB, and the hash begins there.
            (bits_20, 65_536, 1_048_576),
            (bits_20, 65_599, 1_048_576),
            (bits_20, 65_600, 65_600),
            // Up to 256 KiB 20 zero bits are required, after that 16.
            (bits_19, 100_000, 1_048_576),
            (bits_20, 100_000, 100_000),
            (bits_19, 262_144, 1_048_576),
            (bits_20, 262_144, 262_144),
            (bits_16, 262_144, 1_048_576),
            (bits_16, 262_145, 262_145),
            (bits_15, 262_145, 1_048_576),
            // Chunks have at most 1 MiB.
            (bits_16, 1_048_575, 1_048_575),
            (bits_16, 1_048_577, 1_048_576),
        ] {
            let mut input = vec![0; 2_000_000];
            input[end - 64..end].copy_from_slice(&bytes[window - 64..window]);
            assert_eq!(cut(&input), expected, "{window} at {end}");
        }
    }

    #[test]
    fn hash_table_is_stable() {
        let mut hasher = blake3::Hasher::new();
        for number in GEAR {
            hasher.update(&number.to_le_bytes());
        }
        let expected = "571bcf1f3f4095db92a1699a9886bbb8e63cf490b51c7e5c36a2373e290d60be";
        assert_eq!(hasher.finalize().to_hex().as_str(), expected);
    }

    #[test]
    fn uniform_data_is_cut_at_the_longest_chunk() {
        assert_eq!(cut(&vec![0; 3_000_000]), 1_048_576);
        assert_eq!(cut(&vec![0; 1_000_000]), 1_000_000);
        assert_eq!(cut(&vec![0; 65_536]), 65_536);
    }
}
