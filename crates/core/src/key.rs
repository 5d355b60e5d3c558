//! The file that a key is kept in: as it is, or locked with a passphrase.
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

use std::fmt::Write as _;

use argon2::{Algorithm, Argon2, Params, Version};

use crate::cipher::Cipher;

const OPEN: &str = "segno key 1";
const LOCKED: &str = "segno key 1 locked";

/// Why a file is no key, or does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is something else.
    #[error("it is not a key that `segno key new` wrote")]
    NotAKey,
    /// It was locked with another passphrase, or changed.
    #[error("the passphrase does not fit")]
    WrongPassphrase,
}

/// A key as it stands in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyFile {
    /// It can be used.
    Open(Cipher),
    /// It needs a passphrase.
    Locked(Locked),
}

/// A key that needs a passphrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locked {
    salt: [u8; 16],
    sealed: Vec<u8>,
}

impl KeyFile {
    /// Reads the file.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut lines = text.lines().map(str::trim_end);
        let kind = lines.next().ok_or(Error::NotAKey)?;
        let mut line = || lines.next().and_then(bytes).ok_or(Error::NotAKey);
        let fixed = |_| Error::NotAKey;
        match kind {
            OPEN => {
                let key = line()?.try_into().map_err(fixed)?;
                Ok(Self::Open(Cipher::new(key)))
            }
            LOCKED => {
                let salt = line()?.try_into().map_err(|_| Error::NotAKey)?;
                let sealed = line()?;
                Ok(Self::Locked(Locked { salt, sealed }))
            }
            _ => Err(Error::NotAKey),
        }
    }

    /// The text of a file for a new key.
    pub fn text(key: &[u8; 32]) -> String {
        format!("{OPEN}\n{}\n", digits(key))
    }

    /// The text of a file for a new key that needs a passphrase.
    pub fn locked_text(
        key: &[u8; 32],
        passphrase: &str,
        salt: [u8; 16],
        chance: [u8; 32],
    ) -> String {
        let sealed = stretch(passphrase, &salt).seal(chance, key);
        format!("{LOCKED}\n{}\n{}\n", digits(&salt), digits(&sealed))
    }
}

impl Locked {
    /// The key, if the passphrase fits.
    pub fn unlock(&self, passphrase: &str) -> Result<Cipher, Error> {
        let key = stretch(passphrase, &self.salt).unseal(&self.sealed);
        let key = key.map_err(|_| Error::WrongPassphrase)?;
        let key = key.try_into().map_err(|_| Error::NotAKey)?;
        Ok(Cipher::new(key))
    }
}

/// Makes a key of a passphrase, slowly and with much memory: guessing has to pay the same.
fn stretch(passphrase: &str, salt: &[u8; 16]) -> Cipher {
    let params = Params::new(64 * 1024, 3, 1, Some(32)).expect("these are in range");
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let mut key = [0; 32];
    argon
        .hash_password_into(passphrase.as_bytes(), salt, &mut key)
        .expect("lengths are in range");
    Cipher::new(key)
}

fn digits(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) || digits.len() > 1000 {
        return None;
    }
    let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_back() {
        let text = KeyFile::text(&[9; 32]);
        assert_eq!(
            KeyFile::parse(&text),
            Ok(KeyFile::Open(Cipher::new([9; 32])))
        );
    }

    #[test]
    fn a_locked_key_opens_with_its_passphrase_alone() {
        let text = KeyFile::locked_text(&[9; 32], "correct horse", [3; 16], [4; 32]);
        assert!(!text.contains("0909"));
        let Ok(KeyFile::Locked(locked)) = KeyFile::parse(&text) else {
            panic!("{text}");
        };
        assert_eq!(locked.unlock("correct horse"), Ok(Cipher::new([9; 32])));
        assert_eq!(locked.unlock("battery staple"), Err(Error::WrongPassphrase));
    }

    #[test]
    fn what_is_no_key_is_said_to_be_none() {
        for text in [
            "",
            "x",
            "segno key 1",
            "segno key 1\nzz\n",
            "segno key 1\n00\n",
            "segno key 2\n00",
        ] {
            assert_eq!(KeyFile::parse(text), Err(Error::NotAKey), "{text:?}");
        }
    }
}
