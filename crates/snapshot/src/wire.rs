//! Encodes numbers, bytes and digests: the format of manifests, pack tables and the index.
//!
//! The reader trusts nothing: it compares every length with the remaining bytes before it uses it.

use segno_core::digest::Digest;

use crate::entry::FileTime;

/// Why bytes cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) &'static str);

/// Encodes values one after another.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// Seven bits per byte, the lowest first; the highest bit says that more bytes follow (LEB128).
    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }

    /// A number with the sign in the lowest bit (zigzag).
    pub(crate) fn signed(&mut self, number: i64) {
        self.number(((number << 1) ^ (number >> 63)).cast_unsigned());
    }

    pub(crate) fn size(&mut self, size: usize) {
        self.number(size as u64);
    }

    /// The length, then the bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.size(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn digest(&mut self, digest: &Digest) {
        self.0.extend_from_slice(digest.as_bytes());
    }

    pub(crate) fn file_time(&mut self, time: FileTime) {
        self.signed(time.seconds);
        self.number(u64::from(time.nanos));
    }
}

/// Decodes what a [`Writer`] encoded.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn byte(&mut self) -> Result<u8, Broken> {
        let (&first, rest) = self.0.split_first().ok_or(Broken("it ends too early"))?;
        self.0 = rest;
        Ok(first)
    }

    #[inline]
    pub(crate) fn number(&mut self) -> Result<u64, Broken> {
        match self.0 {
            // Most are short.
            [byte @ ..0x80, rest @ ..] => {
                self.0 = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_number(),
        }
    }

    fn long_number(&mut self) -> Result<u64, Broken> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Broken("a number is too long"))
    }

    pub(crate) fn signed(&mut self) -> Result<i64, Broken> {
        let number = self.number()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// A number that must fit into 32 bits.
    pub(crate) fn small(&mut self) -> Result<u32, Broken> {
        u32::try_from(self.number()?).map_err(|_| Broken("a number is too large"))
    }

    /// A number of items that follow, each of which takes at least `least` bytes.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize, Broken> {
        let count = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if count.saturating_mul(least) > self.0.len() {
            return Err(Broken("a count exceeds the data"));
        }
        Ok(count)
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Broken> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(Broken("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn chunk<const N: usize>(&mut self) -> Result<&'a [u8; N], Broken> {
        let (taken, rest) = self
            .0
            .split_first_chunk()
            .ok_or(Broken("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Broken> {
        let length = self.count(1)?;
        self.take(length)
    }

    pub(crate) fn digest(&mut self) -> Result<Digest, Broken> {
        let bytes = self.take(32)?;
        Digest::from_bytes(bytes).ok_or(Broken("it ends too early"))
    }

    pub(crate) fn file_time(&mut self) -> Result<FileTime, Broken> {
        let seconds = self.signed()?;
        let nanos = self.small()?;
        if nanos >= 1_000_000_000 {
            return Err(Broken("a timestamp has too many nanoseconds"));
        }
        Ok(FileTime { seconds, nanos })
    }

    /// Fails unless everything was read.
    pub(crate) fn end(&self) -> Result<(), Broken> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Broken("data follows its end"))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn encoded_values_round_trip(number: u64, signed: i64, bytes: Vec<u8>) {
            let mut writer = Writer::default();
            writer.number(number);
            writer.signed(signed);
            writer.bytes(&bytes);
            let mut reader = Reader(&writer.0);
            prop_assert_eq!(reader.number(), Ok(number));
            prop_assert_eq!(reader.signed(), Ok(signed));
            prop_assert_eq!(reader.bytes(), Ok(&bytes[..]));
            prop_assert_eq!(reader.end(), Ok(()));
        }
    }

    #[test]
    fn numbers_over_64_bits_are_refused() {
        assert!(Reader(&[0xff; 11]).number().is_err());
        let mut largest = [0xff; 10];
        largest[9] = 1;
        assert_eq!(Reader(&largest).number(), Ok(u64::MAX));
    }

    #[test]
    fn length_beyond_the_end_is_refused() {
        let mut writer = Writer::default();
        writer.number(u64::MAX);
        assert!(Reader(&writer.0).bytes().is_err());
        assert!(Reader(&writer.0).count(32).is_err());
    }
}
