//! The file format of an encryption key: plain, or locked with a passphrase.
//!
//! ```text
//! segno key 1
//! <the key: 64 digits>
//! ```
//!
//! ```text
//! segno key 1 locked
//! <salt: 32 digits>
//! <the sealed key>
//! ```
//!
//! Keys, passphrases and what is between them are wiped from memory when they are dropped.

use std::fmt::{self, Write as _};

use argon2::{Algorithm, Argon2, Block, Params, Version};
use zeroize::{Zeroize, Zeroizing};

use crate::cipher::Cipher;

const OPEN: &str = "segno key 1";
const LOCKED: &str = "segno key 1 locked";
/// The longest line of digits that is read.
const LONGEST_LINE: usize = 1000;

/// Why a key file cannot be parsed or unlocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file is not a key file.
    #[error("it is not a key written by `segno config key new`")]
    NotAKey,
    /// The key was locked with another passphrase, or the file was changed.
    #[error("the passphrase is wrong")]
    WrongPassphrase,
}

/// A parsed key file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyFile {
    /// A plain key.
    Open(Cipher),
    /// A key that needs a passphrase.
    Locked(Locked),
}

/// A key that is encrypted with a passphrase.
#[derive(Clone, PartialEq, Eq)]
pub struct Locked {
    salt: [u8; 16],
    sealed: Vec<u8>,
}

impl fmt::Debug for Locked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Locked(…)")
    }
}

/// A passphrase, wiped from memory when it is dropped.
pub struct Passphrase(Zeroizing<String>);

impl Passphrase {
    /// `None` if `text` is empty.
    pub fn new(text: String) -> Option<Self> {
        (!text.is_empty()).then(|| Self(Zeroizing::new(text)))
    }

    /// The passphrase in a line that a human typed; `None` if there is nothing before the line's
    /// end.
    pub fn from_line(mut line: String) -> Option<Self> {
        line.truncate(line.trim_end_matches(['\r', '\n']).len());
        Self::new(line)
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(…)")
    }
}

/// The text of a key file, wiped from memory when it is dropped.
pub struct KeyText(Zeroizing<String>);

impl KeyText {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyText(…)")
    }
}

impl KeyFile {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut lines = text.lines().map(str::trim_end);
        let kind = lines.next().ok_or(Error::NotAKey)?;
        let mut line = || lines.next().and_then(bytes).ok_or(Error::NotAKey);
        match kind {
            OPEN => Ok(Self::Open(cipher(&line()?)?)),
            LOCKED => {
                let salt = line()?.as_slice().try_into().map_err(|_| Error::NotAKey)?;
                let sealed = line()?.to_vec();
                Ok(Self::Locked(Locked { salt, sealed }))
            }
            _ => Err(Error::NotAKey),
        }
    }

    /// The text of a plain key file.
    pub fn text(key: &[u8; 32]) -> KeyText {
        let mut text = Zeroizing::new(String::with_capacity(OPEN.len() + 2 + 2 * key.len()));
        text.push_str(OPEN);
        text.push('\n');
        push_digits(&mut text, key);
        text.push('\n');
        KeyText(text)
    }

    /// The text of a key file that is locked with a passphrase.
    pub fn locked_text(
        key: &[u8; 32],
        passphrase: &Passphrase,
        salt: [u8; 16],
        file_salt: [u8; 32],
    ) -> KeyText {
        let sealed = derive_key(passphrase, &salt).seal(file_salt, key);
        let mut text = Zeroizing::new(format!("{LOCKED}\n"));
        push_digits(&mut text, &salt);
        text.push('\n');
        push_digits(&mut text, &sealed);
        text.push('\n');
        KeyText(text)
    }
}

impl Locked {
    /// Decrypts the key, if the passphrase is right.
    pub fn unlock(&self, passphrase: &Passphrase) -> Result<Cipher, Error> {
        let key = derive_key(passphrase, &self.salt).unseal(&self.sealed);
        cipher(&Zeroizing::new(key.map_err(|_| Error::WrongPassphrase)?))
    }
}

fn cipher(key: &[u8]) -> Result<Cipher, Error> {
    let key: &[u8; 32] = key.try_into().map_err(|_| Error::NotAKey)?;
    Ok(Cipher::new(key))
}

/// Derives a key from a passphrase with Argon2id, slowly and with much memory, so that guessing costs
/// the same.
fn derive_key(passphrase: &Passphrase, salt: &[u8; 16]) -> Cipher {
    let params = Params::new(64 * 1024, 3, 1, Some(32)).expect("these are in range");
    let mut memory = vec![Block::new(); params.block_count()];
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let mut key = Zeroizing::new([0; 32]);
    let passphrase = passphrase.0.as_bytes();
    argon
        .hash_password_into_with_memory(passphrase, salt, &mut key[..], &mut memory)
        .expect("lengths are in range");
    memory.zeroize();
    Cipher::new(&key)
}

