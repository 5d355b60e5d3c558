//! The contract of a remote: an object store in a bucket, or in a folder of another machine.
//!
//! A remote knows names and bytes, and nothing of their meaning. An object is never changed; other
//! content needs another name.

use std::path::Path;

use crate::error::{Diagnose, Diagnosis, Kind};
use crate::ports::Boxed;
use crate::time::Timestamp;

/// The future that every method of a remote returns.
pub type Reply<'a, T> = Boxed<'a, Result<T, Error>>;

/// Stores objects by name.
///
/// A name consists of segments of letters, digits, `.`, `-` and `_`, joined by `/`; anything else is
/// [`Error::Name`]. Any number of processes and machines may use one remote at the same time.
///
/// Every method retries transient errors by itself, for a bounded time: a busy server, a lost response,
/// a truncated body. The result is final.
pub trait Remote: Send + Sync {
    /// The URL for users, without secrets.
    fn url(&self) -> &str;

    /// Every object whose name starts with `folder` and a `/`, sorted by name; all objects if `folder`
    /// is empty. Includes every object that was created before the call.
    fn list<'a>(&'a self, folder: &'a str) -> Reply<'a, Vec<Object>>;

    /// Reads the whole object. An object longer than `limit` is [`Error::Damaged`].
    fn read<'a>(&'a self, name: &'a str, limit: u64) -> Reply<'a, Vec<u8>>;

    /// Creates an object with these bytes. It exists completely or not at all, durable when this
    /// returns. Of any number of concurrent calls for one name, one returns [`Put::New`], and its bytes
    /// stay.
    ///
    /// If the response to the successful call was lost, that caller may also get [`Put::Exists`].
    fn create<'a>(&'a self, name: &'a str, bytes: Vec<u8>) -> Reply<'a, Put>;

    /// Creates an object from a file whose name identifies its content: an existing object of the same
    /// name and length counts as equal and is not sent again, one of another length is replaced. It
    /// exists completely or not at all, durable when this returns.
    fn upload<'a>(&'a self, name: &'a str, file: &'a Path) -> Reply<'a, Put>;

    /// Writes an object of `length` bytes into an existing empty file. Checks only the length; the
    /// caller makes the file durable when it renames it to its final name.
    fn download<'a>(&'a self, name: &'a str, length: u64, file: &'a Path) -> Reply<'a, ()>;

    /// Deletes an object. Deleting a missing object is not an error.
    fn delete<'a>(&'a self, name: &'a str) -> Reply<'a, ()>;
}

/// A listed object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub name: String,
    pub length: u64,
    /// When the object was created, by the remote's clock.
    pub at: Timestamp,
}

/// The result of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// The object was created.
    New,
    /// An object of that name existed.
    Exists,
}

/// Why an operation on a remote failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The remote cannot be reached, or cannot answer now.
    #[error("remote {place} cannot be used: {reason}")]
    Unavailable { place: String, reason: String },
    /// The remote refuses this user.
    #[error("remote {place} denies access: {reason}")]
    Denied {
        place: String,
        /// The remote's message.
        reason: String,
    },
    /// The bucket or folder does not exist.
    #[error("remote {place} does not exist")]
    NoSuchRemote { place: String },
    /// The object does not exist.
    #[error("remote {place} has no {object}")]
    Missing { place: String, object: String },
    /// An object is not what was stored there.
    #[error("{object} in remote {place} is damaged: {reason}")]
    Damaged {
        place: String,
        object: String,
        /// How the damage was noticed.
        reason: String,
    },
    /// The URL is not that of a remote.
    #[error("`{url}` is not the URL of a remote: {reason}")]
    Url { url: String, reason: String },
    /// A name that no object can have. A bug in Segno.
    #[error("`{0}` is not a valid object name")]
    Name(String),
    /// A local file could not be read or written.
    #[error("{place} cannot be transferred: {reason}")]
    File { place: String, reason: String },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Unavailable { .. } => Diagnosis::new(Kind::Unavailable, "K0301").hint(
                "the local checkpoints are intact; push them later with `segno checkpoint push --all`",
            ),
            Self::Denied { place, .. } if place.starts_with("s3:") => {
                Diagnosis::new(Kind::Forbidden, "K0302").hint(
                    "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, and the permissions of the key",
                )
            }
            Self::Denied { .. } => Diagnosis::new(Kind::Forbidden, "K0302"),
            Self::NoSuchRemote { place } => {
                Diagnosis::new(Kind::NotFound, "K0303").hint(match place.strip_prefix("file://") {
                    Some(folder) => format!("create it with `mkdir -m 700 {folder}`, or mount it"),
                    None => "create the bucket, or correct `remote.url` in config.toml".into(),
                })
            }
            Self::Missing { .. } => Diagnosis::new(Kind::NotFound, "K0304"),
            Self::Damaged { .. } => Diagnosis::new(Kind::FailedVerification, "K0305"),
            Self::Url { .. } => Diagnosis::new(Kind::Invalid, "K0306").hint(
                "set `remote.url` in config.toml to `s3://BUCKET/PREFIX` or `file:///FOLDER`",
            ),
            Self::Name(_) => Diagnosis::new(Kind::Internal, "K0307"),
            Self::File { .. } => Diagnosis::new(Kind::Unavailable, "K0308"),
        }
    }
}

/// Whether an object can have this name.
pub fn is_object_name(name: &str) -> bool {
    let word = |word: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        !matches!(word, "" | "." | "..") && word.chars().all(allowed)
    };
    name.len() <= 512 && name.split('/').all(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_names_cannot_escape() {
        for good in ["a", "packs/0f", "checkpoints/01J/01K.json", "a..b/c-d_e"] {
            assert!(is_object_name(good), "{good}");
        }
        for bad in [
            "", "/", "/a", "a/", "a//b", "..", "a/../b", "./a", "a b", "a\0", "a#1", "é",
        ] {
            assert!(!is_object_name(bad), "{bad}");
        }
        assert!(!is_object_name(&"a".repeat(513)));
    }
}
