//! A remote whose announcements are encrypted. All other objects are encrypted before they come
//! here.

use std::path::Path;
use std::sync::Arc;

use segno_core::announcement::FOLDER;
use segno_core::ports::Random;
use segno_core::remote::{Error, Object, Put, Remote, Reply};
use segno_secrets::cipher::{Cipher, DecryptError, MAGIC};

/// Finds the key when it is first needed; `None` if announcements are not encrypted.
pub type FindKey = dyn Fn() -> Result<Option<Cipher>, String> + Send + Sync;

/// Encrypts announcements on their way to another remote.
pub struct EncryptedRemote {
    inner: Arc<dyn Remote>,
    key: Box<FindKey>,
    random: Arc<dyn Random>,
}

impl EncryptedRemote {
    /// Wraps another remote.
    pub fn new(inner: Arc<dyn Remote>, key: Box<FindKey>, random: Arc<dyn Random>) -> Self {
        Self { inner, key, random }
    }

    fn key(&self) -> Result<Option<Cipher>, Error> {
        (self.key)().map_err(|reason| self.denied(reason))
    }

    fn denied(&self, reason: String) -> Error {
        Error::Denied {
            place: self.inner.url().to_owned(),
            reason,
        }
    }

    /// Decrypts an announcement; one from before there was a key is returned as it is.
    fn open(&self, name: &str, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
        if !is_announcement(name) || !bytes.starts_with(MAGIC) {
            return Ok(bytes);
        }
        let opened = match self.key()? {
            None => Err(DecryptError::NoKey),
            Some(cipher) => cipher.unseal(&bytes),
        };
        opened.map_err(|shut| match shut {
            DecryptError::Damaged => Error::Damaged {
                place: self.inner.url().to_owned(),
                object: name.to_owned(),
                reason: shut.to_string(),
            },
            DecryptError::NoKey | DecryptError::OtherKey => self.denied(format!("{name}: {shut}")),
        })
    }
}

fn is_announcement(name: &str) -> bool {
    let rest = name.strip_prefix(FOLDER);
    rest.is_some_and(|rest| rest.starts_with('/'))
}

impl Remote for EncryptedRemote {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn list<'a>(&'a self, folder: &'a str) -> Reply<'a, Vec<Object>> {
        self.inner.list(folder)
    }

    fn read<'a>(&'a self, name: &'a str, limit: u64) -> Reply<'a, Vec<u8>> {
        Box::pin(async move {
            let bytes = self.inner.read(name, limit).await?;
            self.open(name, bytes)
        })
    }

    fn create<'a>(&'a self, name: &'a str, bytes: Vec<u8>) -> Reply<'a, Put> {
        Box::pin(async move {
            let bytes = match self.key()?.filter(|_| is_announcement(name)) {
                None => bytes,
                Some(cipher) => {
                    let mut salt = [0; 32];
                    self.random.fill(&mut salt);
                    cipher.seal(salt, &bytes)
                }
            };
            self.inner.create(name, bytes).await
        })
    }

    fn upload<'a>(&'a self, name: &'a str, file: &'a Path) -> Reply<'a, Put> {
        self.inner.upload(name, file)
    }

    fn download<'a>(&'a self, name: &'a str, bytes: u64, file: &'a Path) -> Reply<'a, ()> {
        self.inner.download(name, bytes, file)
    }

    fn delete<'a>(&'a self, name: &'a str) -> Reply<'a, ()> {
        self.inner.delete(name)
    }
}
