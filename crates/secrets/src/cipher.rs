//! Encryption of stored data: without the key, the bytes on disk reveal nothing.
//!
//! ```text
//! "SEGNOSF1" | id of the key (8) | salt (32) | frames
//! ```
//!
//! Each file has a key of its own, derived from the installation's key and the salt. A frame holds up to
//! 64 KiB and is sealed with ChaCha20-Poly1305; the nonce is the frame's number and whether it is the
//! last one. So changed, moved, missing or added frames do not decrypt, and each frame can be read by
//! itself.
//!
//! The installation's key is wiped from memory when its [`Cipher`] is dropped, and what is derived
//! from it as soon as it was used. A [`FileKey`] is not wiped: `ring` has no way to.

use std::fmt;

use blake3::Hasher;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use zeroize::{Zeroize, Zeroizing};

/// The magic bytes of a sealed file.
pub const MAGIC: &[u8; 8] = b"SEGNOSF1";
/// The length of the header before the frames.
pub const HEADER: usize = 8 + 8 + 32;
/// The plaintext size of every frame except the last.
pub const FRAME: usize = 64 * 1024;
/// How much longer a sealed frame is than its plaintext.
pub const TAG: usize = 16;

const ID_CONTEXT: &str = "segno 2026 key id";
const FILE_CONTEXT: &str = "segno 2026 file key";

/// The key of an installation.
#[derive(Clone, PartialEq, Eq)]
pub struct Cipher {
    /// In a box, so that a move of the cipher leaves no copy behind.
    key: Box<Zeroizing<[u8; 32]>>,
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher(…)")
    }
}

/// The key of one file.
pub struct FileKey(LessSafeKey);

impl fmt::Debug for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileKey(…)")
    }
}

/// Why a file cannot be decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecryptError {
    #[error("it is encrypted, but no key is set")]
    NoKey,
    /// Another key sealed it.
    #[error("it is encrypted with another key")]
    OtherKey,
    /// The file was changed or truncated.
    #[error("it cannot be decrypted with its key: it was changed or truncated")]
    Damaged,
}

impl Cipher {
    /// Copies `key`; the caller wipes the original.
    pub fn new(key: &[u8; 32]) -> Self {
        let mut boxed = Box::new(Zeroizing::new([0; 32]));
        boxed.copy_from_slice(key);
        Self { key: boxed }
    }

    /// An id that distinguishes keys without revealing them.
    pub fn id(&self) -> [u8; 8] {
        let id = self.derive(ID_CONTEXT, &[]);
        let mut short = [0; 8];
        short.copy_from_slice(&id[..8]);
        short
    }

    /// The header of a new file, and the key for its frames. `salt` must be random.
    pub fn new_file(&self, salt: [u8; 32]) -> ([u8; HEADER], FileKey) {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(MAGIC);
        header[8..16].copy_from_slice(&self.id());
        header[16..].copy_from_slice(&salt);
        (header, self.file_key(&salt))
    }

    /// The key for the frames of a file with this header.
    pub fn open(&self, header: &[u8; HEADER]) -> Result<FileKey, DecryptError> {
        if header[8..16] != self.id() {
            return Err(DecryptError::OtherKey);
        }
        Ok(self.file_key(&header[16..]))
    }

    fn file_key(&self, salt: &[u8]) -> FileKey {
        let key = self.derive(FILE_CONTEXT, salt);
        let key = UnboundKey::new(&CHACHA20_POLY1305, &key[..]).expect("a key has 32 bytes");
        FileKey(LessSafeKey::new(key))
    }

    /// Derives bytes from the key and a salt. Wipes the state of the hash function.
    fn derive(&self, context: &str, salt: &[u8]) -> Zeroizing<[u8; 32]> {
        let mut hasher = Hasher::new_derive_key(context);
        hasher.update(&**self.key).update(salt);
        let mut hash = hasher.finalize();
        let derived = Zeroizing::new(*hash.as_bytes());
        hash.zeroize();
        hasher.zeroize();
        derived
    }

    /// Seals a short text as a whole.
    pub fn seal(&self, salt: [u8; 32], bytes: &[u8]) -> Vec<u8> {
        let (header, key) = self.new_file(salt);
        let mut sealed = header.to_vec();
        let frames = bytes.chunks(FRAME).count().max(1) as u64;
        for number in 0..frames {
            let from = bytes
                .len()
                .min(usize::try_from(number).unwrap_or(0) * FRAME);
            let to = bytes.len().min(from + FRAME);
            let mut frame = bytes[from..to].to_vec();
            key.seal(number, number + 1 == frames, &mut frame);
            sealed.append(&mut frame);
        }
        sealed
    }

