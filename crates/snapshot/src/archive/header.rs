//! The 512-byte header blocks of a tar archive.

/// Everything in an archive comes in blocks of this length.
pub(super) const BLOCK: usize = 512;
/// The limits of the fields of a block.
pub(super) const NAME: usize = 100;
const MOST: u64 = 0o777_7777_7777;

/// The content of a header block. Names and numbers that do not fit are in the PAX records before
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) name: Vec<u8>,
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) seconds: i64,
    pub(super) kind: u8,
    pub(super) link: Vec<u8>,
}

pub(super) const FILE: u8 = b'0';
pub(super) const HARD_LINK: u8 = b'1';
pub(super) const LINK: u8 = b'2';
pub(super) const FOLDER: u8 = b'5';
pub(super) const RECORDS: u8 = b'x';
pub(super) const GLOBAL: u8 = b'g';

/// Whether a size fits into its field.
pub(super) fn fits(number: u64) -> bool {
    number <= MOST
}

impl Header {
    /// Encodes the block. The owner of a file is not part of a snapshot: it is always uid and gid
    /// 0.
    pub(super) fn encode(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.name[..self.name.len().min(NAME)]);
        put(100, format!("{:07o}", self.mode & 0o7777).as_bytes());
        put(108, b"0000000");
        put(116, b"0000000");
        let size = if fits(self.size) { self.size } else { 0 };
        put(124, format!("{size:011o}").as_bytes());
        let seconds = u64::try_from(self.seconds).ok().filter(|it| fits(*it));
        put(136, format!("{:011o}", seconds.unwrap_or(0)).as_bytes());
        put(148, b"        ");
        put(156, &[self.kind]);
        put(157, &self.link[..self.link.len().min(NAME)]);
        put(257, b"ustar\x0000");
        let sum = format!("{:06o}\0 ", sum(&block));
        block[148..156].copy_from_slice(sum.as_bytes());
        block
    }

    /// Decodes a block that is not empty.
    pub(super) fn decode(block: &[u8; BLOCK]) -> Result<Self, &'static str> {
        let claimed = octal(&block[148..156]).ok_or("its header is not a tar header")?;
        let mut blank = *block;
        blank[148..156].fill(b' ');
        if claimed != sum(&blank) {
            return Err("its header is damaged or not a tar header");
        }
        let mut name = text(&block[..100]).to_vec();
        match &block[257..265] {
            b"ustar\x0000" => {
                let before = text(&block[345..500]);
                if !before.is_empty() {
                    name = [before, b"/", &name].concat();
                }
            }
            // The GNU format, which has other fields after these, and the oldest format.
            b"ustar  \0" | [0, 0, 0, 0, 0, 0, 0, 0] => {}
            _ => return Err("its header has an unknown format"),
        }
        let mode = number(&block[100..108]).ok_or("its mode is not a number")?;
        let size = number(&block[124..136]).ok_or("its size is not a number")?;
        Ok(Self {
            name,
            // Some programs write the file type into the mode, too.
            mode: u32::try_from(mode & 0o7777).unwrap_or(0),
            size: u64::try_from(size).map_err(|_| "its size is negative")?,
            seconds: number(&block[136..148]).ok_or("its time is not a number")?,
            kind: block[156],
            link: text(&block[157..257]).to_vec(),
        })
    }
}

fn sum(block: &[u8; BLOCK]) -> i64 {
    block.iter().map(|byte| i64::from(*byte)).sum()
}

fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0);
    &field[..end.unwrap_or(field.len())]
}

/// A number in octal digits, or in bytes if the first bit is set.
fn number(field: &[u8]) -> Option<i64> {
    let (first, rest) = field.split_first()?;
    if first & 0x80 == 0 {
        return octal(field);
    }
    // Two's complement without the first bit.
    let top = i128::from(first & 0x7f) - if first & 0x40 == 0 { 0 } else { 0x80 };
    let value = rest.iter().try_fold(top, |value, byte| {
        value.checked_mul(256)?.checked_add(i128::from(*byte))
    })?;
    i64::try_from(value).ok()
}

fn octal(field: &[u8]) -> Option<i64> {
    let field = text(field).trim_ascii();
    field.iter().try_fold(0_i64, |value, byte| match byte {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(i64::from(byte - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            name: b"./a".to_vec(),
            mode: 0o4755,
            size: MOST,
            seconds: 1_794_738_089,
            kind: FILE,
            link: b"there".to_vec(),
        }
    }

    #[test]
    fn header_block_round_trips() {
        assert_eq!(Header::decode(&header().encode()), Ok(header()));
    }

    #[test]
    fn flipped_header_bits_are_refused_or_harmless() {
        let block = header().encode();
        for place in 0..BLOCK {
            for bit in 0..8 {
                let mut flipped = block;
                flipped[place] ^= 1 << bit;
                let read = Header::decode(&flipped);
                assert!(read.is_err() || read == Ok(header()), "{place} {bit}");
            }
        }
    }

    #[test]
    fn binary_numbers_keep_their_sign() {
        assert_eq!(number(&[0x80, 0, 0, 1, 0]), Some(256));
        assert_eq!(number(&[0xff, 0xff, 0xff, 0xff]), Some(-1));
        assert_eq!(number(&[0xff, 0xff, 0xff, 0x00]), Some(-256));
        assert_eq!(number(&[0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(number(b"00017\0"), Some(15));
        assert_eq!(number(b" 17 \0"), Some(15));
        assert_eq!(number(b"18\0"), None);
    }
}
