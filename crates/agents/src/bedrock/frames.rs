//! Binary event streams (`application/vnd.amazon.eventstream`): frames with headers, a payload and
//! two checksums. Nothing of a frame is used before both checksums match.

use crc32fast::hash as checksum;

/// The longest frame that the format allows.
const LONGEST: usize = 24 << 20;

/// The longest headers that the format allows.
const LONGEST_HEADERS: usize = 128 << 10;

/// Two lengths and their checksum.
const PRELUDE: usize = 12;

/// A checksum.
const CHECKSUM: usize = 4;

/// The used parts of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Headers with string values, in order.
    headers: Vec<(String, String)>,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// The value of a header; empty if it is missing.
    pub(super) fn header(&self, name: &str) -> &str {
        let known = self.headers.iter().find(|(known, _)| known == name);
        known.map_or("", |(_, text)| text)
    }
}

/// Why bytes are no frame. The rest of the stream cannot be read either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    #[error("the checksum of a frame's prelude does not match")]
    Prelude,
    #[error("the lengths in a frame are inconsistent")]
    Lengths,
    #[error("the checksum of a frame does not match")]
    Frame,
    #[error("the headers of a frame cannot be parsed")]
    Headers,
}

/// Splits bytes that arrive in any chunks into frames.
#[derive(Default)]
pub(super) struct Frames {
    buffer: Vec<u8>,
}

impl Frames {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether an incomplete frame is left.
    pub(super) fn has_partial_frame(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// The next frame; `None` if it has not arrived completely.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(prelude) = self.buffer.get(..PRELUDE) else {
            return Ok(None);
        };
        // Detects a wrong length here, before waiting for that many bytes.
        if checksum(&prelude[..8]) != number(&prelude[8..]) {
            return Err(FrameError::Prelude);
        }
        let (total, headers) = (size(&prelude[..4]), size(&prelude[4..8]));
        let least = PRELUDE + CHECKSUM + headers.min(LONGEST_HEADERS);
        if headers > LONGEST_HEADERS || !(least..=LONGEST).contains(&total) {
            return Err(FrameError::Lengths);
        }
        let Some(whole) = self.buffer.get(..total) else {
            return Ok(None);
        };
        let (checked, check) = whole.split_at(total - CHECKSUM);
        if checksum(checked) != number(check) {
            return Err(FrameError::Frame);
        }
        let (headers, payload) = checked[PRELUDE..].split_at(headers);
        let frame = Frame {
            headers: read_headers(headers).ok_or(FrameError::Headers)?,
            payload: payload.to_vec(),
        };
        self.buffer.drain(..total);
        Ok(Some(frame))
    }
}

/// The headers with string values. Other types are skipped.
fn read_headers(mut bytes: &[u8]) -> Option<Vec<(String, String)>> {
    let mut headers = Vec::new();
    while let [length, ..] = *bytes {
        let name = take_bytes(&mut bytes, 1, length.into())?;
        let [value_type, ..] = *bytes else {
            return None;
        };
        let long = |bytes: &[u8]| match bytes {
            [_, high, low, ..] => Some(usize::from(u16::from_be_bytes([*high, *low]))),
            _ => None,
        };
        let value = match value_type {
            0 | 1 => take_bytes(&mut bytes, 1, 0)?,
            2 => take_bytes(&mut bytes, 1, 1)?,
            3 => take_bytes(&mut bytes, 1, 2)?,
            4 => take_bytes(&mut bytes, 1, 4)?,
            5 | 8 => take_bytes(&mut bytes, 1, 8)?,
            6 | 7 => {
                let length = long(bytes)?;
                take_bytes(&mut bytes, 3, length)?
            }
            9 => take_bytes(&mut bytes, 1, 16)?,
            _ => return None,
        };
        let name = String::from_utf8(name.to_vec()).ok()?;
        if value_type == 7 {
            headers.push((name, String::from_utf8(value.to_vec()).ok()?));
        }
    }
    Some(headers)
}

/// Takes `length` bytes after `skipped` ones.
fn take_bytes<'a>(bytes: &mut &'a [u8], skipped: usize, length: usize) -> Option<&'a [u8]> {
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

#[cfg(test)]
mod tests;