fn push_digits(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
}

fn bytes(digits: &str) -> Option<Zeroizing<Vec<u8>>> {
    if digits.len() > LONGEST_LINE {
        return None;
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
    for at in (0..digits.len()).step_by(2) {
        bytes.push(u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::freed_memory::left_by;

    /// The key of 32 nines, locked with "correct horse" and fixed salts.
    const LOCKED_NINES: &str = concat!(
        "segno key 1 locked\n",
        "03030303030303030303030303030303\n",
        "5345474e4f534631eea756551102d6e3",
        "0404040404040404040404040404040404040404040404040404040404040404",
        "74267ae8ef5bbf5b85798f02e66f1ab5d89dd5f60839a522932f1bcc6044da6d",
        "6bb5a789f3a58f0085807d489781ec9f\n",
    );

    fn passphrase(text: &str) -> Passphrase {
        Passphrase::new(text.to_owned()).unwrap()
    }

    #[test]
    fn a_key_reads_back() {
        let text = KeyFile::text(&[9; 32]);
        assert_eq!(text.as_str(), format!("segno key 1\n{}\n", "09".repeat(32)));
        assert_eq!(
            KeyFile::parse(text.as_str()),
            Ok(KeyFile::Open(Cipher::new(&[9; 32])))
        );
    }

    #[test]
    fn locked_key_opens_only_with_its_passphrase() {
        let text = KeyFile::locked_text(&[9; 32], &passphrase("correct horse"), [3; 16], [4; 32]);
        assert_eq!(text.as_str(), LOCKED_NINES);
        let Ok(KeyFile::Locked(locked)) = KeyFile::parse(text.as_str()) else {
            panic!("{}", text.as_str());
        };
        assert_eq!(
            locked.unlock(&passphrase("correct horse")),
            Ok(Cipher::new(&[9; 32]))
        );
        assert_eq!(
            locked.unlock(&passphrase("battery staple")),
            Err(Error::WrongPassphrase)
        );
    }

    #[test]
    fn invalid_key_files_are_refused() {
        for text in [
            "",
            "x",
            "segno key 1",
            "segno key 1\nzz\n",
            "segno key 1\n00\n",
            "segno key 2\n00",
            "segno key 1 locked\n00\n00",
            "segno key 1 locked\n000\n00",
            "segno key 1 locked\n03030303030303030303030303030303\n000",
            "segno key 1 locked\n03030303030303030303030303030303\n0é0",
            "segno key 1 locked\n03030303030303030303030303030303\né",
        ] {
            assert_eq!(KeyFile::parse(text), Err(Error::NotAKey), "{text:?}");
        }
    }

    #[test]
    fn too_long_lines_of_digits_are_refused() {
        let text = |length| format!("{LOCKED}\n{}\n{}", "03".repeat(16), "0".repeat(length));
        assert!(matches!(
            KeyFile::parse(&text(1000)),
            Ok(KeyFile::Locked(_))
        ));
        assert_eq!(KeyFile::parse(&text(1002)), Err(Error::NotAKey));
    }
    #[test]
    fn typed_line_becomes_a_passphrase() {
        for (line, expected) in [
            ("correct horse\n", Some("correct horse")),
            (" correct horse \r\n", Some(" correct horse ")),
            ("x", Some("x")),
            ("\r\n", None),
            ("", None),
        ] {
            let passphrase = Passphrase::from_line(line.to_owned());
            let text = passphrase.as_ref().map(|passphrase| passphrase.0.as_str());
            assert_eq!(text, expected, "{line:?}");
        }
    }

    #[test]
    fn dropped_passphrase_leaves_no_text() {
        let passphrase = passphrase("correct horse battery staple 123");
        let address = passphrase.0.as_ptr().addr();
        assert_eq!(left_by(passphrase, address), [0; 16]);
    }

    #[test]
    fn debug_shows_no_key_and_no_passphrase() {
        let shown = format!("{:?}", passphrase("correct horse"));
        assert_eq!(shown, "Passphrase(…)");
        let text = KeyFile::text(&[9; 32]);
        assert_eq!(format!("{text:?}"), "KeyText(…)");
        let open = KeyFile::parse(text.as_str()).unwrap();
        assert_eq!(format!("{open:?}"), "Open(Cipher(…))");
        let locked = Locked {
            salt: [3; 16],
            sealed: vec![9; 64],
        };
        assert_eq!(format!("{locked:?}"), "Locked(…)");
    }
}
