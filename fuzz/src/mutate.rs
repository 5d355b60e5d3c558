//! Changes bytes in the ways in which files and messages break.

/// Numbers that look random and are the same for the same seed (`SplitMix64`).
#[derive(Debug, Clone)]
pub struct Chance(pub u64);

impl Chance {
    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % (end.max(1) as u64)).unwrap_or(0)
    }
}

/// What turns up where it should not.
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

/// Numbers at the ends of what types can hold.
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

/// One case made of others. `words` are those that mean something to whoever reads it.
pub fn mutate(corpus: &[Vec<u8>], words: &[&[u8]], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = corpus[chance.below(corpus.len())].clone();
    for _ in 0..=chance.below(8) {
        change(&mut bytes, corpus, words, chance);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], words: &[&[u8]], chance: &mut Chance) {
    let at = chance.below(bytes.len() + 1);
    match chance.below(12) {
        0 => bytes.truncate(at),
        1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << chance.below(8);
            }
        }
        2 => {
            let end = (at + chance.below(40)).min(bytes.len());
            bytes.drain(at..end);
        }
        3 => {
            let piece = piece(words, chance);
            bytes.splice(at..at, piece.iter().copied());
        }
        4 => {
            let piece = piece(words, chance);
            let end = (at + piece.len()).min(bytes.len());
            bytes.splice(at..end, piece.iter().copied());
        }
        // A value in the place of another: what kept the form of JSON goes deepest.
        5 | 6 => swap_values(bytes, chance),
        7 | 8 => change_number(bytes, at, chance),
        choice => lines(bytes, corpus, chance, choice),
    }
}

fn piece<'a>(words: &[&'a [u8]], chance: &mut Chance) -> &'a [u8] {
    let at = chance.below(PIECES.len() + words.len());
    PIECES
        .get(at)
        .copied()
        .unwrap_or_else(|| words[at - PIECES.len()])
}

/// Puts another number in the place of the next one.
fn change_number(bytes: &mut Vec<u8>, from: usize, chance: &mut Chance) {
    let Some(start) = bytes[from..].iter().position(u8::is_ascii_digit) else {
        return;
    };
    let start = from + start;
    let rest = &bytes[start..];
    let end = rest.iter().position(|byte| !byte.is_ascii_digit());
    let end = start + end.unwrap_or(rest.len());
    let number = NUMBERS[chance.below(NUMBERS.len())];
    bytes.splice(start..end, number.iter().copied());
}

/// Leaves out a line, says it twice or elsewhere, or takes one from another case.
fn lines(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], chance: &mut Chance, choice: usize) {
    let mut lines: Vec<Vec<u8>> = split(bytes);
    if lines.is_empty() {
        return;
    }
    let at = chance.below(lines.len());
    match choice {
        9 => {
            lines.remove(at);
        }
        10 => {
            let line = lines[at].clone();
            let to = chance.below(lines.len() + 1);
            lines.insert(to, line);
        }
        _ => {
            let other = split(&corpus[chance.below(corpus.len())]);
            if !other.is_empty() {
                lines.insert(at, other[chance.below(other.len())].clone());
            }
        }
    }
    *bytes = lines.concat();
}

fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    let lines = bytes.split_inclusive(|&byte| byte == b'\n');
    lines.map(<[u8]>::to_vec).collect()
}

fn swap_values(bytes: &mut Vec<u8>, chance: &mut Chance) {
    let (Some(one), Some(two)) = (text_near(bytes, chance), text_near(bytes, chance)) else {
        return;
    };
    let value = bytes[two].to_vec();
    bytes.splice(one, value);
}

/// A text of JSON somewhere, as far as quotes tell.
fn text_near(bytes: &[u8], chance: &mut Chance) -> Option<std::ops::Range<usize>> {
    let from = chance.below(bytes.len());
    let start = from + bytes[from..].iter().position(|&byte| byte == b'"')?;
    let end = start + 1 + bytes[start + 1..].iter().position(|&byte| byte == b'"')?;
    Some(start..end + 1)
}
