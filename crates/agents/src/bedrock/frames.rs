//! Binary event streams (`application/vnd.amazon.eventstream`): frames with headers, a payload and two
//! checksums. Nothing of a frame is used before both are right.

/// The longest frame that the format allows.
const LONGEST: usize = 24 << 20;

/// The longest headers that the format allows.
const LONGEST_HEADERS: usize = 128 << 10;

/// Two lengths and their checksum.
const PRELUDE: usize = 12;

/// A checksum.
const CHECK: usize = 4;

/// A frame, as far as it is of interest.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Headers that are text, in order.
    headers: Vec<(String, String)>,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// The text of a header; empty if there is none.
    pub(super) fn header(&self, name: &str) -> &str {
        let known = self.headers.iter().find(|(known, _)| known == name);
        known.map_or("", |(_, text)| text)
    }
}

/// Why bytes are no frame. What follows cannot be read either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Broken {
    #[error("the checksum of a frame's beginning is wrong")]
    Prelude,
    #[error("the lengths of a frame do not fit together")]
    Lengths,
    #[error("the checksum of a frame is wrong")]
    Frame,
    #[error("the headers of a frame cannot be read")]
    Headers,
}

/// Makes frames of bytes that arrive in any pieces.
#[derive(Default)]
pub(super) struct Frames {
    buffer: Vec<u8>,
}

impl Frames {
    /// Takes bytes in.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether bytes are left that are no whole frame.
    pub(super) fn is_amid(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// The next frame; `None` if it has not arrived in full.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, Broken> {
        let Some(prelude) = self.buffer.get(..PRELUDE) else {
            return Ok(None);
        };
        // A wrong length is found here, before anyone waits for so many bytes.
        if checksum(&prelude[..8]) != number(&prelude[8..]) {
            return Err(Broken::Prelude);
        }
        let (total, headers) = (size(&prelude[..4]), size(&prelude[4..8]));
        let least = PRELUDE + CHECK + headers.min(LONGEST_HEADERS);
        if headers > LONGEST_HEADERS || !(least..=LONGEST).contains(&total) {
            return Err(Broken::Lengths);
        }
        let Some(whole) = self.buffer.get(..total) else {
            return Ok(None);
        };
        let (said, check) = whole.split_at(total - CHECK);
        if checksum(said) != number(check) {
            return Err(Broken::Frame);
        }
        let (headers, payload) = said[PRELUDE..].split_at(headers);
        let frame = Frame {
            headers: read(headers).ok_or(Broken::Headers)?,
            payload: payload.to_vec(),
        };
        self.buffer.drain(..total);
        Ok(Some(frame))
    }
}

/// The headers that are text. Those of other sorts are passed over.
fn read(mut bytes: &[u8]) -> Option<Vec<(String, String)>> {
    let mut headers = Vec::new();
    while let [length, ..] = *bytes {
        let name = cut(&mut bytes, 1, length.into())?;
        let [sort, ..] = *bytes else { return None };
        let long = |bytes: &[u8]| match bytes {
            [_, high, low, ..] => Some(usize::from(u16::from_be_bytes([*high, *low]))),
            _ => None,
        };
        let value = match sort {
            0 | 1 => cut(&mut bytes, 1, 0)?,
            2 => cut(&mut bytes, 1, 1)?,
            3 => cut(&mut bytes, 1, 2)?,
            4 => cut(&mut bytes, 1, 4)?,
            5 | 8 => cut(&mut bytes, 1, 8)?,
            6 | 7 => {
                let length = long(bytes)?;
                cut(&mut bytes, 3, length)?
            }
            9 => cut(&mut bytes, 1, 16)?,
            _ => return None,
        };
        let name = String::from_utf8(name.to_vec()).ok()?;
        if sort == 7 {
            headers.push((name, String::from_utf8(value.to_vec()).ok()?));
        }
    }
    Some(headers)
}

/// Takes `length` bytes after `skipped` ones.
fn cut<'a>(bytes: &mut &'a [u8], skipped: usize, length: usize) -> Option<&'a [u8]> {
    let taken = bytes.get(skipped..skipped + length)?;
    *bytes = &bytes[skipped + length..];
    Some(taken)
}

fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn size(bytes: &[u8]) -> usize {
    usize::try_from(number(bytes)).unwrap_or(usize::MAX)
}

/// CRC-32, as in gzip.
fn checksum(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    !bytes.iter().fold(!0, |sum, byte| {
        TABLE[usize::from(sum.to_le_bytes()[0] ^ byte)] ^ sum >> 8
    })
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let (mut index, mut number) = (0, 0);
    while index < table.len() {
        let (mut value, mut bit) = (number, 0);
        while bit < 8 {
            value = if value & 1 == 1 {
                0xEDB8_8320 ^ value >> 1
            } else {
                value >> 1
            };
            bit += 1;
        }
        table[index] = value;
        index += 1;
        number += 1;
    }
    table
}

#[cfg(test)]
mod tests;
