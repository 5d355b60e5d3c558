//! Mutates bytes in the ways in which files and messages break.

/// A deterministic random number generator (`SplitMix64`).
#[derive(Debug, Clone)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next_number() % (end.max(1) as u64)).unwrap_or(0)
    }
}

/// Bytes that parsers often do not expect.
const PIECES: [&[u8]; 14] = [
    b"\n",
    b"\r\n",
    b"\0",
    b"\xFF",
    b"\"",
    b"\\",
    b"\\ud83d",
    b"{",
    b"[",
    b"}",
    b"null",
    b"-1",
    b"1e999",
    b"2099-01-01T00:00:00.000Z",
];

/// Numbers at the limits of integer and float types.
const NUMBERS: [&[u8]; 9] = [
    b"0",
    b"-1",
    b"1e308",
    b"0.1",
    b"4294967296",
    b"9223372036854775807",
    b"18446744073709551615",
    b"18446744073709551616",
    b"-9223372036854775808",
];

/// Creates a case from the corpus. `dictionary` contains byte strings that the parser gives a meaning.
pub fn mutate(corpus: &[Vec<u8>], dictionary: &[&[u8]], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = corpus[rng.below(corpus.len())].clone();
    for _ in 0..=rng.below(8) {
        change(&mut bytes, corpus, dictionary, rng);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], dictionary: &[&[u8]], rng: &mut Rng) {
    let at = rng.below(bytes.len() + 1);
    match rng.below(12) {
        0 => bytes.truncate(at),
        1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
        2 => {
            let end = (at + rng.below(40)).min(bytes.len());
            bytes.drain(at..end);
        }
        3 => {
            let piece = piece(dictionary, rng);
            bytes.splice(at..at, piece.iter().copied());
        }
        4 => {
            let piece = piece(dictionary, rng);
            let end = (at + piece.len()).min(bytes.len());
            bytes.splice(at..end, piece.iter().copied());
        }
        // Replaces a value by another: cases that stay valid JSON get further into the parser.
        5 | 6 => swap_values(bytes, rng),
        7 | 8 => change_number(bytes, at, rng),
        choice => change_lines(bytes, corpus, rng, choice),
    }
}

fn piece<'a>(dictionary: &[&'a [u8]], rng: &mut Rng) -> &'a [u8] {
    let at = rng.below(PIECES.len() + dictionary.len());
    PIECES
        .get(at)
        .copied()
        .unwrap_or_else(|| dictionary[at - PIECES.len()])
}

/// Replaces the next number.
fn change_number(bytes: &mut Vec<u8>, from: usize, rng: &mut Rng) {
    let Some(start) = bytes[from..].iter().position(u8::is_ascii_digit) else {
        return;
    };
    let start = from + start;
    let rest = &bytes[start..];
    let end = rest.iter().position(|byte| !byte.is_ascii_digit());
    let end = start + end.unwrap_or(rest.len());
    let number = NUMBERS[rng.below(NUMBERS.len())];
    bytes.splice(start..end, number.iter().copied());
}

/// Deletes, duplicates or moves a line, or inserts one of another case.
fn change_lines(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], rng: &mut Rng, choice: usize) {
    let mut lines: Vec<Vec<u8>> = split(bytes);
    if lines.is_empty() {
        return;
    }
    let at = rng.below(lines.len());
    match choice {
        9 => {
            lines.remove(at);
        }
        10 => {
            let line = lines[at].clone();
            let to = rng.below(lines.len() + 1);
            lines.insert(to, line);
        }
        _ => {
            let other = split(&corpus[rng.below(corpus.len())]);
            if !other.is_empty() {
                lines.insert(at, other[rng.below(other.len())].clone());
            }
        }
    }
    *bytes = lines.concat();
}

fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    let lines = bytes.split_inclusive(|&byte| byte == b'\n');
    lines.map(<[u8]>::to_vec).collect()
}

fn swap_values(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let (Some(one), Some(two)) = (random_string(bytes, rng), random_string(bytes, rng)) else {
        return;
    };
    let value = bytes[two].to_vec();
    bytes.splice(one, value);
}

/// Finds a JSON string somewhere, judging by quotes only.
fn random_string(bytes: &[u8], rng: &mut Rng) -> Option<std::ops::Range<usize>> {
    let from = rng.below(bytes.len());
    let start = from + bytes[from..].iter().position(|&byte| byte == b'"')?;
    let end = start + 1 + bytes[start + 1..].iter().position(|&byte| byte == b'"')?;
    Some(start..end + 1)
}