    /// Decrypts what [`Cipher::seal`] returned.
    pub fn unseal(&self, sealed: &[u8]) -> Result<Vec<u8>, DecryptError> {
        let (header, body) = sealed
            .split_first_chunk::<HEADER>()
            .ok_or(DecryptError::Damaged)?;
        let key = self.open(header)?;
        let mut bytes = Vec::with_capacity(body.len());
        let frames = body.chunks(FRAME + TAG);
        let last = frames.len().checked_sub(1).ok_or(DecryptError::Damaged)?;
        for (number, frame) in frames.enumerate() {
            let mut frame = frame.to_vec();
            let opened = key.unseal(number as u64, number == last, &mut frame)?;
            bytes.extend_from_slice(opened);
        }
        Ok(bytes)
    }
}

impl FileKey {
    /// Seals a frame in place, which makes it longer by [`TAG`].
    pub fn seal(&self, number: u64, last: bool, frame: &mut Vec<u8>) {
        let sealed = self
            .0
            .seal_in_place_append_tag(nonce(number, last), Aad::empty(), frame);
        sealed.expect("a frame is short enough");
    }

    /// Decrypts a frame in place.
    pub fn unseal<'a>(
        &self,
        number: u64,
        last: bool,
        frame: &'a mut [u8],
    ) -> Result<&'a [u8], DecryptError> {
        let opened = self
            .0
            .open_in_place(nonce(number, last), Aad::empty(), frame);
        opened
            .map(|bytes| &*bytes)
            .map_err(|_| DecryptError::Damaged)
    }
}

fn nonce(number: u64, last: bool) -> Nonce {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    nonce[8] = u8::from(last);
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::freed_memory::left_by;

    fn bytes(length: usize) -> Vec<u8> {
        (0..=250).cycle().take(length).collect()
    }

    #[test]
    fn sealed_bytes_open_only_with_their_key() {
        let cipher = Cipher::new(&[7; 32]);
        for length in [0, 1, FRAME - 1, FRAME, FRAME + 1, 3 * FRAME] {
            let sealed = cipher.seal([1; 32], &bytes(length));
            assert_eq!(cipher.unseal(&sealed), Ok(bytes(length)));
            let other = Cipher::new(&[8; 32]);
            assert_eq!(other.unseal(&sealed), Err(DecryptError::OtherKey));
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_detected() {
        let cipher = Cipher::new(&[7; 32]);
        let sealed = cipher.seal([1; 32], b"a secret");
        for at in 8..sealed.len() {
            for bit in 0..8 {
                let mut flipped = sealed.clone();
                flipped[at] ^= 1 << bit;
                assert!(cipher.unseal(&flipped).is_err(), "{at} {bit}");
            }
        }
        for length in 0..sealed.len() {
            assert!(cipher.unseal(&sealed[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn frames_cannot_be_moved_dropped_or_added() {
        let cipher = Cipher::new(&[7; 32]);
        let sealed = cipher.seal([1; 32], &bytes(3 * FRAME));
        let (header, body) = sealed.split_at(HEADER);
        let frames: Vec<&[u8]> = body.chunks(FRAME + TAG).collect();
        for order in [&[0, 1][..], &[1, 0, 2], &[0, 2], &[0, 1, 2, 2], &[2]] {
            let mixed: Vec<u8> = order.iter().flat_map(|at| frames[*at].to_vec()).collect();
            assert!(
                cipher.unseal(&[header, &mixed].concat()).is_err(),
                "{order:?}"
            );
        }
    }

    #[test]
    fn salt_changes_the_ciphertext_and_debug_hides_the_key() {
        let cipher = Cipher::new(&[7; 32]);
        assert_ne!(
            cipher.seal([1; 32], b"x")[HEADER..],
            cipher.seal([2; 32], b"x")[HEADER..]
        );
        assert_eq!(format!("{cipher:?}"), "Cipher(…)");
        let (_, key) = cipher.new_file([1; 32]);
        assert_eq!(format!("{key:?}"), "FileKey(…)");
    }
    /// The format, for one key and one salt. Other bytes could not be read by other versions.
    #[test]
    fn sealed_bytes_are_stable() {
        let sealed = Cipher::new(&[7; 32]).seal([1; 32], b"a secret");
        let digits: Vec<String> = sealed.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = concat!(
            "5345474e4f5346315efb7fa7312da449",
            "0101010101010101010101010101010101010101010101010101010101010101",
            "304d515b0ad009e0cf4a7b3a7997baa3dbab930555b29c7f",
        );
        assert_eq!(digits.concat(), expected);
        // A header of 48 bytes, and a tag of 16 for each 64 KiB.
        for (length, sealed) in [(65_536, 65_600), (65_537, 65_617)] {
            let bytes = bytes(length);
            assert_eq!(Cipher::new(&[7; 32]).seal([1; 32], &bytes).len(), sealed);
        }
    }

    #[test]
    fn dropped_cipher_leaves_no_key() {
        let cipher = Cipher::new(&[7; 32]);
        let copy = cipher.clone();
        for cipher in [cipher, copy] {
            let address = std::ptr::from_ref(&**cipher.key).addr();
            assert_eq!(left_by(cipher, address), [0; 16]);
        }
    }
}
