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

use std::fmt::Write as _;

use argon2::{Algorithm, Argon2, Params, Version};

use crate::cipher::Cipher;

const OPEN: &str = "segno key 1";
const LOCKED: &str = "segno key 1 locked";

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locked {
    salt: [u8; 16],
    sealed: Vec<u8>,
}

impl KeyFile {
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

    /// The text of a plain key file.
    pub fn text(key: &[u8; 32]) -> String {
        format!("{OPEN}\n{}\n", digits(key))
    }

    /// The text of a key file that is locked with a passphrase.
    pub fn locked_text(
        key: &[u8; 32],
        passphrase: &str,
        salt: [u8; 16],
        file_salt: [u8; 32],
    ) -> String {
        let sealed = derive_key(passphrase, &salt).seal(file_salt, key);
        format!("{LOCKED}\n{}\n{}\n", digits(&salt), digits(&sealed))
    }
}

impl Locked {
    /// Decrypts the key, if the passphrase is right.
    pub fn unlock(&self, passphrase: &str) -> Result<Cipher, Error> {
        let key = derive_key(passphrase, &self.salt).unseal(&self.sealed);
        let key = key.map_err(|_| Error::WrongPassphrase)?;
        let key = key.try_into().map_err(|_| Error::NotAKey)?;
        Ok(Cipher::new(key))
    }
}

/// Derives a key from a passphrase with Argon2id, slowly and with much memory, so that guessing costs
/// the same.
fn derive_key(passphrase: &str, salt: &[u8; 16]) -> Cipher {
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
    fn locked_key_opens_only_with_its_passphrase() {
        let text = KeyFile::locked_text(&[9; 32], "correct horse", [3; 16], [4; 32]);
        assert!(!text.contains("0909"));
        let Ok(KeyFile::Locked(locked)) = KeyFile::parse(&text) else {
            panic!("{text}");
        };
        assert_eq!(locked.unlock("correct horse"), Ok(Cipher::new([9; 32])));
        assert_eq!(locked.unlock("battery staple"), Err(Error::WrongPassphrase));
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
        ] {
            assert_eq!(KeyFile::parse(text), Err(Error::NotAKey), "{text:?}");
        }
    }
}
